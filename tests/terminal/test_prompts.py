"""Texts submitted to a program that may be stopped, slow, or about to ask something."""

import json
import os
import signal
import subprocess
import sys
import time
import tty
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.terminal.support import Stage, connected, until
from tests.waiting import stop
from treadle.errors import PeerStalled, TimedOut
from treadle.io.process import table
from treadle.terminal.client import Client
from treadle.terminal.history import Log
from treadle.terminal.keyboard import ENDS
from treadle.terminal.loop import Loop
from treadle.terminal.places import Place
from treadle.terminal.prompts import CLEAR, CLEAR_MAX, QUEUE_MAX, TRIES, Prompts
from treadle.terminal.pty import Pty
from treadle.terminal.settings import TerminalSettings
from treadle.terminal.state import Watch
from treadle.terminal.states import SETTLE_MAX, SETTLED, SETTLED_AGENT
from treadle.wire.terminal import frames as wire

ROOT = Path(__file__).parents[2]
AGENT = r"""
import os, sys, tty
tty.setraw(0)
RULE = "\u2500" * 60
DIALOG = [RULE, "Do you want to proceed?", "\u276f 1. Yes", "", "Esc to cancel \u00b7 Tab to amend"]
asks, met, text, above, log = False, False, "", [], open(sys.argv[1], "a", buffering=1)
while True:
    lines = DIALOG if asks else [RULE, "\u276f " + text, RULE, "  ? for shortcuts"]
    os.write(1, ("\x1b[2J\x1b[H" + "\r\n".join([*above, *lines])).encode())
    for letter in os.read(0, 4096).decode():
        if asks:
            print("answered", repr(letter), file=log)
            asks = False
        elif letter == "\r":
            print("given", text, file=log)
            asks, above, text = "ask" in text, [*above, "\u276f " + text, "\u25cf Done."], ""
        elif letter == "?" and not met:
            asks = met = True
        elif letter in "\x05\x15":
            text = ""
        else:
            text += letter
"""


@pytest.fixture
def agent(stage: Stage, tmp_path: Path) -> Place:
    program = tmp_path / "claude"
    program.write_text(f"#!{sys.executable} -ISu\n{AGENT}")
    program.chmod(0o700)
    place = stage.start(str(program), str(tmp_path / "log"), cols=80, rows=24)
    with connected(place) as client:
        until(lambda: client.detail()["state"]["name"] == "idle")
    return place


def given(tmp_path: Path) -> list[str]:
    return (tmp_path / "log").read_text().splitlines()


def end_of(client: Client, answer: dict[str, Any], *stages: str) -> dict[str, Any]:
    while answer["stage"] not in (*stages, *ENDS):
        answer = client.prompted()
    assert answer["stage"] in stages, answer
    return answer


def stop_program(place: Place) -> int:
    pid = place.pids()[1]
    stop(pid)
    return pid


@pytest.mark.slow
def test_a_prompt_is_followed_to_the_end_of_its_own_turn(agent: Place, tmp_path: Path) -> None:
    with connected(agent) as client:
        for turn in (1, 2):
            answer = end_of(client, client.prompt(b"tidy up"), "over")
            assert (answer["turn"], answer["confirmed"]) == (turn, True)
    assert given(tmp_path) == ["given tidy up"] * 2


def test_a_text_whose_sender_has_given_up_before_it_was_read_is_not_typed(agent: Place, tmp_path: Path) -> None:
    supervisor = agent.pids()[0]
    with connected(agent) as client:
        client.hello()
        stop(supervisor)
        client.until = time.monotonic() + 0.5
        with pytest.raises(PeerStalled):
            client.prompt(b"too late")
    os.kill(supervisor, signal.SIGCONT)
    with connected(agent) as client:
        end_of(client, client.prompt(b"tidy up"), "over")
    assert given(tmp_path) == ["given tidy up"]


@pytest.mark.slow
def test_enter_waits_until_the_text_is_seen_in_the_box(agent: Place, tmp_path: Path) -> None:
    pid = agent.pids()[1]
    with connected(agent) as client:
        answer = client.prompt(b"tidy up")
        stop(pid)  # whatever has been typed by now, more is typed only when it runs again
        while answer["stage"] not in ENDS:
            try:
                answer = client.prompted(time.monotonic() + 0.5)
            except TimedOut:
                os.kill(pid, signal.SIGCONT)
        assert answer["stage"] == "over", answer
    assert given(tmp_path) == ["given tidy up"]


