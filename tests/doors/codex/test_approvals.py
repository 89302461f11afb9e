"""Questions in the form that clients of Codex know, and what their answers mean."""

from typing import Any

import pytest

from treadle.doors.codex.door import APPROVE, KEEP_PLANNING, Decided, put
from treadle.errors import RemoteError
from treadle.events import Asked
from treadle.session import Answer
from treadle.wire.codex import translation

WHERE = {"threadId": "t", "turnId": "u"}
COMMAND = translation.command_item("c", "ls", "/w")
FILE = translation.file_change("c", [])
TOOL = translation.tool_call("c", "mcp__notes__read", {"n": 1})


async def asked(item: dict[str, Any], reply: Any, **more: Any) -> tuple[str, dict[str, Any], Decided]:
    sent: list[Any] = []

    async def call(method: str, params: dict[str, Any]) -> Any:
        sent.extend((method, params))
        if isinstance(reply, Exception):
            raise reply
        return reply

    question = Asked(**{"request": "r", "kind": "permission", "text": "why", **more})
    decided = await put(call, WHERE, question, item)
    return sent[0], sent[1], decided


@pytest.mark.parametrize(
    ("decision", "answer", "stop"),
    [
        ("accept", Answer(decision="allow"), False),
        ("acceptForSession", Answer(decision="allow", scope="session"), False),
        ("decline", Answer(decision="deny"), False),
        ("cancel", Answer(decision="deny"), True),
    ],
)
async def test_a_decision_is_an_answer(decision: str, answer: Answer, stop: bool) -> None:
    for item, method in ((COMMAND, "item/commandExecution/requestApproval"), (FILE, "item/fileChange/requestApproval")):
        sent, params, decided = await asked(item, {"decision": decision})
        assert sent == method and (params["itemId"], params["reason"]) == ("c", "why")
        assert decided == Decided(answer, stop)


@pytest.mark.parametrize(
    ("item", "reply"),
    [
        (COMMAND, {"decision": "accept", "command": "touch other.txt"}),
        (COMMAND, {"decision": "acceptForSession", "updatedInput": {"command": "touch other.txt", "cwd": "/w"}}),
        (TOOL, {"action": "accept", "content": {"input": {"command": "touch other.txt", "cwd": "/w"}}}),
    ],
)
async def test_an_approval_with_another_input_is_not_one_of_what_was_asked(item: Any, reply: Any) -> None:
    decided = (await asked(item, reply, args={"command": "ls", "cwd": "/w"}))[2]
    assert decided.answer.changed_args == {"command": "touch other.txt", "cwd": "/w"}


@pytest.mark.parametrize(
    "reply",
    [{"decision": {"acceptWithExecpolicyAmendment": {"execpolicy_amendment": ["ls"]}}}, {}, None, RemoteError("gone")],
)
async def test_an_answer_that_cannot_be_carried_out_is_a_denial(reply: Any) -> None:
    assert (await asked(COMMAND, reply))[2].answer.decision == "deny"


@pytest.mark.parametrize(
    ("reply", "decision", "scope", "stop"),
    [
        ({"action": "accept"}, "allow", "once", False),
        ({"action": "accept", "_meta": {"persist": "session"}}, "allow", "session", False),
        ({"action": "decline"}, "deny", "once", False),
        ({"action": "cancel"}, "deny", "once", True),
        (None, "deny", "once", False),
    ],
)
async def test_other_tools_are_asked_about_as_those_of_an_mcp_server(
    reply: Any, decision: str, scope: str, stop: bool
) -> None:
    method, params, decided = await asked(TOOL, reply)
    assert method == "mcpServer/elicitation/request" and '"read"' in params["message"]
    assert (decided.answer.decision, decided.answer.scope, decided.stop) == (decision, scope, stop)


async def test_a_question_is_answered_in_words_and_a_plan_by_its_approval() -> None:
    def answers(text: str) -> dict[str, Any]:
        return {"answers": {"r": {"answers": [text]}}}

    method, params, decided = await asked({"id": "c"}, answers("red"), kind="question", options=("red", "blue"))
    assert method == "item/tool/requestUserInput" and decided.answer == Answer(decision="allow", text="red")
    assert [option["label"] for option in params["questions"][0]["options"]] == ["red", "blue"]
    assert (await asked({"id": "c"}, {}, kind="question"))[2].answer.decision == "deny"
    assert (await asked({"id": "c"}, answers(APPROVE), kind="plan"))[2].answer == Answer(decision="allow")
    assert (await asked({"id": "c"}, answers(KEEP_PLANNING), kind="plan"))[2].answer.decision == "deny"
    assert (await asked({"id": "c"}, answers("first this"), kind="plan"))[2].answer.text == "first this"


async def test_what_is_asked_names_the_call_its_time_and_what_can_be_chosen() -> None:
    _, params, _ = await asked(COMMAND, {"decision": "accept"}, ts=1.5)
    assert (params["startedAtMs"], params["kind"], params["environmentId"]) == (1500, "command", None)
    assert params["availableDecisions"] == ["accept", "acceptForSession", "decline", "cancel"]
    assert (params["threadId"], params["turnId"], params["command"]) == ("t", "u", COMMAND["command"])
    _, params, _ = await asked(FILE, {"decision": "accept"}, text="")
    assert params["reason"] is None and params["grantRoot"] is None
    _, params, decided = await asked(TOOL, {"action": "accept", "_meta": {"persist": "once"}})
    assert decided.answer.scope == "once" and params["message"].endswith('tool "read"? why')
    assert params["_meta"] == {"codex_approval_kind": "mcp_tool_call", "tool_params": {"n": 1}}
    assert (await asked(TOOL, {"action": "accept", "_meta": {"persist": "always"}}))[2].answer.scope == "session"
    assert (await asked(TOOL, {"action": "decline"}))[2].answer.text == ""
    assert (await asked(TOOL, {"action": "cancel"}))[2].answer.text == "no one decided"


async def test_one_who_could_not_be_asked_did_not_decide_and_a_question_may_have_any_answer() -> None:
    gone = (await asked(COMMAND, RemoteError("gone")))[2]
    assert (gone.answer.by, gone.answer.text, gone.stop) == ("nobody", "the client could not be asked: gone", False)
    assert (await asked(COMMAND, {"decision": "decline"}))[2].answer.by == "person"
    _, params, decided = await asked({"id": "c"}, {"answers": {"r": {"answers": "x"}}}, kind="question")
    (question,) = params["questions"]
    assert (question["isOther"], question["isSecret"], question["options"]) == (True, False, None)
    assert (question["id"], question["header"], params["isBlocking"]) == ("r", "Question", True)
    assert (decided.answer.decision, decided.answer.text) == ("deny", "not answered")
    _, params, decided = await asked({"id": "c"}, {"answers": {"r": {"answers": []}}}, kind="plan")
    (question,) = params["questions"]
    assert question["isOther"] is False and [each["label"] for each in question["options"]] == [APPROVE, KEEP_PLANNING]
    kept = (await asked({"id": "c"}, {"answers": {"r": {"answers": [KEEP_PLANNING]}}}, kind="plan"))[2]
    assert decided.answer.decision == "deny" and kept.answer.text == ""
