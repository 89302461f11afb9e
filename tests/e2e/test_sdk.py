"""The official claude-agent-sdk: its parser reads our output, and with its `cli_path` pointed at us it drives us."""

import json
import os
from pathlib import Path
from typing import Any

import claude_agent_sdk
import pytest

from tests.installed import TREADLE, treadle
from tests.scripts import calls, says

SCRIPT = calls("write_file", {"file_path": "made.txt", "content": "hello"}, text="I will write.") + says(
    "It is done.", times="always", usage={"input": 3, "output": 2}
)


@pytest.fixture
def work(tmp_path: Path) -> Path:
    (tmp_path / "script.toml").write_text(SCRIPT)
    place = tmp_path / "work"
    place.mkdir()
    return place


@pytest.mark.parametrize("more", [["--verbose"], ["--verbose", "--include-partial-messages"], []])
def test_every_line_of_stream_json_parses_as_a_message(work: Path, more: list[str]) -> None:
    from claude_agent_sdk._internal.message_parser import parse_message

    model = f"scripted:{work.parent / 'script.toml'}"
    done = treadle("-p", "go", "--model", model, "--output-format", "stream-json", *more, cwd=work)
    messages = [parse_message(json.loads(line)) for line in done.stdout.splitlines()]
    result = messages[-1]
    assert isinstance(result, claude_agent_sdk.ResultMessage)
    assert result.result == "It is done." and result.is_error is False and result.num_turns == 2
    assert result.permission_denials and all(message is not None for message in messages)


async def test_the_sdk_drives_us_with_a_tool_call_and_a_permission_callback(
    work: Path, caplog: pytest.LogCaptureFixture
) -> None:
    asked: list[tuple[str, Any]] = []

    async def can_use_tool(name: str, given: dict[str, Any], context: Any) -> Any:
        asked.append((name, given))
        return claude_agent_sdk.PermissionResultAllow()

    options = claude_agent_sdk.ClaudeAgentOptions(
        cli_path=TREADLE,
        can_use_tool=can_use_tool,
        cwd=work,
        model=f"scripted:{work.parent / 'script.toml'}",
        env={"TREADLE_HOME": os.environ["TREADLE_HOME"]},
    )
    async with claude_agent_sdk.ClaudeSDKClient(options=options) as client:
        await client.query("make it")
        first = [message async for message in client.receive_response()]
        await client.set_permission_mode("acceptEdits")
        await client.query("again")
        second = [message async for message in client.receive_response()]
    assert asked == [("Write", {"file_path": "made.txt", "content": "hello"})]
    assert (work / "made.txt").read_text() == "hello"
    assert first[-1].result == second[-1].result == "It is done."
    assert [told.data["permissionMode"] for told in (first[0], second[0])] == ["default", "acceptEdits"]
    assert caplog.records == [], "the SDK has nothing to complain about"
