"""A history in Claude Code's line format: a chain of lines, each block one, at the place where its SDKs look."""

import json
import stat
from pathlib import Path

import pytest

from treadle.agent.claude_lines import claude_path, write_claude_history
from treadle.agent.messages import AssistantMessage, Thinking, ToolCall, ToolResult, UserMessage
from treadle.agent.transcript import MessageRecord, Named, Rewound, Transcript, TurnBegan


@pytest.fixture
def transcript(tmp_path: Path) -> Transcript:
    made = Transcript.create(cwd=str(tmp_path), model="m")
    call = ToolCall(id="c1", name="bash", arguments='{"command": "make", "timeout": 2, "background": false}')
    answer = AssistantMessage(text="I look.", thinking=(Thinking(text="hm", signature="s"),), calls=(call,), model="m")
    made.append(
        TurnBegan(turn="t1", prompt="go", ts=1.5),
        MessageRecord(message=UserMessage(text="go"), turn="t1"),
        MessageRecord(message=answer, turn="t1"),
        MessageRecord(message=ToolResult(call="c1", name="bash", text="no rule", ok=False), turn="t1"),
    )
    return made


def read(path: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in Path(path).read_text().splitlines()]


def test_each_block_is_a_line_that_names_the_one_before(transcript: Transcript) -> None:
    path = write_claude_history(transcript, "")
    lines = read(path)
    assert [line["type"] for line in lines] == ["user", "assistant", "assistant", "assistant", "user"]
    assert [line["parentUuid"] for line in lines] == [None, *(line["uuid"] for line in lines[:-1])]
    assert len({line["uuid"] for line in lines}) == 5
    blocks = [line["message"]["content"] for line in lines]  # type: ignore[index]
    assert blocks[0] == "go" and blocks[1] == [{"type": "thinking", "thinking": "hm", "signature": "s"}]
    used = {"type": "tool_use", "id": "c1", "name": "Bash", "input": {"command": "make", "timeout": 2000}}
    assert blocks[2:4] == [[{"type": "text", "text": "I look."}], [used]]
    assert blocks[4] == [{"tool_use_id": "c1", "type": "tool_result", "content": "no rule", "is_error": True}]
    assert {line["timestamp"] for line in lines} == {"1970-01-01T00:00:01.500Z"}
    assert stat.S_IMODE(Path(path).parent.stat().st_mode) == 0o700


def test_written_again_the_same_lines_have_the_same_names_and_what_was_taken_back_is_gone(
    transcript: Transcript,
) -> None:
    first = read(write_claude_history(transcript, ""))
    assert read(write_claude_history(transcript, "")) == first
    transcript.append(Named(name="the build"))
    assert read(write_claude_history(transcript, ""))[-1]["customTitle"] == "the build"
    transcript.append(Rewound(turn="t1"))
    assert not [line for line in read(write_claude_history(transcript, "")) if line["type"] != "custom-title"]


def test_under_an_sdk_of_claude_it_is_where_that_looks(
    transcript: Transcript, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert Path(claude_path(transcript, "")).parent == Path(transcript.directory)
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path / "theirs"))
    path = Path(write_claude_history(transcript, "sdk-py"))
    assert path.is_file() and path.parents[1] == tmp_path / "theirs" / "projects"
    assert path.parent.name == str(tmp_path.resolve()).replace("/", "-").replace("_", "-").replace(".", "-")
    assert {line.get("entrypoint") for line in read(str(path))} == {"sdk-py"}
