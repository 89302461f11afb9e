"""What all requests share: a device whose token was taken back is cut off, and no other."""

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from treadle.serve.site import Site
from treadle.serve.tokens import Tokens
from treadle.terminal.places import default_directory


class Tab:
    """A browser's connection, as far as it can be closed."""

    def __init__(self, device: str) -> None:
        self.scope = {"device": SimpleNamespace(id=device)}
        self.closed: tuple[int, str] | None = None

    async def close(self, code: int, reason: str) -> None:
        self.closed = (code, reason)


async def test_only_the_tabs_of_that_device_are_closed() -> None:
    site = Site("http://127.0.0.1:1", "", Tokens())
    one, two, other = Tab("a"), Tab("a"), Tab("b")
    site.tabs.update(typed := [one, two, other])  # type: ignore[arg-type]
    await site.cut_off("a")
    assert [each.closed for each in typed] == [(4401, "this token was taken back")] * 2 + [None]
    await site.close()


class Closing:
    """A connection, or a screen."""

    times = 0

    def close(self) -> "asyncio.Future[None]":
        self.times += 1
        (done := asyncio.get_running_loop().create_future()).set_result(None)
        return done


async def test_what_was_started_beside_the_requests_ends_with_it(tmp_path: Path) -> None:
    site, ended = Site("http://127.0.0.1:1", "/t", Tokens()), list[Any]()

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(True)

    async def short() -> None:
        pass

    site.start_task(work())
    site.start_task(short())
    for _ in range(3):
        await asyncio.sleep(0)
    assert len(site._tasks) == 1, "what has ended is not kept"
    site.board.start()
    of_board = list(site.board._tasks)
    site.fleet.bus = site.screens._live["t"] = closing = Closing()  # type: ignore[assignment]
    site.order_terminals._directory = str(tmp_path / "sockets")
    (tmp_path / "sockets").mkdir()
    async with asyncio.timeout(60):
        await site.close()
    assert ended == [True] and all(task.cancelled() for task in of_board)
    assert closing.times == 2 and not (tmp_path / "sockets").exists()
    assert site.terminals == "/t" and Site("", "", Tokens()).terminals == default_directory()


def test_each_start_of_a_server_is_told_from_the_one_before() -> None:
    assert Site("", "", Tokens()).boot != Site("", "", Tokens()).boot
