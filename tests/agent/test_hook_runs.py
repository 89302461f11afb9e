"""One hook of a settings file: how it is run or asked, and what its answer means."""

import asyncio
import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.agent.hooked import judging, verdict
from treadle.agent.hooks import JUDGING, concerns, run
from treadle.errors import Unsupported
from treadle.session import Use
from treadle.settings.claude import CommandHook


async def answer(tmp_path: Path, command: str, event: str = "PreToolUse", **more: Any) -> tuple[Any, list[str]]:
    warnings: list[str] = []
    hook = CommandHook(event=event, matcher="", command=command, **more)
    return await run(
        hook, {"hook_event_name": event}, str(tmp_path), warnings.append, {"PATH": "/usr/bin:/bin"}
    ), warnings


@pytest.mark.parametrize(
    ("command", "event", "said"),
    [
        ("true", "PreToolUse", {}),
        ("""echo '{"decision": "approve"}'""", "PreToolUse", {"decision": "approve"}),
        ("echo looks fine", "PreToolUse", {}),
        ("echo it rains", "SessionStart", {"hookSpecificOutput": {"additionalContext": "it rains"}}),
        ("echo", "SessionStart", {}),
        ("echo it rains", "UserPromptSubmit", {"hookSpecificOutput": {"additionalContext": "it rains"}}),
        ("echo no >&2; exit 2", "PreToolUse", {"decision": "block", "reason": "no"}),
        ("exit 2", "PreToolUse", {"decision": "block", "reason": "blocked by the hook exit 2"}),
        ("echo '[1]'", "PreToolUse", {}),
        ("cat", "Stop", {"hook_event_name": "Stop"}),
        ('echo "{\\"decision\\": \\"$CLAUDE_PROJECT_DIR\\"}"', "Stop", None),
    ],
)
async def test_an_answer(tmp_path: Path, command: str, event: str, said: Any) -> None:
    expected = {"decision": str(tmp_path)} if said is None else said
    assert await answer(tmp_path, command, event) == (expected, [])


async def test_what_cannot_be_asked_blocks(tmp_path: Path) -> None:
    with pytest.raises(Unsupported, match="took more than"):
        await answer(tmp_path, "exec sleep 1000", timeout=0.01)
    with pytest.raises(Unsupported, match="could not run"):
        await answer(tmp_path / "gone", "true")


@pytest.mark.parametrize(("command", "blocked"), [("git push -f", True), ("ls && git push", True), ("ls", False)])
async def test_a_condition_is_a_permission_rule(tmp_path: Path, command: str, blocked: bool) -> None:
    hooks = judging(tmp_path, {"command": "echo no >&2; exit 2", "if": "Bash(git push *)"})
    use = Use(tool="bash", args={"command": command}, kind="execute", command=command)
    assert await verdict(hooks, use) == ("no" if blocked else None)


async def test_a_hook_whose_failure_must_block_blocks(tmp_path: Path) -> None:
    said = await verdict(judging(tmp_path, {"command": "exit 1", "onFailure": "block"}))
    assert "failed with exit code 1" in said


class Service:
    """Answers every POST with one status and body, and keeps what came."""

    def __init__(self, status: int, body: str) -> None:
        self.status, self.body = status, body
        self.heard: list[bytes] = []

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        size = int(re.search(rb"content-length: (\d+)", head.lower())[1])  # type: ignore[index]
        self.heard += [head, await reader.readexactly(size)]
        data = self.body.encode()
        writer.write(f"HTTP/1.1 {self.status} x\r\nContent-Length: {len(data)}\r\n\r\n".encode() + data)
        await writer.drain()
        writer.close()


async def posted(tmp_path: Path, service: Service, **more: Any) -> tuple[Any, list[str]]:
    async with await asyncio.start_server(service, "127.0.0.1", 0) as server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/hook?key=k"
        return await answer(tmp_path, "", url=url, **more)


