"""What only pi does: its extension asks us about each tool, and it may retry by itself after it has ended."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.agent.pixels import png
from tests.drivers.scenarios import Scenario
from tests.drivers.talks import SAYS, WAITS, as_expected, heard, talked, written
from tests.drivers.test_session import replayed
from tests.waiting import until
from treadle.drivers.card import cards
from treadle.drivers.pi.driver import PiSession, level_of
from treadle.errors import RemoteError, RemoteProtocolError, Unsupported
from treadle.events import Asked, Retrying
from treadle.session import Answer, Change, Instructions, Prompt, Reasoning, SessionSpec

PI = cards()["pi"]
EXPECTED = Path(__file__).parent / "expected"
TALK = Scenario("talk", ("go",), lambda played: None)


def says(kind: str, **fields: Any) -> tuple[str, Any]:
    return SAYS, {"type": kind, **fields}


def is_told(number: int, command: str, data: Any = None, error: str | None = None) -> list[tuple[str, Any]]:
    id = f"treadle-{number}"
    answer = {"id": id, "command": command, "success": error is None, "data": data, "error": error}
    return [(WAITS, {"type": command, "id": id}), says("response", **answer)]


def asks(id: str, title: str, placeholder: str | None = None, method: str = "input") -> list[tuple[str, Any]]:
    asked = says("extension_ui_request", id=id, method=method, title=title, placeholder=placeholder)
    return [asked, (WAITS, {"type": "extension_ui_response", "id": id})]


def about(call: str, tool: str, **args: Any) -> list[tuple[str, Any]]:
    return asks(f"e-{call}", "treadle:tool", json.dumps({"call": call, "tool": tool, "input": args}))


def ends(call: str, text: str = "", *, failed: bool = False, name: str = "bash", **details: Any) -> tuple[str, Any]:
    result = {"content": [{"type": "text", "text": text}], "details": details}
    return says("tool_execution_end", toolCallId=call, toolName=name, args={}, result=result, isError=failed)


def part(kind: str, delta: str) -> tuple[str, Any]:
    return says("message_update", assistantMessageEvent={"type": kind, "delta": delta})


def reply(text: str, **more: Any) -> tuple[str, Any]:
    used = {"input": 10, "output": 3, "cost": {"total": 0.5}}
    content = [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": text}]
    return says("message_end", message={"role": "assistant", "model": "m", "content": content, "usage": used, **more})


STATE = {"sessionId": "s", "model": {"provider": "p", "id": "m"}}
OPENED = is_told(1, "get_state", STATE)
BEGUN = [*is_told(2, "prompt"), says("agent_start")]


async def test_what_its_messages_mean_and_how_its_extension_is_answered(tmp_path: Path) -> None:
    (tmp_path / "old.txt").write_text("a\n")

    def answer(asked: Asked) -> Answer:
        if asked.command == "refused":
            return Answer(decision="deny")
        other = {"command": "changed"} if asked.command == "other" else None
        return Answer(decision="allow", changed_args=other)

    def printed(text: str) -> tuple[str, Any]:
        return says("tool_execution_update", toolCallId="c1", partialResult={"content": text})

    instructions = Instructions(system="Be brief.")
    _, events, told = await talked(
        PI,
        tmp_path,
        SessionSpec(cwd=str(tmp_path), mode="suggest", answers=True, instructions=instructions),
        TALK._replace(answer=answer),
        *OPENED,
        *is_told(2, "prompt"),
        says("agent_end"),  # of an earlier turn: this one has not begun
        says("agent_start"),
        *asks("e0", "treadle:instructions"),
        *asks("e1", "a dialog of the person's own extension"),
        says("extension_ui_request", id="e2", method="notify", title="treadle:tool"),
        part("thinking_delta", "hm"),
        part("text_delta", "Hel"),
        part("text_delta", "lo"),
        part("text_delta", ""),
        part("toolcall_delta", "no text"),
        says("message_end", message={"role": "user", "content": "go"}),
        reply("Hello"),
        *about("c1", "bash", command="ls"),
        says("tool_execution_start", toolCallId="c1", toolName="bash", args={"command": "ls"}),
        printed("a"),
        printed("ab"),
        printed("ab"),
        printed("other"),
        ends("c1", "ab"),
        *about("c2", "bash", command="refused"),
        ends("c2", "refused", failed=True),
        *about("c3", "bash", command="other"),
        ends("c3", "no", failed=True),
        *about("c4", "write", path="new.txt", content="x\ny\n"),
        ends("c4", "written", name="write"),
        *about("c5", "edit", path="old.txt"),
        ends("c5", "edited", name="edit", diff="-a\n+b\n"),
        *about("c6", "edit", path="old.txt"),
        ends("c6", "not found", failed=True, name="edit"),
        says("tool_execution_start", toolCallId="c7", toolName="read", args={"path": "old.txt"}),
        ends("c7", "a", name="read"),
        says("compaction_end", result={"tokensBefore": 90, "summary": "short"}),
        says("compaction_end", result=None),
        says("extension_error", error="it broke"),
        part("text_delta", "Done."),
        reply("Done."),
        says("agent_end"),
    )
    assert as_expected(events, EXPECTED / "meant.txt")
    answers = {line["id"]: line for line in told if line["type"] == "extension_ui_response"}
    values = {id: json.loads(line["value"]) for id, line in answers.items() if "value" in line}
    assert values == {
        "e0": {"system": "Be brief."},
        "e-c1": {"allow": True},
        "e-c2": {"allow": False, "reason": "the person said no"},
        "e-c3": {"allow": True, "input": {"command": "changed"}},
        **dict.fromkeys(("e-c4", "e-c5", "e-c6"), {"allow": True}),
    }
    assert answers["e1"]["cancelled"] is True and "e2" not in answers
    assert [line["message"] for line in told if line["type"] == "prompt"] == ["go"]


@pytest.mark.parametrize("retries", [False, True])
async def test_a_turn_has_failed_when_it_does_not_say_that_it_tries_again(tmp_path: Path, retries: bool) -> None:
    failed = [reply("", stopReason="error", errorMessage="401 no key"), says("agent_end")]
    again = says("auto_retry_start", attempt=2, delayMs=5, errorMessage="401 no key")
    played, _, _ = await talked(
        PI,
        tmp_path,
        SessionSpec.of(cwd=str(tmp_path)),
        TALK,
        *OPENED,
        *BEGUN,
        *failed,
        *([again] if retries else []),
        *is_told(3, "get_state", STATE),
        *([part("text_delta", "Yes."), reply("Yes."), says("agent_end")] if retries else []),
    )
    (end,) = played.ends
    assert end.outcome == ("completed" if retries else "failed")
    assert retries or end.error is not None and (end.error.code, end.error.message) == ("auth_failed", "401 no key")
    assert [(event.attempt, event.delay_ms) for event in played.of(Retrying)] == ([(2, 5)] if retries else [])
    assert end.iterations == (2 if retries else 1)


async def test_its_model_and_effort_change_and_its_providers_are_its_account(tmp_path: Path) -> None:
    models = {"models": [{"provider": "b"}, {"provider": "a"}, {"provider": "b"}, "odd"]}
    talk = [*OPENED, *is_told(2, "get_available_models", models), *is_told(3, "get_available_models", [])]
    talk += [
        *is_told(4, "set_model"),
        *is_told(5, "set_thinking_level"),
        *is_told(6, "set_model", error="no such model"),
    ]
    talk += [(WAITS, {"type": "prompt", "id": "treadle-7"})]
    noted = tmp_path / "noted"
    session = await replayed(PI, written(tmp_path / "talk.jsonl", *talk), noted=noted).open(
        SessionSpec.of(cwd=str(tmp_path))
    )
    assert isinstance(session, PiSession)
    try:
        assert session.id == "s" and session.info.models == ("p/m",)
        assert [await session.account() for _ in range(2)] == ["a, b", ""]
        await session.configure(Change(model="q/large/2", mode="plan", thinking=Reasoning(effort="none")))
        assert session.info.models == ("q/large/2",) and session.info.mode == "plan"
        with pytest.raises(RemoteError, match="pi refused set_model: no such model"):
            await session.configure(Change(model="q/x"))
        with pytest.raises(RemoteError, match="PROVIDER/MODEL, not 'large'"):
            await session.configure(Change(model="large"))
        with pytest.raises(Unsupported, match="begins with a slash"):
            await session.prompt(Prompt(text=" /quit", verbatim=True))
        await session.prompt(Prompt(text="look", images=(png(),)))
        await until(lambda: '"prompt"' in noted.read_text())
    finally:
        await session.close()
    told = {line["id"]: line for line in heard(noted) if "id" in line}
    assert (told["treadle-4"]["provider"], told["treadle-4"]["modelId"]) == ("q", "large/2")
    assert told["treadle-5"]["level"] == "off" and level_of("high") == "high"
    assert [image["type"] for image in told["treadle-7"]["images"]] == ["image"]


async def test_one_that_has_no_session_is_refused(tmp_path: Path) -> None:
    agent = replayed(PI, written(tmp_path / "talk.jsonl", *is_told(1, "get_state", {"sessionId": 7})))
    with pytest.raises(RemoteProtocolError, match="has no id for its session"):
        await agent.open(SessionSpec.of(cwd=str(tmp_path)))
