"""`treadle top`, and terminals of orders: what is printed, and the same on a real terminal with keys."""

import asyncio
import curses
import os
import sys
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner

from tests.cli.fleet.commands import requested, stored
from tests.fleet.conftest import (
    Start,
    bus,
    fleet,
    give,
    make_fleet,
    nothing_left,
    repository,
    start_node,
    until_state,
)
from tests.fleet.repositories import work
from tests.terminal.conftest import stage
from tests.terminal.support import Stage, until
from treadle.cli.fleet.terminals import KEYS, _Carrier, _loop, lines, top
from treadle.errors import LocalError, NotFound
from treadle.fleet import client
from treadle.fleet.engine import layout, server
from treadle.fleet.engine.bus import Bus
from treadle.fleet.find.order_rows import Glance, GlanceRow
from treadle.fleet.orders import encode
from treadle.fleet.run.terminals import OrderTerminals, place_of
from treadle.terminal.client import Client
from treadle.terminal.viewers.screen import snapshot
from treadle.wire.fleet.messages import RunReport
from treadle.wire.fleet.records import AnswerRecord, AskRecord, Attempt

__all__ = ["bus", "fleet", "nothing_left", "repository", "stage", "start_node"]


def test_a_line_shows_state_age_and_what_it_does_and_obeys_nothing() -> None:
    row = GlanceRow(id="abc", word="asks", title="evil \x1b[31m\u202e", changed=0.0, now="rm -rf x\ny")
    found = lines(Glance(head="", sections=[("Needs you", [row])]), 200)
    assert found[0][0] == "Needs you (1)" and found[1][1] == "abc"
    assert "rm -rf x y" in found[1][0] and "\x1b" not in found[1][0] and "\u202e" not in found[1][0]
    assert lines(Glance(head="", sections=[("Needs you", [row])]), 30)[1] == (found[1][0][:30], "abc")
    assert found[2:] == [("", "")]


def test_on_a_terminal_it_is_drawn_and_q_leaves_it(stage: Stage, state_home: Path) -> None:
    fleet = make_fleet()
    server.start(fleet)
    try:

        async def ready() -> None:
            bus = await server.await_ready(fleet)
            await layout.ensure(bus, lease=fleet.lease)
            await bus.close()

        asyncio.run(ready())
        code = "import sys; from treadle.cli.root import main; main(['top'])"
        place = stage.start(sys.executable, "-c", code)
        until(lambda: any("Needs you (0)" in line for line in snapshot(place)["lines"]))
        with Client(place.sock) as client:
            client.input(b"q")
            assert list(client.output(60)) is not None and client.exit_code == 0
    finally:
        server.stop()


@pytest.mark.slow
async def test_a_key_leads_to_the_terminal_of_an_order_and_another_back(
    stage: Stage, bus: Bus, start_node: Start, repository: Path
) -> None:
    await start_node()
    order = msgspec.structs.replace(
        work(repository, "any"), agent="acp:cat", terminal=True, task="hello loom", title="w"
    )
    await give(bus, order)
    await until_state(bus, order.id, "running")
    code = "import sys; from treadle.cli.root import main; main(['top'])"
    place = await asyncio.to_thread(stage.start, sys.executable, "-c", code)

    async def press_until(key: bytes, wanted: str) -> None:
        """Also again: the order's terminal may still be starting, which is told at the bottom."""
        async with asyncio.timeout(60):
            while not any(wanted in line for line in (await asyncio.to_thread(snapshot, place))["lines"]):
                with Client(place.sock) as terminal:
                    terminal.input(key)
                await asyncio.sleep(0.5)

    await press_until(b"", "Working (1)")
    await press_until(b"t", "hello loom")
    with Client(place.sock) as terminal:
        terminal.input(b"\x1c")
    await press_until(b"", "Working (1)")
    await client.cancel(bus, order.id)