def test_a_stopped_program_is_not_idle_and_gets_nothing_typed(agent: Place, tmp_path: Path) -> None:
    pid = stop_program(agent)
    with connected(agent) as client:
        answer = end_of(client, client.prompt(b"tidy up"), "refused")
        assert answer["why"] in ("stopped", "unknown")
        until(lambda: client.detail()["state"]["name"] == "unknown")
        assert "stopped" in client.detail()["state"]["why"]["said"]
        os.kill(pid, signal.SIGCONT)
        until(lambda: client.detail()["state"]["name"] == "idle")
    assert given(tmp_path) == []


@pytest.mark.slow
def test_a_turn_that_asks_is_told_and_the_next_text_waits_for_its_end(agent: Place, tmp_path: Path) -> None:
    with connected(agent) as client, connected(agent) as other:
        answer = end_of(client, client.prompt(b"ask me"), "taken")
        while answer["why"] != "permission":
            answer = client.prompted()
        assert answer["confirmed"] and answer["state"]["message"]
        queued = other.prompt(b"next", wire.WHEN_IDLE)
        assert queued["stage"] == "queued"
        assert end_of(client, client.prompt(b"push in"), "refused")["why"] == "permission"
        other.type_in(b"1", wire.ANSWERS, other.detail()["state"]["dialog"])
        end_of(other, queued, "over")
    assert given(tmp_path) == ["given ask me", "answered '1'", "given next"]


def test_what_is_queued_outlives_the_one_who_sent_it(agent: Place, tmp_path: Path) -> None:
    pid = stop_program(agent)
    with connected(agent) as client:
        client.prompt(b"later", wire.WHEN_IDLE)
    os.kill(pid, signal.SIGCONT)
    until(lambda: given(tmp_path) == ["given later"])


# In this process, step by step...

RULE = "─" * 40
DIALOG = f"{RULE}\r\nDo you want to proceed?\r\n❯ 1. Yes\r\n\r\nEsc to cancel · Tab to amend"


def box(*above: str, typed: str = "", footer: str = "  ? for shortcuts") -> str:
    return "\r\n".join([*above, RULE, f"❯ {typed}", RULE, footer])


WORKING = box("❯ tidy up", "✻ Working… (3s)", footer="  esc to interrupt")
DONE = box("❯ tidy up", "● Done.")


class Terminal:
    """A terminal to submit texts to, without a program: its screen, its time and its end are the test's."""

    def __init__(self, directory: Path, command: str = "claude") -> None:
        settings = TerminalSettings()
        settings.command, settings.classifier = [command], "simple"
        self.loop = Loop()
        self.log = Log(str(directory / "log"), "x")
        self.pty = Pty(80, 24)
        tty.setraw(self.pty.slave)
        self.watch = Watch(settings, 0, "/nowhere")
        self.code: int | None = None
        self.clients = self
        self.now = 0
        self.typed = b""
        self.told: list[dict[str, Any]] = []
        self.prompts = Prompts(self)
        self.me: Any = object()

    def tell_prompted(self, client: object, message: wire.Prompted) -> None:
        assert client is self.me
        self.told.append(message.body)

    def type(self, data: bytes) -> None:
        self.typed += data

    def state(self) -> dict[str, Any]:
        return self.watch.detail(self.now)

    def look(self) -> None:
        self.watch.look(self.now)
        self.prompts.step()

    def shows(self, screen: str, at: int = 0) -> None:
        self.now = at or self.now
        self.watch.output(f"\x1b[2J\x1b[H{screen}".encode(), self.now, answered=False)

    def idle(self, screen: str = box()) -> "Terminal":
        self.watch.look(0)
        self.shows(screen)
        self.now = 2000
        assert self.state()["name"] == "idle"
        return self

    def step(self, at: int = 0) -> list[tuple[str, str | None]]:
        """The stages that were told since the last step, each with its reason."""
        self.now = at or self.now
        self.prompts.step()
        return self.stages()

    def add(self, data: bytes = b"tidy up", how: int = 0, patience: int = 20_000) -> list[tuple[str, str | None]]:
        self.prompts.add(self.me, wire.SubmitPrompt(how, patience, data))
        return self.stages()

    def stages(self) -> list[tuple[str, str | None]]:
        found = [(body["stage"], body.get("why")) for body in self.told]
        self.told.clear()
        return found

    def keys(self) -> bytes:
        found, self.typed = self.typed, b""
        return found

    def pause(self) -> float:
        return self.loop._timers["prompt"][0] - time.monotonic()

    def logged(self) -> list[tuple[str, str, str]]:
        lines = [json.loads(line) for line in Path(self.log._file.path).read_text().splitlines()]
        return [(line["level"], line["stage"], line["why"]) for line in lines]

    def close(self) -> None:
        self.log.close()
        os.close(self.pty.master)
        os.close(self.pty.slave)


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Terminal]]:
    terminals: list[Terminal] = []

    def make(command: str = "claude") -> Terminal:
        terminals.append(Terminal(tmp_path, command))
        monkeypatch.setattr(time, "monotonic_ns", lambda: terminals[-1].now * 1_000_000)
        return terminals[-1]

    yield make
    for terminal in terminals:
        terminal.close()


