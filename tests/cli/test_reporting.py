"""A kept chat says what it does in reports that do not show."""

import asyncio
import contextlib
import io
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.scripts import calls, says
from treadle.cli.chat import talk
from treadle.cli.chat.talk import MESSAGE_MAX, Reporter
from treadle.events import AnyEvent, Asked, ToolEnded, ToolStarted
from treadle.terminal.reports import parse
from treadle.terminal.settings import STATE_FILE_VARIABLE

COMMAND = str(Path(sys.executable).with_name("treadle"))
ASKED = Asked(request="r", kind="permission", text="may I?")
CHAT = calls("write_file", {"file_path": "made.txt", "content": "hello"}, when="make it") + says("It is written.")


class Screen(io.StringIO):
    def isatty(self) -> bool:
        return True

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


def test_what_a_task_still_asks_counts_when_the_turn_is_over() -> None:
    screen = Screen()
    Reporter(screen, {STATE_FILE_VARIABLE: "/x"}).at_rest([Asked(request="q", kind="question", text="?" * 999)])
    assert screen.reports == [("blocked", "question", "?" * MESSAGE_MAX)]


async def test_work_is_reported_again_and_rest_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(talk, "PAUSE", 0)
    screen = Screen()
    reporter = Reporter(screen, {STATE_FILE_VARIABLE: "/x"})
    reminding = asyncio.create_task(reporter.remind())
    for state, times in (("idle", 1), ("working", 3)):
        screen.truncate(0)
        screen.seek(0)
        reporter.say(state)
        for _ in range(2 * (times + 1)):
            await asyncio.sleep(0)
        assert (len(screen.reports) > 1) is (times > 1), state
    reminding.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await reminding


def test_nothing_is_written_where_no_supervisor_reads() -> None:
    for screen, env in ((Screen(), {}), (io.StringIO(), {STATE_FILE_VARIABLE: "/x"})):
        Reporter(screen, env).say("working")
        assert screen.getvalue() == ""


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
        shutil.rmtree(home)
