"""`treadle --plain` on a real terminal, as a person uses it: type, allow, interrupt, leave."""

import fcntl
import os
import pty
import re
import select
import signal
import subprocess
import termios
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from tests.installed import TREADLE
from tests.scripts import calls, says
from treadle.cli.chat.command import Lines
from treadle.cli.chat.page import Page
from treadle.cli.chat.question import Question
from treadle.events import Asked
from treadle.session import Answer

CTRL_C, CTRL_D = b"\x03", b"\x04"
SCRIPT = (
    says(f"one two {'more ' * 500}nine ten", when="go on", pace=0.3)
    + calls("write_file", {"file_path": "made.txt", "content": "hello"}, when="make it", text="I will write the file.")
    + says("It is written.", when="[Ww]rote|made.txt")
    + says("one two three four five six seven eight nine ten", when="talk", pace=0.3, times="always")
    + says("Yes, I am.", when="still there", times="always")
    + calls("bash", {"command": "echo \u202edaer\u202c \u001b[2J\u009b1m"}, when="hide it")
    + says("never", when="for ever", delay=600, times="always")
)


class Terminal:
    """A program on a pty, and what it has shown so far."""

    def __init__(self, command: list[str], cwd: Path, env: dict[str, str]) -> None:
        self.master, slave = pty.openpty()
        termios.tcsetwinsize(slave, (40, 120))
        self.process = subprocess.Popen(
            command, cwd=cwd, env=env, stdin=slave, stdout=slave, stderr=slave, preexec_fn=_own_terminal
        )
        os.close(slave)
        self.shown = self.greeting = ""
        self.env = env

    def type(self, text: str) -> None:
        os.write(self.master, text.encode() + b"\r")

    def key(self, byte: bytes) -> None:
        os.write(self.master, byte)

    def until(self, text: str) -> str:
        """What was shown up to and with `text`; the next call looks behind it."""
        deadline = time.monotonic() + 60
        while text not in self.shown:
            ready, _, _ = select.select([self.master], [], [], max(deadline - time.monotonic(), 0))
            assert ready, f"{text!r} never came:\n{self.shown}"
            self.shown += os.read(self.master, 65536).decode(errors="replace")
        before, _, self.shown = self.shown.partition(text)
        return before + text

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self.master)


def _own_terminal() -> None:
    os.setsid()
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


@pytest.fixture
def terminal(tmp_path: Path, state_home: Path) -> Iterator[Terminal]:
    script = tmp_path / "script.toml"
    script.write_text(SCRIPT)
    work = tmp_path / "work"
    work.mkdir()
    env = {**os.environ, "TERM": "xterm-256color", "TREADLE_MODEL": f"scripted:{script}"}
    terminal = Terminal([TREADLE, "--plain"], work, env)
    terminal.greeting = terminal.until("\n> ")
    yield terminal
    terminal.close()


def test_a_person_talks_allows_interrupts_and_leaves(terminal: Terminal, tmp_path: Path) -> None:
    terminal.type("make it")
    assert "+hello" in terminal.until("allow? [y]es")
    assert not (tmp_path / "work" / "made.txt").exists()
    terminal.type("y")
    assert "+hello" not in terminal.until("It is written.")  # it was seen before
    assert (tmp_path / "work" / "made.txt").read_text() == "hello"
    terminal.until("\n> ")
    terminal.type("go on")
    terminal.until("one two")
    terminal.key(CTRL_C)
    assert "nine ten" not in terminal.until("interrupted")
    terminal.until("\n> ")
    terminal.type("still there?")
    terminal.until("Yes, I am.")
    terminal.until("\n> ")
    terminal.type("/nonsense")
    terminal.until("unknown command /nonsense")
    terminal.until("\n> ")
    terminal.type("/exit")
    terminal.until("treadle --resume")
    assert terminal.process.wait(timeout=60) == 0


def test_a_background_agent_asks_when_the_person_has_the_word(terminal: Terminal, tmp_path: Path) -> None:
    terminal.type("/agent run --background make it")
    terminal.until("Started agent job: agent_1")
    terminal.until("agent_1 asks: Create made.txt? (press Enter to answer)")
    terminal.type("still there?")
    terminal.until("Yes, I am.")
    assert not (tmp_path / "work" / "made.txt").exists(), "what is typed for the agent is not an answer"
    terminal.until("\n> ")
    terminal.type("/agent list")
    terminal.until("agent_1  waiting_permission")
    terminal.until("agent_1 asks: ")
    terminal.until("\n> ")
    terminal.type("")
    terminal.until("allow? [y]es")
    terminal.type("y")
    terminal.until("agent_1 (make it) completed: /agent read agent_1")
    assert (tmp_path / "work" / "made.txt").read_text() == "hello"
    terminal.type("/agent read agent_1")
    terminal.until("It is written.")


