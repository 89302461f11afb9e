"""Who is told what a chat does: a supervisor by reports, a person elsewhere by bell, notification and title."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import Terminal
from tests.scripts import calls, says
from treadle.cli.chat.talk import Attention, Reporter
from treadle.events import AnyEvent, Asked, ToolEnded, ToolStarted
from treadle.terminal.reports import parse
from treadle.terminal.settings import STATE_FILE_VARIABLE


def asked(text: str) -> Asked:
    return Asked(request="r", kind="question", text=text)


def said(ways: tuple[str, ...], term: str = "xterm", text: str = "May it run?") -> str:
    out = Terminal()
    Attention(ways, out, {"TERM": term}).asked(asked(text))
    return out.getvalue()


def test_a_question_rings_notifies_and_is_in_the_title_as_was_asked_for() -> None:
    assert said(("bell",)) == "\a"
    assert said(("desktop",)) == "\x1b]9;treadle asks: May it run?\x1b\\"
    assert said(("desktop",), "foot-extra") == "\x1b]777;notify;treadle;treadle asks: May it run?\x1b\\"
    assert "\x1b]2;treadle: waits for you (" in said(("title",))
    assert said(()) == "" and said(("bell", "desktop", "title"), "dumb") == ""


def test_what_an_agent_writes_neither_ends_the_notification_nor_begins_another() -> None:
    told = said(("desktop",), text="a;b\x1b\\\x07\x1b]2;evil\nmore " + "x" * 500)
    assert told.count("\x1b") == 2 and told.count(";") == 1 and "\a" not in told and "\n" not in told
    assert len(told) < 220


COMMAND = str(Path(sys.executable).with_name("treadle"))
ASKED = Asked(request="r", kind="permission", text="may I?")
CHAT = calls("write_file", {"file_path": "made.txt", "content": "hello"}, when="make it") + says("It is written.")


class Screen(Terminal):
    @property
    def reports(self) -> list[tuple[str, str, str]]:
        found = []
        for body in self.getvalue().removesuffix("\x1b\\").split("\x1b\\"):
            _, report = parse(body.removeprefix("\x1b]7501;"), "osc 7501", 0)
            found.append((report.state, report.kind, report.message) if report else ("clear", "", ""))
        return found


def test_a_turn_is_told_from_its_start_to_its_end_and_nothing_twice() -> None:
    screen = Screen()
    reporter = Reporter(screen, {STATE_FILE_VARIABLE: "/x"})
    reporter.say("idle")
    reporter.say("working")
    happened: list[AnyEvent] = [
        ToolStarted(call="c", name="bash", command="make all\nmore"),
        ToolStarted(call="d", name="grep", parent="task_1"),
        ToolEnded(call="c", name="bash", result=""),
        ToolEnded(call="c", name="bash", result=""),
    ]
    for event in happened:
        reporter.event(event)
    reporter.asked(ASKED)
    reporter.at_rest([])
    reporter.say("clear")
    assert screen.reports == [
        ("idle", "", ""),
        ("working", "", ""),
        ("working", "", "bash make all (+1 lines)"),
        ("working", "", ""),
        ("blocked", "permission", "may I?"),
        ("done", "", ""),
        ("clear", "", ""),
    ]


@pytest.mark.slow
def test_a_kept_chat_can_be_driven_by_its_state_alone(tmp_path: Path) -> None:
    script, home = tmp_path / "chat.toml", tmp_path / "h"
    script.write_text(CHAT)

    def treadle(*arguments: str) -> str:
        env = {**os.environ, "TREADLE_HOME": str(home)}
        done = subprocess.run([COMMAND, *arguments], env=env, cwd=tmp_path, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr
        return done.stdout

    try:
        treadle("run", "--detach", "--id", "c", "--", COMMAND, "--model", f"scripted:{script}")
        treadle("wait", "c", "--state", "idle", "--timeout", "60")
        treadle("send", "c", "make it", "--enter")
        treadle("wait", "c", "--state", "permission", "--timeout", "60")
        assert not (tmp_path / "made.txt").exists()
        treadle("send", "c", "y", "--force")  # one key answers
        treadle("wait", "c", "--state", "idle", "--timeout", "60")
        assert (tmp_path / "made.txt").read_text() == "hello"
        assert '"done": true' in treadle("status", "c", "--json")
    finally:
        treadle("kill", "c")
        shutil.rmtree(home, ignore_errors=True)  # its supervisor may still write how it ended