class Screen:
    """What curses gives: keys and lines that a person types, and what was drawn before each of them."""

    def __init__(self, *keys: str | int, typed: tuple[bytes, ...] = (), size: tuple[int, int] = (24, 80)) -> None:
        self.keys = [ord(key) if isinstance(key, str) else key for key in keys]
        self.typed, self.size = list(typed), size
        self.frames: list[dict[int, tuple[str, int]]] = []
        self.asked: list[tuple[str, int]] = []
        self.done: list[object] = []
        self._now: dict[int, tuple[str, int]] = {}

    def getmaxyx(self) -> tuple[int, int]:
        return self.size

    def getch(self) -> int:
        return self.keys.pop(0) if self.keys else 27

    def erase(self) -> None:
        self._now = {}

    def addnstr(self, row: int, column: int, text: str, width: int, look: int = curses.A_NORMAL) -> None:
        if row >= self.size[0]:
            raise curses.error
        assert column == 0
        self._now[row] = (text[:width], look)

    def refresh(self) -> None:
        self.frames.append(dict(self._now))

    def move(self, row: int, column: int) -> None:
        self.done.append(("move", row, column))

    def clrtoeol(self) -> None:
        self.done.append("cleared")

    def nodelay(self, on: bool) -> None:
        self.done.append(("nodelay", on))

    def keypad(self, on: bool) -> None:
        self.done.append(("keypad", on))

    def getstr(self, row: int, column: int, most: int) -> bytes:
        self.asked.append((self._now[row][0], column))
        self.done.append("read")
        return self.typed.pop(0)[:most]

    @property
    def chosen(self) -> list[str]:
        """What was marked, frame by frame."""
        marked = [[text for text, look in frame.values() if look == curses.A_REVERSE] for frame in self.frames]
        return [row[0][19:31].strip() if row else "" for row in marked]

    @property
    def bottom(self) -> list[str]:
        return [frame[self.size[0] - 1][0] for frame in self.frames]


@pytest.fixture
async def orders(bus: Bus) -> None:
    await stored(bus, "asks", state="asking", open_ask="asks.3", title="t" * 40)
    ask = AskRecord(order="asks", number=3, command="rm x", asked_at=1, deadline=time.time() + 900, default="deny")
    await bus.put("ask.asks.3", encode(ask))
    await stored(bus, "works", {"terminal": True}, state="running")
    await stored(bus, "waits", state="queued")