Make = Callable[..., Terminal]


def test_enter_is_pressed_when_the_text_is_seen_and_still_and_each_stage_is_told_once(made: Make) -> None:
    terminal = made().idle()
    assert terminal.add() == [("queued", None), ("typing", None)] and terminal.keys() == b"tidy up"
    assert terminal.step(2100) == [] and 0 < terminal.pause() <= 0.06
    terminal.shows(box(typed="tidy up"), 2200)
    assert terminal.step(2199 + SETTLED_AGENT) == [] and terminal.keys() == b""
    assert terminal.step(2200 + SETTLED_AGENT) == [("entered", None)] and terminal.keys() == b"\r"
    assert terminal.state()["name"] == "submitted"
    terminal.shows(WORKING, 3000)
    terminal.prompts.step()
    assert [body | {"state": 0} for body in terminal.told] == [
        {"number": 1, "stage": "taken", "why": None, "state": 0, "turn": 1, "confirmed": True}
    ]
    terminal.told.clear()
    assert terminal.step(3100) == [] and not terminal.loop.has("prompt")
    terminal.shows(DONE, 4000)
    assert terminal.step(4000) == [], "the state is changing"
    assert terminal.step(5000) == [("over", None)] and terminal.prompts.queue == []
    assert terminal.logged() == [("info", "over", "")]


def test_enter_is_not_pressed_where_the_text_became_a_mode_of_the_box(made: Make) -> None:
    terminal = made().idle()
    terminal.add(b"# tidy up")
    terminal.shows(box().replace("❯ ", "# tidy up"), 2200)
    assert terminal.step(2200 + SETTLED_AGENT) == [("unseen", "mode")] and terminal.keys() == b"# tidy up"


def test_what_cannot_be_typed_is_refused_with_the_state_or_waits_for_it(made: Make) -> None:
    terminal = made().idle()
    terminal.shows(WORKING, 3000)
    assert terminal.add() == [("queued", None), ("refused", "thinking")] and terminal.prompts.queue == []
    assert terminal.add(how=wire.WHEN_IDLE) == [("queued", None)] and terminal.keys() == b""
    assert (
        terminal.prompts.listed() == [{"number": 2, "stage": "queued", "waits_for": "thinking", "text": "tidy up"}]
        and terminal.pause() > 0.5
    )
    terminal.shows(box(), 4000)
    assert terminal.step(5000) == [("typing", None)] and terminal.keys() == b"tidy up"
    assert terminal.prompts.listed()[0]["waits_for"] is None
    assert terminal.logged() == [("warn", "refused", "thinking")]


def test_a_state_that_is_changing_is_waited_for_but_not_for_ever(made: Make) -> None:
    terminal = made().idle()
    terminal.shows(DIALOG, 3000)
    assert terminal.state()["settling"] and terminal.add() == [("queued", None)]
    assert terminal.step(3000 + SETTLED) == [] and terminal.step(4000) == [("refused", "permission")]
    terminal = made().idle()
    terminal.shows(DIALOG, 3000)
    terminal.state()
    terminal.now = 4000
    terminal.watch.typed(4000)  # its answer, which is not seen yet
    assert terminal.add() == [("queued", None), ("refused", "permission")]