def test_what_a_command_hides_is_shown_before_it_is_allowed(terminal: Terminal) -> None:
    terminal.type("hide it")
    asked = terminal.until("allow?")
    shown = "echo \N{REPLACEMENT CHARACTER}daer\N{REPLACEMENT CHARACTER} \N{REPLACEMENT CHARACTER}[2J"
    assert shown in asked and "\u202e" not in asked and "\x9b" not in asked


def test_a_yes_typed_before_the_question_is_no_answer_to_it(terminal: Terminal, tmp_path: Path) -> None:
    terminal.type("make it\ry")  # in one write: the second line is there before the question is
    terminal.until("allow?")
    terminal.type("n")
    terminal.until("not allowed")
    assert not (tmp_path / "work" / "made.txt").exists()


def test_a_signal_to_leave_closes_the_session_and_gives_the_terminal_back(terminal: Terminal) -> None:
    terminal.type("go on")
    terminal.until("two")
    terminal.process.send_signal(signal.SIGTERM)
    assert terminal.process.wait(60) == 143
    assert termios.tcgetattr(terminal.master)[3] & termios.ECHO
    [history] = Path(os.environ["TREADLE_HOME"], "sessions").glob("*/history.jsonl")
    assert '"type":"turn_over"' in history.read_text().splitlines()[-1]


def test_what_is_typed_while_the_agent_works_comes_next_and_then_ctrl_d(terminal: Terminal) -> None:
    terminal.type("talk")
    terminal.until("two")
    terminal.type("still there?")
    terminal.key(CTRL_D)
    terminal.until("nine ten")
    terminal.until("> still there?")
    terminal.until("Yes, I am.")
    terminal.until("treadle --resume")
    assert terminal.process.wait(60) == 0


def test_ctrl_d_at_a_question_refuses_and_leaves_when_the_turn_is_over(terminal: Terminal, tmp_path: Path) -> None:
    terminal.type("make it")
    terminal.until("allow?")
    terminal.key(CTRL_D)
    terminal.until("not allowed")
    terminal.until("treadle --resume")
    assert terminal.process.wait(60) == 0
    assert not (tmp_path / "work" / "made.txt").exists()


def test_a_screen_reader_gets_each_thing_once_and_no_drawing(terminal: Terminal) -> None:
    """The bytes, as a reader hears them: nothing moves, nothing is said again."""
    heard = terminal.greeting
    terminal.type("make it")
    heard += terminal.until("instead: ")
    terminal.type("y")
    heard += terminal.until("\n> ")
    terminal.type("talk")
    heard += terminal.until("\n> ")
    terminal.type("/nonsense")
    heard += terminal.until("\n> ")
    terminal.type("/exit")
    heard += terminal.until("treadle --resume")
    for once in ("make it", "waiting for the model", "+hello", "tool: write_file", "Create made.txt?"):
        assert heard.count(once) == (2 if once.startswith("waiting") else 1), once
    # What the line editor says to the terminal about pastes moves nothing.
    said = re.sub("\x1b\\[\\?2004[hl]\r?", "", heard).replace("\r\n", "\n")
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f]", said), said
    assert not re.search("[●◐✗└↻✻◇☐☑⠋❯]", said), "marks are read out as names of shapes"


class Typed:
    """Lines that a person types when asked."""

    def __init__(self, *lines: str) -> None:
        self._lines = list(lines)
        self.asked: list[tuple[str, bool]] = []
        self.closed = False

    async def line(self, prompt: str, *, fresh: bool = False) -> str:
        self.asked.append((prompt, fresh))
        if not self._lines:
            raise EOFError
        return self._lines.pop(0)

    def close(self) -> None:
        self.closed = True


def lines(*typed: str) -> tuple[Lines, Typed]:
    made, person = Lines(), Typed(*typed)
    made.typed = cast(Any, person)
    made._page = Page(lambda: 80, colour=False, flowing=True)
    return made, person


RUN = Asked(request="r", kind="permission", text="?", name="bash", args={}, command="ls", always=("Bash(ls)",))
CHOICES = "allow? [y]es, [n]o, for this [s]ession, [a]lways (Bash(ls)), or say what to do instead: "


@pytest.mark.parametrize(
    ("typed", "answer"),
    [
        ("y", Answer(decision="allow")),
        (" YES ", Answer(decision="allow")),
        ("s", Answer(decision="allow", scope="session")),
        ("session", Answer(decision="allow", scope="session")),
        ("always", Answer(decision="allow", scope="always")),
        ("n", Answer(decision="deny")),
        ("no", Answer(decision="deny")),
        ("", Answer(decision="deny")),
        ("use make", Answer(decision="deny", text="use make")),
        ("x", Answer(decision="deny", text="x")),
    ],
)
async def test_a_line_allows_refuses_or_says_what_to_do(typed: str, answer: Answer) -> None:
    made, person = lines(typed)
    assert await made.ask(Question(RUN, "/work")) == answer
    assert person.asked == [(CHOICES, True)], "what was typed before the question is not an answer"
