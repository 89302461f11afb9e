"""One connection for each terminal that someone looks at, and none for those that no one does."""

import asyncio
import gc
import os

import pytest

from tests.terminal.support import Stage, connected
from tests.terminal.support import until as blocked_until
from tests.waiting import until
from treadle.errors import NotFound
from treadle.terminal.places import Place, find
from treadle.terminal.viewers import live as watching
from treadle.terminal.viewers.live import LiveScreen, Screens

DRAWS = r"stty -echo; printf 'one\r\ntwo\033]0;its title\007'; read a; printf '\033[1;1Hnew'; read b; exit 3"


def text(live: LiveScreen) -> list[str]:
    return ["".join(run[0] for run in row) for row in live.frame()["rows"].values()]


async def test_a_connection_that_nobody_waits_for_any_more_is_closed(stage: Stage) -> None:
    place = await asyncio.to_thread(stage.python, "input()")
    opening = asyncio.create_task(LiveScreen(place).open())
    await asyncio.sleep(0)  # now a thread is at it
    opening.cancel()
    await asyncio.gather(opening, return_exceptions=True)
    assert opening.cancelled()
    await asyncio.get_running_loop().shutdown_default_executor()  # until that thread is done
    gc.collect()  # a socket that is still open is a warning now, and a warning fails the test


async def test_a_watcher_gets_the_whole_screen_once_and_then_the_rows_that_changed(stage: Stage) -> None:
    place = stage.start("sh", "-c", DRAWS, cols=20, rows=4)
    live = LiveScreen(place)
    await live.open()
    with connected(place) as person:
        await until(lambda: text(live)[:2] == ["one", "two"])
        whole = live.frame()
        assert (whole["id"], whole["full"], whole["cols"], whole["lines"]) == (place.id, True, 20, 4)
        assert (whole["cursor"], whole["title"], whole["ended"], whole["problem"]) == ([3, 1], "its title", None, "")
        assert whole["rows"] == {0: [("one", "", "", 0)], 1: [("two", "", "", 0)], 2: [], 3: []}
        assert whole["state"] in ("starting", "unknown") and whole["message"] == ""
        again = live.frame(whole["at"])
        assert again["rows"] == {} and not again["full"]
        live.changed.clear()
        person.input(b"\n")
        await until(lambda: text(live)[0] == "new")
        assert live.changed.is_set()
        later = live.frame(whole["at"])
        assert later["rows"] == {0: [("new", "", "", 0)]} and later["at"] > whole["at"]
        person.resize(30, 3)
        await until(lambda: live.frame()["cols"] == 30)
        assert live.frame(later["at"])["lines"] == 3 and set(live.frame(later["at"])["rows"]) == {0, 1, 2}
        person.input(b"\n")
        await until(lambda: live.ended is not None)
        end = live.frame()
        assert (end["ended"], end["state"], end["problem"]) == (3, "dead", "")
    live.close()
    assert text(live) == [] and live.frame() == {"id": place.id, "at": end["at"], "rows": {}}


async def test_a_new_colour_is_seen_though_the_text_is_the_same_and_a_hidden_cursor_is_none(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watching, "LOOKS_SECONDS", 0.0)
    place = stage.start("sh", "-c", r"stty -echo; printf red; read a; printf '\r\033[31mred\033[?25l'; cat", rows=2)
    live = LiveScreen(place)
    await live.open()
    await until(lambda: text(live)[0] == "red")
    at = live.frame()["at"]
    with connected(place) as person:
        person.input(b"\n")
    await until(lambda: live.frame()["cursor"] is None)
    assert [run[:2] for run in live.frame(at)["rows"][0]] == [("red", "#cd3131")]
    live.close()


async def test_what_a_terminal_asks_is_told_and_a_lost_one_is_a_problem(stage: Stage) -> None:
    asks = r"stty -echo; echo x; read a; printf '\033]7501;state=blocked:kind=question:msg=d2hpY2g/\007'; cat"
    place = stage.start("sh", "-c", asks)
    live = LiveScreen(place)
    await live.open()
    with connected(place) as person:
        person.input(b"\n")
    await until(lambda: live.frame()["state"] == "question")
    assert live.frame()["message"] == "which?"
    live.changed.clear()
    os.kill(place.pids()[0], 9)
    await until(lambda: live.problem)
    assert live.changed.is_set() and live.ended is None and live.frame()["problem"] == live.problem
    live.close()


async def test_one_that_has_ended_shows_its_last_screen(stage: Stage) -> None:
    place = stage.start("sh", "-c", "echo last words", linger=0.0, rows=2)
    blocked_until(lambda: not os.path.exists(place.pid))
    live = LiveScreen(place)
    await live.open()
    assert text(live)[0] == "last words" and live.frame()["ended"] == 0 and live.frame()["state"] == "dead"
    live.close()


async def test_two_who_watch_share_one_connection_until_both_have_left(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = stage.start("sh", "-c", "echo here; exec cat", id="x")
    looked: list[str] = []

    async def found(name: str) -> Place:
        looked.append(name)
        return find(str(stage.directory), name)

    screens = Screens(found)
    one, two = await asyncio.gather(screens.watch("x"), screens.watch("x"))
    assert one is two and one.watchers == 2 and looked == ["x"]
    with pytest.raises(NotFound):
        await screens.watch("nobody")
    screens.leave(one)
    monkeypatch.setattr(watching, "LINGER", -1.0)
    assert await screens.watch("x") is one, "one still watches"
    screens.leave(one)
    screens.leave(one)
    other = await screens.watch("x")
    assert other is not one and text(one) == [] and other.watchers == 1 and looked == ["x", "nobody", "x"]
    monkeypatch.undo()
    screens.leave(other)
    assert await screens.watch("x") is other, "it is followed for some time after its last watcher has left"
    os.kill(place.pids()[0], 9)
    await until(lambda: other.problem)
    blocked_until(lambda: os.path.exists(place.exit) and not os.path.exists(place.pid))
    again = await screens.watch("x")
    assert again is not other and again.ended == 0 and text(other) == []
    screens.leave(again)
    assert await screens.watch("x") is not again, "one that has ended is read anew, as it may run again"
    screens.close()
    assert text(again) == []
