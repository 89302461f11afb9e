"""Questions put to the person at the editor, and their choices as answers."""

from typing import Any

import pytest

from treadle.doors.acp.door import UNANSWERABLE, options_of, put, read_choice
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


@pytest.mark.parametrize(
    ("asked", "result", "text"),
    [
        (QUESTION, chosen("choice-2"), "no one chose"),
        (QUESTION, chosen("choice-²"), "no one chose"),
        (QUESTION, chosen("once"), "no one chose"),
        (QUESTION, chosen("reject"), ""),
        (PERMISSION, chosen("choice-0"), "no one chose"),
        (PERMISSION, {"outcome": {"outcome": "cancelled", "optionId": "once"}}, "no one chose"),
        (PERMISSION, {"outcome": "selected"}, "no one chose"),
    ],
)
def test_a_no_says_whether_anyone_chose(asked: Asked, result: Any, text: str) -> None:
    assert read_choice(asked, result) == Answer(decision="deny", text=text, by="person")


def test_each_choice_can_be_told_apart_and_refused() -> None:
    assert options_of(QUESTION) == [
        {"optionId": "choice-0", "name": "red", "kind": "allow_once"},
        {"optionId": "choice-1", "name": "blue", "kind": "allow_once"},
        {"optionId": "reject", "name": "Do not answer", "kind": "reject_once"},
    ]
    assert read_choice(QUESTION, chosen("choice-0")).text == "red"
    assert [one["optionId"] for one in options_of(PLAN)] == ["once", "reject"]
    assert [one["kind"] for one in options_of(PERMISSION)] == [
        "allow_once",
        "allow_always",
        "allow_always",
        "reject_once",
    ]


async def test_a_question_with_choices_is_a_request_where_there_are_no_forms() -> None:
    editor = Editor(chosen("choice-1"))
    assert (await put(editor, "s", QUESTION, {"toolCallId": "c"}, forms=False)).text == "blue"
    params = {"sessionId": "s", "toolCall": {"toolCallId": "c"}, "options": options_of(QUESTION)}
    assert editor.calls == [("session/request_permission", params)]


async def test_a_form_says_what_is_asked_and_takes_words_only_when_they_are_accepted() -> None:
    words = Asked(request="r", kind="question", text="what name?")
    editor = Editor({"action": "accept", "content": {"answer": "Ada"}})
    assert await put(editor, "s", words, {}, forms=True) == Answer(decision="allow", text="Ada")
    field = {"type": "string", "title": "Answer"}
    schema = {"type": "object", "properties": {"answer": field}, "required": ["answer"]}
    asked = {"sessionId": "s", "mode": "form", "message": "what name?", "requestedSchema": schema}
    assert editor.calls == [("elicitation/create", asked)]
    for result in ({"action": "cancel", "content": {"answer": "Ada"}}, {"action": "accept", "content": []}, []):
        refused = await put(Editor(result), "s", words, {}, forms=True)
        assert refused == Answer(decision="deny", text="not answered", by="person")
    gone = await put(Editor(PeerClosed("gone")), "s", words, {}, forms=True)
    assert (gone.text, gone.by) == ("the editor could not be asked: gone", "nobody")
