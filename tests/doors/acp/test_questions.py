"""Questions put to the person at the editor, and their choices as answers."""

from typing import Any

import pytest

from treadle.doors.acp.questions import UNANSWERABLE, options_of, put, read_choice
from treadle.errors import PeerClosed
from treadle.events import Asked
from treadle.session import Answer

PERMISSION = Asked(request="r", kind="permission", text="may I?", name="bash")
QUESTION = Asked(request="r", kind="question", text="which?", options=("red", "blue"))
PLAN = Asked(request="r", kind="plan", text="first this, then that")


def chosen(option: str) -> Any:
    return {"outcome": {"outcome": "selected", "optionId": option}}


class Editor:
    def __init__(self, result: Any) -> None:
        self.result = result
        self.calls: list[tuple[str, dict[str, Any]]] = []

    async def __call__(self, method: str, params: dict[str, Any]) -> Any:
        self.calls.append((method, params))
        if isinstance(self.result, Exception):
            raise self.result
        return self.result


@pytest.mark.parametrize(
    ("asked", "option", "answer"),
    [
        (PERMISSION, "once", Answer(decision="allow")),
        (PERMISSION, "session", Answer(decision="allow", scope="session")),
        (PERMISSION, "always", Answer(decision="allow", scope="always")),
        (PERMISSION, "reject", Answer(decision="deny")),
        (PLAN, "once", Answer(decision="allow")),
        (PLAN, "reject", Answer(decision="deny")),
        (QUESTION, "choice-1", Answer(decision="allow", text="blue")),
        (QUESTION, "reject", Answer(decision="deny")),
    ],
)
def test_a_choice_is_an_answer(asked: Asked, option: str, answer: Answer) -> None:
    assert option in {one["optionId"] for one in options_of(asked)}
    assert read_choice(asked, chosen(option)) == answer


@pytest.mark.parametrize(
    "result",
    [
        None,
        {},
        {"outcome": {"outcome": "cancelled"}},
        chosen("choice-7"),
        chosen("choice-x"),
        chosen("odd"),
        chosen(""),
    ],
)
@pytest.mark.parametrize("asked", [PERMISSION, QUESTION, PLAN])
def test_what_cannot_be_understood_is_a_no(asked: Asked, result: Any) -> None:
    assert read_choice(asked, result).decision == "deny"


@pytest.mark.parametrize("name", ["updatedInput", "rawInput", "input"])
def test_an_approval_with_another_input_is_not_one_of_what_was_asked(name: str) -> None:
    other = {"command": "touch other.txt"}
    for result in (
        {"outcome": {**chosen("once")["outcome"], name: other}},
        {**chosen("once"), name: other},
        {**chosen("once"), "_meta": {name: other}},
    ):
        assert read_choice(PERMISSION, result) == Answer(decision="allow", changed_args=other)


async def test_a_permission_is_requested_with_the_call_it_is_for() -> None:
    editor = Editor(chosen("once"))
    answer = await put(editor, "s", PERMISSION, {"toolCallId": "c"}, forms=True)
    assert answer.decision == "allow"
    [(method, params)] = editor.calls
    assert method == "session/request_permission" and params["toolCall"] == {"toolCallId": "c"}


async def test_a_question_in_words_needs_a_form() -> None:
    words = Asked(request="r", kind="question", text="what name?")
    editor = Editor({"action": "accept", "content": {"answer": "Ada"}})
    assert (await put(editor, "s", words, {}, forms=True)).text == "Ada"
    assert editor.calls[0][0] == "elicitation/create"
    answer = await put(editor, "s", words, {}, forms=False)
    assert (answer.decision, answer.text, answer.by) == ("deny", UNANSWERABLE, "nobody")


@pytest.mark.parametrize("result", [None, {"action": "decline"}, {"action": "accept", "content": {"answer": 3}}])
async def test_a_form_that_was_not_filled_in_is_a_no(result: Any) -> None:
    assert (await put(Editor(result), "s", QUESTION, {}, forms=True)).decision == "deny"


async def test_a_form_offers_the_choices_there_are() -> None:
    editor = Editor({"action": "accept", "content": {"answer": "red"}})
    assert (await put(editor, "s", QUESTION, {}, forms=True)).text == "red"
    assert editor.calls[0][1]["requestedSchema"]["properties"]["answer"]["enum"] == ["red", "blue"]


async def test_an_editor_that_is_gone_has_said_no() -> None:
    answer = await put(Editor(PeerClosed("gone")), "s", PERMISSION, {}, forms=False)
    assert answer.decision == "deny" and "gone" in answer.text