def test_a_text_in_the_box_is_kept_or_replaced_line_by_line(made: Make) -> None:
    terminal = made().idle(box(typed="my draft"))
    assert terminal.add() == [("queued", None), ("refused", "text")]
    assert terminal.add(how=wire.WHEN_IDLE) == [("queued", None)]
    assert terminal.prompts.listed()[0]["waits_for"] == "text"
    terminal.prompts.cancel(terminal.me, 2)
    terminal.stages()
    assert terminal.add(how=wire.REPLACE) == [("queued", None)] and terminal.keys() == CLEAR + b"\x7f" + CLEAR
    assert terminal.prompts.listed()[0]["waits_for"] == "clearing"
    assert terminal.step(2100) == [] and terminal.keys() == b"\x7f" + CLEAR
    terminal.shows(box(), 2200)
    assert terminal.step(2200) == [("typing", None)] and terminal.keys() == b"tidy up"


def test_a_box_that_cannot_be_cleared_keeps_its_text(made: Make) -> None:
    terminal = made().idle(box(typed="my draft"))
    terminal.add(how=wire.REPLACE)
    for _ in range(CLEAR_MAX - 2):  # it was tried twice, by those who came and by the look after that
        assert terminal.step(terminal.now + 100) == []
    assert terminal.step() == [("refused", "text")]
    assert terminal.keys().count(b"\x15") == CLEAR_MAX


def test_each_has_its_place_in_the_queue(made: Make) -> None:
    terminal = made().idle()
    terminal.shows(WORKING, 3000)
    terminal.add(b"first", wire.WHEN_IDLE)
    terminal.add(b"second", wire.WHEN_IDLE)
    assert terminal.add(b"now") == [("refused", "queue")]
    assert terminal.add(b"anyway", wire.AT_ANY_TIME) == [("queued", None), ("typing", None)]
    assert terminal.add(b"again", wire.AT_ANY_TIME) == [("queued", None)]
    order = ["anyway", "again", "first", "second"]
    assert [one["text"] for one in terminal.prompts.listed()] == order and terminal.keys() == b"anyway"
    for _ in range(QUEUE_MAX - 4):
        terminal.add(b"more", wire.WHEN_IDLE)
    assert terminal.add(b"last", wire.WHEN_IDLE)[-1] == ("refused", "full")
    assert len(terminal.prompts.queue) == QUEUE_MAX
    terminal.code = 0
    assert terminal.step()[:2] == [("dead", None)] * 2 and terminal.prompts.queue == []


def test_another_text_can_be_given_to_a_turn_that_runs(made: Make) -> None:
    terminal = made().idle()
    terminal.add()
    terminal.shows(box(typed="tidy up"), 2100)
    terminal.step(2100 + SETTLED_AGENT)
    terminal.shows(WORKING, 3000)
    terminal.step()
    assert terminal.prompts.queue[0].stage == "taken"
    assert terminal.add(b"more") == [("queued", None), ("refused", "thinking")], "it was asked first, and not the queue"
    assert terminal.add(b"more", wire.AT_ANY_TIME)[-1] == ("typing", None)


def test_a_dialog_that_comes_before_enter_ends_it_or_sends_it_back_to_the_queue(made: Make) -> None:
    terminal = made().idle()
    terminal.add()
    terminal.shows(DIALOG, 2100)
    assert terminal.step(3000) == [("unseen", "permission")] and terminal.keys() == b"tidy up"
    terminal = made().idle()
    terminal.add(how=wire.WHEN_IDLE)
    for number in range(TRIES):
        terminal.keys()
        terminal.shows(DIALOG, terminal.now + 100)
        last = number == TRIES - 1
        assert terminal.step(terminal.now + 1000)[-1] == (("unseen", "permission") if last else ("queued", None))
        terminal.shows(box(), terminal.now + 4000)
        terminal.step(terminal.now + 1000)
        assert terminal.keys() == (b"" if last else b"tidy up")


def test_a_text_that_is_not_seen_in_time_is_not_entered(made: Make) -> None:
    terminal = made().idle()
    terminal.add(patience=5000)
    assert terminal.step(7000) == [] and terminal.step(7001) == [("unseen", "unseen")]
    assert terminal.keys() == b"tidy up"


