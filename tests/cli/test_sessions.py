"""`treadle sessions`."""

import json
import os
import time
from pathlib import Path

import pytest
from click.testing import CliRunner

from treadle.agent.messages import AssistantMessage, ToolCall, ToolResult, UserMessage
from treadle.agent.stored_sessions import list_sessions
from treadle.agent.transcript import MessageRecord, Transcript, TurnBegan
from treadle.cli.sessions import sessions
from treadle.errors import NotFound
from treadle.io.paths import private_dir, state_dir


def test_sessions_are_listed_for_people_and_for_programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    transcript = Transcript.create(cwd=str(tmp_path), model="m", session_id="abc", name="mine")
    transcript.append(TurnBegan(turn="t", prompt="hello"))
    transcript.close()
    (listed,) = list_sessions()
    when = time.strftime("%Y-%m-%d %H:%M", time.localtime(listed.updated))
    killed = "(killed: its process ended in the middle of the turn)"
    assert CliRunner().invoke(sessions).output == f"abc  {when}    1 turns  {tmp_path}  mine  {killed}\n"
    [entry] = json.loads(CliRunner().invoke(sessions, ["--json"]).output)
    assert entry["id"] == "abc" and entry["name"] == "mine" and entry["prompt"] == "hello"
    assert json.loads(CliRunner().invoke(sessions, ["--json", "--here"]).output) == []
    monkeypatch.chdir(tmp_path)
    assert len(json.loads(CliRunner().invoke(sessions, ["--json", "--here"]).output)) == 1
    for name, prompt, title in (("long", "a\nb " + "x" * 99, "a b " + "x" * 56), ("mute", "", "(nothing said)")):
        transcript = Transcript.create(cwd="/x", model="m", session_id=name)
        transcript.append(TurnBegan(turn="t", prompt=prompt))
        transcript.close()
        assert f"  /x  {title}  {killed}\n" in CliRunner().invoke(sessions).output


@pytest.fixture
def kept(tmp_path: Path) -> str:
    transcript = Transcript.create(cwd=str(tmp_path), model="m", session_id="abc", name="mine")
    transcript.append(
        TurnBegan(turn="t", prompt="why?"),
        MessageRecord(message=UserMessage(text="why?")),
        MessageRecord(message=AssistantMessage(text="Because\x1b[2J of the **loom**.")),
    )
    transcript.close()
    return "abc"


def test_a_session_is_shown_and_nothing_in_it_acts_on_the_terminal(kept: str) -> None:
    for name in ("abc", "ab", "mine"):
        shown = CliRunner().invoke(sessions, ["show", name]).output
        assert "## You\n\nwhy?" in shown and "**loom**" in shown and "\x1b" not in shown
    told = json.loads(CliRunner().invoke(sessions, ["show", "abc", "--json"]).output)
    assert [step["source"] for step in told["steps"]] == ["user", "agent"]


def test_the_form_of_an_export_follows_the_files_name(kept: str, tmp_path: Path) -> None:
    for name, begin in (("x.JSON", "{"), ("x.md", "# mine"), ("x", "# mine")):
        result = CliRunner().invoke(sessions, ["export", kept, "-o", str(tmp_path / name)])
        assert result.exit_code == 0 and (tmp_path / name).read_text().startswith(begin)
    assert (tmp_path / "x.md").stat().st_mode & 0o777 == 0o600
    assert CliRunner().invoke(sessions, ["export", kept]).output.startswith("# mine")
    forced = CliRunner().invoke(sessions, ["export", kept, "--format", "atif", "--output", str(tmp_path / "y.md")])
    assert forced.output == "" and json.loads((tmp_path / "y.md").read_text())["steps"]


def test_named_sessions_are_removed_at_once(kept: str) -> None:
    taken_out = Path(private_dir(os.path.join(private_dir(os.path.join(state_dir(), "removed")), "abc")))
    assert CliRunner().invoke(sessions, ["rm", "mine"]).output == "removed abc\n"
    assert list_sessions() == [] and not taken_out.exists()
    assert isinstance(CliRunner().invoke(sessions, ["rm", "mine"]).exception, NotFound)


def test_what_tools_were_given_and_said_is_shown_only_when_asked_for() -> None:
    transcript = Transcript.create(cwd="/x", model="m", session_id="tools")
    call = ToolCall(id="c", name="bash", arguments='{"command": "weave"}')
    result = ToolResult(call="c", name="bash", text="a shuttle")
    transcript.append(
        TurnBegan(turn="t", prompt="go"),
        MessageRecord(message=AssistantMessage(text="I do. " * 3, calls=(call,))),
        MessageRecord(message=result),
    )
    transcript.close()
    plain, whole = (CliRunner().invoke(sessions, ["show", "tools", *words]).output for words in ([], ["--tools"]))
    assert "shuttle" not in plain and "shuttle" in whole and "weave" in whole
    both = CliRunner().invoke(sessions, ["rm", "tools", "tools"])
    assert both.output == "removed tools\n"
