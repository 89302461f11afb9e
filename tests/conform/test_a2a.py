"""The clauses for an A2A agent: our own keeps each of them, and one fault at a time is found.

Our own server runs in the test's process with a scripted agent. A fault changes what goes over HTTP.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.conform.conftest import broken, candidate, clauses, kit, ruling, sections
from treadle.conform.kit import Candidate, judge
from treadle.doors.a2a.door import A2aDoor
from treadle.events import Message, TextDelta
from treadle.serve.a2a import A2aServer
from treadle.serve.listening import Listening
from treadle.serve.server import served
from treadle.session import AgentInfo, SessionSpec
from treadle.testing.sessions import ScriptedAgent

Change = Callable[[Any], Any]


class Spoiled:
    """Stands before the right server. `answers` changes each JSON object that it sends, None drops it; `asked` each
    request; `kind` the type of its answers."""

    def __init__(self, app: Any, *, answers: Change | None = None, asked: Change | None = None, kind: str = "") -> None:
        self._app, self._answers, self._asked, self._kind = app, answers, asked, kind

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        async def heard() -> Any:
            message = await receive()
            body = message.get("body", b"")
            if self._asked is not None and body.startswith(b'{"jsonrpc":"2.0","id":') and b"params" in body:
                changed = msgspec.json.encode(self._asked(msgspec.json.decode(body)))
                return {**message, "body": changed}
            return message

        async def told(message: Any) -> None:
            if message["type"] == "http.response.start":
                kept = [(name, text) for name, text in message["headers"] if name != b"content-length"]
                if self._kind:
                    kept = [(name, self._kind.encode() if name == b"content-type" else text) for name, text in kept]
                message = {**message, "headers": kept}
            elif message.get("body"):
                message = {**message, "body": self._changed(message["body"])}
            await send(message)

        await self._app(scope, heard, told)

    def _changed(self, body: bytes) -> bytes:
        if self._answers is None:
            return body
        if not body.startswith(b"data: "):
            return msgspec.json.encode(self._answers(msgspec.json.decode(body)))
        found = self._answers(msgspec.json.decode(body[6:]))
        return b"" if found is None else b"data: " + msgspec.json.encode(found) + b"\n\n"


@asynccontextmanager
async def serving(tmp_path: Path, **spoil: Any) -> AsyncIterator[Candidate]:
    turns = [[TextDelta(text="One "), TextDelta(text="two."), Message(text="One two.")] for _ in range(20)]
    listening = Listening(port=0)
    door = A2aDoor(
        ScriptedAgent(*turns),
        AgentInfo(name="scripted"),
        base=SessionSpec(cwd=str(tmp_path)),
        warn=lambda text: None,
    )
    server = A2aServer(door, address=listening.address, names=listening.names, tokens=None)
    server.gate.app = Spoiled(server.gate.app, **spoil)
    async with served(server, listening):
        yield Candidate(command=(listening.address,), patience=30)


def put(path: str, value: Any) -> Change:
    """Set this field of every answer that has all above it; None removes it."""

    def change(found: Any) -> Any:
        *above, last = path.split(".")
        inner = found
        for name in above:
            inner = inner.get(name) if isinstance(inner, dict) else None
        if isinstance(inner, dict) and last in inner:
            inner.pop(last) if value is None else inner.__setitem__(last, value)
        return found

    return change


def code(right: int, wrong: int) -> Change:
    def change(found: Any) -> Any:
        if (found.get("error") or {}).get("code") == right:
            found["error"]["code"] = wrong
        return found

    return change


def without(kind: str) -> Change:
    return lambda found: None if kind in (found.get("result") or {}) else found


def unfinished(found: Any) -> Any:
    update = (found.get("result") or {}).get("statusUpdate") or {}
    return None if (update.get("status") or {}).get("state") == "TASK_STATE_COMPLETED" else found


def same_id(found: Any) -> Any:
    if "task" in (found.get("result") or {}):
        found["result"]["task"]["id"] = "t"
    return found


def asked_without(name: str) -> Change:
    def change(found: Any) -> Any:
        message = found.get("params", {}).get("message")
        if isinstance(message, dict):
            message.pop(name, None)
        return found

    return change


FAULTS: list[tuple[str, dict[str, Any], str]] = [
    ("a card without skills", {"answers": put("skills", None)}, "every required field"),
    ("a card without a description", {"answers": put("description", "")}, "every required field"),
    ("skills without tags", {"answers": put("skills", [{"id": "x", "name": "x", "description": "x"}])}, "each skill"),
    ("no context", {"answers": put("result.task.contextId", None)}, "a task has an id, a context"),
    ("an unknown state", {"answers": put("result.task.status.state", "TASK_STATE_BORED")}, "a state of the protocol"),
    ("a state of 0.3", {"answers": put("result.task.status.state", "completed")}, "a task has an id, a context"),
    ("an answer too soon", {"answers": put("result.task.status.state", "TASK_STATE_WORKING")}, "that is waited for"),
    ("no text", {"answers": put("result.task.artifacts", None)}, "what the model says"),
    ("one id for all", {"answers": same_id}, "begins one of its own"),
    ("contexts are ignored", {"asked": asked_without("contextId")}, "a message in a context stays"),
    ("task ids are ignored", {"asked": asked_without("taskId")}, "a message for a task that does not exist"),
    ("an ended task goes on", {"asked": asked_without("taskId")}, "a task that has ended is refused"),
    ("another code", {"answers": code(-32602, -32000)}, "a message without parts"),
    ("another task", {"answers": put("result.id", "z")}, "the one that was sent"),
    ("always a history", {"asked": put("params.historyLength", None)}, "a historyLength of 0"),
    ("an unknown task is an internal error", {"answers": code(-32001, -32603)}, "whatever is asked of it"),
    ("an ended task is cancelled", {"answers": code(-32002, -32603)}, "cannot be cancelled"),
    ("a list without a token", {"answers": put("result.nextPageToken", None)}, "a list has tasks"),
    ("a stream of plain JSON", {"kind": "application/json"}, "a stream is server-sent events"),
    ("another id in the stream", {"answers": put("id", "z")}, "a stream is server-sent events"),
    ("no task in the stream", {"answers": without("task")}, "a stream begins with the task"),
    ("the end is missing", {"answers": unfinished}, "ends when that has ended"),
    ("updates of another task", {"answers": put("result.artifactUpdate.taskId", "z")}, "every update names"),
    ("pieces are lost", {"answers": without("artifactUpdate")}, "the pieces of a stream"),
    ("append is lost", {"answers": put("result.artifactUpdate.append", False)}, "the pieces of a stream"),
    ("an unknown method is invalid", {"answers": code(-32601, -32600)}, "an unknown method"),
    ("no parse error", {"answers": code(-32700, -32600)}, "a body that is no JSON"),
    ("ids become text", {"answers": put("id", "an-id")}, "a response has the id"),
    ("not JSON-RPC", {"answers": put("jsonrpc", "1.0")}, "an unknown method"),
    ("any version", {"answers": code(-32009, -32001)}, "a version that is not spoken"),
    ("webhooks are misnamed", {"answers": code(-32003, -32601)}, "without the capability"),
]


async def test_our_own_keeps_all_of_them(tmp_path: Path) -> None:
    async with serving(tmp_path) as subject:
        found = await judge(kit("a2a"), subject)
        wrong = [one for one in found if one.outcome != "kept"]
        assert [one.sentence for one in wrong if one.outcome == "broken"] == [], wrong
        assert len(wrong) <= 1, "only a turn that ends at once cannot be cancelled"


@pytest.mark.parametrize("words", ["what the model says is in the task", "a task that works is cancelled"])
async def test_as_a_command_it_is_started_with_our_model(words: str, tmp_path: Path) -> None:
    sentence = next(each for each in clauses("a2a") if words in each)
    found = await ruling("a2a", sentence, candidate("a2a", tmp_path))
    assert found.outcome == "kept", found.seen


@pytest.mark.parametrize(("fault", "spoil", "words"), FAULTS, ids=[fault for fault, _, _ in FAULTS])
async def test_a_fault_is_found(fault: str, spoil: dict[str, Any], words: str, tmp_path: Path) -> None:
    async with serving(tmp_path, **spoil) as subject:
        assert await broken("a2a", words, subject)


async def test_an_agent_of_0_3_is_judged_by_0_3(tmp_path: Path) -> None:
    def old(found: Any) -> Any:
        found.pop("supportedInterfaces", None)
        return found

    async with serving(tmp_path, answers=old) as subject:
        found = {one.sentence: one for one in await judge(kit("a2a"), subject)}
        assert [one for one in found.values() if one.outcome == "broken"] == []
        assert any(one.seen == "it speaks 0.3" for one in found.values())


async def test_an_address_where_nothing_answers_breaks_every_clause() -> None:
    nothing = Candidate(command=("http://127.0.0.1:1",), patience=5)
    async with asyncio.timeout(60):
        assert {one.outcome for one in await judge(kit("a2a"), nothing)} == {"broken"}


def test_its_clauses_are_listed_by_the_parts_of_the_specification() -> None:
    assert sections("a2a") == {"agent card", "messages", "tasks", "streams", "JSON-RPC"}
