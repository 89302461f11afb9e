"""Questions put to the person at the editor, and their choices as answers."""

from typing import Any

import pytest

from treadle.doors.acp.door import UNANSWERABLE, options_of, put
from treadle.errors import PeerClosed
from treadle.events import Asked
from treadle.session import Answer

PERMISSION = Asked(request="r", kind="permission", text="may I?", name="bash")
QUESTION = Asked(request="r", kind="question", text="which?", options=("red", "blue"))


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