@pytest.fixture
def echo(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    told: list[str] = []
    for name in ("echo", "noecho", "cbreak", "nocbreak", "endwin"):
        monkeypatch.setattr(curses, name, lambda name=name: told.append(name))
    return told


async def test_one_moves_through_the_orders_and_leaves_or_goes_to_a_terminal(bus: Bus, orders: None) -> None:
    screen = Screen("j", curses.KEY_DOWN, curses.KEY_DOWN, "k", curses.KEY_UP, curses.KEY_UP, -1, "q")
    assert await _loop(bus, screen, "", "no luck") is None
    assert screen.chosen == ["asks", "works", "waits", "waits", "works", "asks", "asks", "asks"]
    head, look = screen.frames[0][0]
    assert head == "treadle: 1 need you, nodes 0 of 0" and look == curses.A_BOLD
    assert screen.frames[0][2] == ("Needs you (1)", curses.A_BOLD) and screen.bottom[0] == "no luck"
    assert screen.frames[0][6][1] == curses.A_NORMAL and "works" in screen.frames[0][6][0]
    assert await _loop(bus, Screen("t"), "works", "") == ("works", "agent")
    assert await _loop(bus, Screen("t"), "gone", "") == ("asks", "shell")
    assert screen.done == [], "nothing was asked"


async def test_only_y_and_n_answer_and_a_window_that_changes_its_size_does_not(bus: Bus, orders: None) -> None:
    screen = Screen(curses.KEY_RESIZE, "x", "y", "n", "l")
    assert await _loop(bus, screen, "asks", "") is None
    assert screen.bottom[:3] == [KEYS, KEYS, KEYS] and screen.bottom[3] == "allow: rm x"
    assert "was answered by" in screen.bottom[4] and screen.bottom[5] == "treadle fleet logs -f asks"
    entry = await bus.get("answer.asks.3")
    assert entry is not None and msgspec.json.decode(entry.value, type=AnswerRecord).decision == "allow"
    idle = Screen("y", "n")
    assert await _loop(bus, idle, "works", "") is None and idle.bottom == [KEYS] * 3


async def test_what_is_typed_is_said_and_only_a_yes_cancels(bus: Bus, orders: None, echo: list[str]) -> None:
    screen = Screen("m", "m", "c", "c", typed=(b" be quick\xff ", b"", b"no", b"yes"))
    assert await _loop(bus, screen, "asks", "") is None
    sent = "sent: it is queued until the agent's next step"
    assert screen.bottom == [KEYS, sent, KEYS, KEYS, "cancelled"]
    assert [message.text for _, message in await client.messages(bus, "asks")] == ["be quick\ufffd"]
    assert await requested(bus) == [{"do": "cancel", "order": "asks"}]
    say, cancel = f"say to {'t' * 30}: ", f"cancel {'t' * 30}? type yes: "
    assert screen.asked == [(say, len(say))] * 2 + [(cancel, len(cancel))] * 2 and echo == ["echo", "noecho"] * 4
    assert screen.done[:5] == [("move", 23, 0), "cleared", ("nodelay", False), "read", ("nodelay", True)]


async def test_in_a_pipe_it_is_printed_once(bus: Bus, orders: None) -> None:
    once, piped = [await asyncio.to_thread(CliRunner().invoke, top, words) for words in (["--once"], [])]
    assert [line[:12] for line in once.output.splitlines()] == [line[:12] for line in piped.output.splitlines()]
    assert "\nWorking (1)\n  running " in once.output, "and no key was waited for"
    found = msgspec.json.decode((await asyncio.to_thread(CliRunner().invoke, top, ["--json"])).output)
    assert found["head"] == "treadle: 1 need you, nodes 0 of 0" and found["sections"]["Waiting"][0]["id"] == "waits"


async def no_report(report: RunReport, number: str) -> None:
    raise AssertionError("only a shell is reported")


async def upper_echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(100):
        writer.write(data.upper())
    writer.close()


@pytest.mark.parametrize("where", [{"node": "n1", "state": "running"}, {"attempts": ("n0", "n1")}])
async def test_what_is_typed_is_carried_to_the_node_that_has_it_or_had_it_last(
    bus: Bus, tmp_path: Path, where: dict[str, Any]
) -> None:
    if "attempts" in where:
        where = {"attempts": tuple(Attempt(number=1, node=node, placed=1.0) for node in ("n0", "n1"))}
    await stored(bus, "order1", **where)
    place = place_of("order1", "agent")
    os.makedirs(os.path.dirname(place.sock), exist_ok=True)
    terminals = OrderTerminals("n1", no_report)
    listening = await terminals.serve(bus)
    async with await asyncio.start_unix_server(upper_echo, place.sock):
        carrier = _Carrier("ord", "agent", str(tmp_path / "sock"))
        carrier.start()
        await asyncio.to_thread(carrier.ready)
        assert carrier.daemon, "one who leaves does not wait for it"
        reader, writer = await asyncio.open_unix_connection(str(tmp_path / "sock"))
        writer.write(b"hello")
        assert await reader.read(100) == b"HELLO"
        writer.close()
        await asyncio.to_thread(carrier.end)
        assert not carrier.is_alive()
    await listening.unsubscribe()
    await terminals.close()


async def test_what_keeps_it_from_being_carried_is_said_before_anything_is_shown(bus: Bus, tmp_path: Path) -> None:
    await stored(bus, "order1", state="queued")
    for name, kind, said in (
        ("order1", LocalError, "the order order1 was on no node yet: it is queued"),
        ("other", NotFound, "there is no order 'other'"),
    ):
        carrier = _Carrier(name, "shell", str(tmp_path / "sock"))
        carrier.start()
        with pytest.raises(kind, match=said):
            await asyncio.to_thread(carrier.ready)
        await asyncio.to_thread(carrier.end)