async def test_a_service_is_asked_with_the_headers_and_variables_that_were_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_API_KEY", "wanted")
    monkeypatch.setenv("OTHER", "unnamed")
    service = Service(200, '{"decision": "block", "reason": "no"}')
    headers = {"Authorization": "Bearer $MY_API_KEY ${OTHER}"}
    said = await posted(tmp_path, service, headers=headers, variables=("MY_API_KEY",))
    assert said == ({"decision": "block", "reason": "no"}, [])
    assert b"content-type: application/json\r\n" in service.heard[0]
    assert b"authorization: Bearer wanted\r\n" in service.heard[0] and b"POST /hook?key=k" in service.heard[0]
    assert json.loads(service.heard[1]) == {"hook_event_name": "PreToolUse"}


async def test_a_service_that_fails_is_a_warning_or_blocks_and_one_that_is_not_there_blocks(tmp_path: Path) -> None:
    said, [warning] = await posted(tmp_path, Service(500, ""))
    assert said == {} and "answered with status 500" in warning and "key=k" not in warning
    with pytest.raises(Unsupported, match="status 500"):
        await posted(tmp_path, Service(500, ""), strict=True)
    with pytest.raises(Unsupported, match="could not be asked"):
        await answer(tmp_path, "", url="http://127.0.0.1:9/")
    with pytest.raises(Unsupported, match="more than 1048576 bytes"):
        await posted(tmp_path, Service(200, f'{{"reason": "{"x" * 1048576}"}}'))


async def test_a_model_that_is_not_there_or_does_not_answer_blocks(tmp_path: Path) -> None:
    hook = CommandHook(event="PreToolUse", matcher="", command="", prompt="fine?", timeout=0.01)
    with pytest.raises(Unsupported, match="is not available here"):
        await run(hook, {}, str(tmp_path), print, {})

    async def judge(instructions: str, question: str, model: str) -> str:
        return str(await asyncio.get_running_loop().create_future())

    with pytest.raises(Unsupported, match=r"took more than 0\.01 s"):
        await run(hook, {}, str(tmp_path), print, {}, judge)


def test_a_condition_that_cannot_be_read_concerns_every_call_and_none_concerns_no_call(tmp_path: Path) -> None:
    use = Use(tool="bash", args={"command": "ls"}, kind="execute", command="ls")
    assert concerns("", None, str(tmp_path)) and concerns("", use, str(tmp_path))
    assert not concerns("Bash(ls)", None, str(tmp_path)) and concerns("Bash(((", use, str(tmp_path))
    write = Use(tool="write_file", args={}, kind="write", paths=(str(tmp_path / "a.py"),))
    assert concerns("Write(*.py)", write, str(tmp_path)) and not concerns("Write(*.txt)", write, str(tmp_path))


async def judged(tmp_path: Path, said: str, event: str = "PreToolUse", **more: Any) -> tuple[Any, list[str]]:
    asked: list[str] = []

    async def judge(instructions: str, question: str, model: str) -> str:
        asked.extend((instructions, question, model))
        return said

    hook = CommandHook(event=event, matcher="", command="", prompt="fine?", **more)
    return await run(hook, {"a": 1}, str(tmp_path), print, {}, judge), asked


async def test_a_no_ends_the_turn_unless_blocking_means_to_go_on(tmp_path: Path) -> None:
    no = {"decision": "block", "reason": "the model that a hook asked said no"}
    said, asked = await judged(tmp_path, 'No: {"ok": false}')
    assert said == {**no, "continue": False, "stopReason": no["reason"]}
    assert asked == [JUDGING, 'fine?\n\n{"a":1}', ""], "without a place for them the facts come last"
    assert (await judged(tmp_path, '{"ok": false}', goes_on=True))[0] == no
    for event in ("Stop", "SubagentStop"):
        assert (await judged(tmp_path, '{"ok": false}', event))[0] == no
    for unclear in ('{"ok": "perhaps"}', "{half}"):
        with pytest.raises(Unsupported, match="got neither yes nor no from the model: '{"):
            await judged(tmp_path, unclear)