def test_who_wants_it_at_any_time_has_enter_pressed_after_a_while(made: Make) -> None:
    terminal = made().idle()
    terminal.shows(WORKING, 3000)
    terminal.add(how=wire.AT_ANY_TIME)
    assert terminal.step(3000 + SETTLE_MAX) == [] and terminal.keys() == b"tidy up"
    assert terminal.step(3001 + SETTLE_MAX)[0] == ("entered", None) and terminal.keys() == b"\r"
    asking = made().idle()
    asking.shows(DIALOG, 3000)
    asking.state()
    asking.now = 4000
    asking.add(b"1", how=wire.AT_ANY_TIME)
    assert asking.step(4001 + SETTLE_MAX)[:2] == [("entered", None), ("taken", None)], "an answer submits nothing"
    assert asking.watch.submission is None


def test_time_in_which_it_is_stopped_is_not_counted_and_no_key_is_pressed(made: Make) -> None:
    terminal, state = made().idle(), "S"
    terminal.watch.pulse.processes = lambda: [table.Process(7, 1, 0, state, 0, "x")]
    terminal.add(patience=1000)
    terminal.shows(box(typed="tidy up"), 2100)
    state = "T"
    terminal.watch.pulse.take(2200)
    assert terminal.step(9000) == [] and terminal.keys() == b"tidy up"
    state = "S"
    terminal.watch.pulse.take(9100)
    assert terminal.step(9100 + 500)[-1:] == [("entered", None)] and terminal.keys() == b"\r"


def test_one_that_begins_to_work_by_itself_gets_no_enter(made: Make) -> None:
    terminal = made().idle()
    terminal.add(patience=5000)
    terminal.shows(box("✻ Working… (3s)", typed="tidy up", footer="  esc to interrupt"), 2100)
    assert terminal.step(3000) == [] and terminal.step(7000) == [] and terminal.keys() == b"tidy up"
    assert terminal.step(7001) == [("unseen", "thinking")] and terminal.keys() == b""


def test_an_enter_alone_submits_what_is_in_the_box_or_nothing(made: Make) -> None:
    terminal = made().idle()
    stages = [stage for stage, _ in terminal.add(b"")]
    assert stages == ["queued", "typing", "entered", "taken", "over"] and terminal.keys() == b"\r"
    assert terminal.watch.submission is None
    terminal = made().idle(box(typed="my draft"))
    assert terminal.add(b"")[-1] == ("entered", None) and terminal.watch.submission is not None
    assert terminal.watch.submission.data == b"my draft"


def test_a_program_that_no_table_describes_gets_enter_when_it_has_drawn_the_text(made: Make) -> None:
    terminal = made("sh").idle("$ ")
    assert terminal.add(b"true") == [("queued", None), ("typing", None)]
    terminal.shows("$ ", 2020)
    assert terminal.step(2019 + SETTLED) == [] and terminal.keys() == b"true"
    assert terminal.step(2020 + SETTLED)[0] == ("entered", None) and terminal.keys() == b"\r"
    terminal.shows("$ true\r\n$ ", 3000)
    terminal.step(3500)
    terminal.step(4000)
    assert terminal.prompts.queue == []
    restless = made("sh").idle("$ ")
    restless.add(b"true")
    restless.keys()
    for now in range(2050, 2000 + SETTLE_MAX, 50):
        restless.shows(f"$ true {now}", now)
        assert restless.step() == []
    restless.shows("$ true", 2000 + SETTLE_MAX)
    assert restless.step()[0] == ("entered", None)
    early = made("sh").idle("$ ")
    early.add(b"true")
    assert early.step(1999 + SETTLED // 2) == [] and early.step(2000 + SETTLED // 2)[0] == ("entered", None)


def test_a_program_that_stays_unknown_after_its_text_is_left_when_it_is_quiet(made: Make) -> None:
    terminal = made("sh").idle("$ ")
    terminal.add(b"cat")
    terminal.shows("$ cat", 2020)
    terminal.step(2400)
    terminal.shows("$ cat\r\nhello", 2500)
    assert terminal.step(3000)[-1] == ("taken", "unknown") and terminal.step(5400) == []
    assert terminal.step(6000) == [("over", "unknown")]


@pytest.mark.slow
def test_sends_at_random_moments_to_agents_that_are_stopped_approve_join_and_misstate_nothing(tmp_path: Path) -> None:
    """A short one; `make soak-terminals` has two thousand sends and longer stops."""
    command = [sys.executable, "-m", "tests.terminal.random_sends", "5", "15", "3", "0.4", str(tmp_path / "s")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=110)
    found = json.loads(done.stdout or "{}")
    assert (found.get("sends"), found.get("violations")) == (15, []), done.stdout + done.stderr
