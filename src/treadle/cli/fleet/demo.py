"""The fleet's demo: four orders, a wait, a question, a killed runner, a conflict, all of it landed; then a goal."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from treadle.errors import LocalError, NotFound, TreadleError
from treadle.io import scratch
from treadle.io.process.detached import detach
from treadle.io.process.loop import ended_by_signals, run_async
from treadle.io.within import end_tasks

if TYPE_CHECKING:
    from treadle.fleet.engine.bus import Bus
    from treadle.wire.fleet.records import Order
    from treadle.wire.fleet.train import TrainRecord

SECONDS = 300.0
AGAIN = 1.0
SAYS, READY = b" ", b"ready\n"
"""How the lines of the process with the fleet begin that are for people, and the one that says that the fleet is up."""
DEMO, LOCK = 3, 4
"""Its descriptors: a socket to the demo, and what holds the demo's directory."""


def run() -> int:
    """Run the demo in a state directory of its own, which is removed at the end. The process ends with it."""
    with scratch.directory("demo") as place:
        os.environ["TREADLE_HOME"] = os.path.join(place, "state")
        return run_async(ended_by_signals(_demo(Path(place)), "the demo"))


async def _demo(place: Path) -> int:
    from treadle.fleet import sample

    began = time.monotonic()
    repository = sample.make_repository(place / "shop")
    say = _Timed(began)
    say(f"A repository with four failing tests: {repository}")
    try:
        async with _fleet(str(place), say):
            return await _insisting(_showing(place, repository, say))
    finally:
        say(f"Over after {time.monotonic() - began:.0f} s; nothing is left behind.")


async def _showing(place: Path, repository: Path, say: Callable[[str], None]) -> int:
    from treadle.cli.fleet import demo_goal
    from treadle.fleet import client

    async with _page(say), client.connected() as bus:
        try:
            async with asyncio.timeout(SECONDS):
                code = await _show(bus, repository, say)
                met = await demo_goal.show(bus, place / "shop-2", say)
        except TimeoutError:
            raise LocalError(f"the demo was not over after {SECONDS:g} s and was given up") from None
        await _until_enter(say)
        return code or (0 if met else 1)


async def _insisting(work: Coroutine[Any, Any, int]) -> int:
    """What comes of the work. Cancelled, it is told so until it ends: before Python 3.12 `asyncio.wait_for`, which the
    engine's client uses, loses a cancellation that comes in the moment of its end."""
    task = asyncio.create_task(work)
    try:
        await asyncio.wait((task,))
    finally:
        while not task.done():
            task.cancel()
            await asyncio.wait((task,), timeout=AGAIN)
    return task.result()


@asynccontextmanager
async def _fleet(place: str, say: _Timed) -> AsyncIterator[None]:
    """A fleet outlives those who start it. Another process starts this one, so that it ends it as soon as we are gone,
    also by kill -9; and what then is left below that process, its reaper ends."""
    ours, theirs = socket.socketpair()
    with theirs:
        argv = [sys.executable, "-P", "-m", "treadle.cli.fleet.demo", place]
        detach(argv, cwd="/", fds=(theirs.fileno(), scratch.lock_of(place)))
    reader, writer = await asyncio.open_connection(sock=ours)
    try:
        while (line := await reader.readline()) != READY:
            if not line.startswith(SAYS):
                raise LocalError(f"the fleet does not start: {line.decode().strip() or 'it does not say why'}")
            say(line.removeprefix(SAYS).decode().rstrip())
        yield
    finally:
        say.needed = False
        writer.write_eof()
        while line := await reader.readline():
            say(line.removeprefix(SAYS).decode().rstrip())
        writer.close()


async def keep_fleet(place: str) -> None:
    """What the other process does: start the fleet, wait until the demo is over or gone, and remove all of it."""
    from treadle.fleet import up

    os.set_inheritable(LOCK, False)
    with socket.socket(fileno=DEMO) as demo:
        demo.set_inheritable(False)

        def tell(line: bytes) -> None:
            with suppress(OSError):  # the demo is gone
                demo.sendall(line)

        def say(text: str) -> None:
            tell(SAYS + text.encode() + b"\n")

        try:  # not cut short when the demo ends meanwhile: what is half started could not be ended in order
            await up.up(name="demo", slots=3, lease=2.0, say=say, program="treadle.goals.node")
            tell(READY)
            await asyncio.to_thread(demo.recv, 1)
        except TreadleError as error:
            tell(f"{error}\n".encode())
        with suppress(NotFound):  # it has failed before there was a fleet
            await up.down(say=say)
        scratch.remove(place)
        scratch.remove_all()  # what the runners left that were killed


@asynccontextmanager
async def _page(say: Callable[[str], None]) -> AsyncIterator[None]:
    from treadle.serve.listening import Listening
    from treadle.serve.server import WebServer, served
    from treadle.serve.tokens import Tokens

    tokens, listening = Tokens(), Listening(port=0)
    server = WebServer(address=listening.address, names=listening.names, tokens=tokens)
    async with served(server, listening, heeds_signals=False):
        say(f"the page, for your browser: {listening.address}/#{tokens.link('demo', 'all')}")
        yield


async def _until_enter(say: Callable[[str], None]) -> None:
    """A person may want to look around on the page; a script does not wait."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        return
    say("the page shows it all until you press Enter")
    pressed, loop = asyncio.Event(), asyncio.get_running_loop()
    loop.add_reader(sys.stdin, pressed.set)
    try:
        await pressed.wait()
    finally:
        loop.remove_reader(sys.stdin)


class _Timed:
    def __init__(self, began: float) -> None:
        self._began = began
        self.needed = True
        """Whether it is an error when no one can read it any more. While the demo ends it is not."""

    def __call__(self, text: str) -> None:
        try:
            click.echo(f"{time.monotonic() - self._began:5.1f} s  {text}")
        except OSError:
            if self.needed:
                raise


async def _show(bus: Bus, repository: Path, say: Callable[[str], None]) -> int:
    from treadle.fleet import client
    from treadle.fleet.sample import CHECK

    names = await _submit(bus, repository)
    by_id = {order: name for name, order in names.items()}
    for name, order in names.items():
        say(f"order {order} ({name}) is stored")
    watching = asyncio.create_task(_watch(bus, by_id, say))
    working = asyncio.create_task(_work(bus, names, say))
    try:
        await asyncio.wait((watching, working), return_when=asyncio.FIRST_COMPLETED)
        if watching.done():
            await watching  # raises: an order failed, and what is waited for will not come
        orders = await working
    finally:
        await end_tasks(watching, working)
    say("landing the work of all four, each checked before the branch moves; dollars and discount changed one line:")
    landed = await _land(bus, repository, by_id, say)
    checked = await asyncio.to_thread(_check, repository)
    say(f"{CHECK}: {checked}")
    _card(orders, by_id, say)
    receipts = [await client.get_receipt(bus, order) for order in names.values()]
    sealed = [receipt for receipt in receipts if receipt is not None and receipt.sealed().sha256 == receipt.sha256]
    say(f"{len(sealed)} receipts for {len(orders)} orders; the models' words were scripted, all else was real")
    good = all(order.state == "done" for order in orders) and landed
    return 0 if good and checked == "OK" and len(sealed) == len(orders) else 1


async def _work(bus: Bus, names: dict[str, str], say: Callable[[str], None]) -> list[Order]:
    """The orders at their end."""
    from treadle.fleet import client

    wait = await _collision(bus, names["dollars"])
    say(f"dollars waits: {wait}")
    await asyncio.gather(_kill(bus, names["discount"], say), _answer(bus, names["stock"], say))
    return [await client.wait(bus, order) for order in names.values()]


async def _land(bus: Bus, repository: Path, by_id: dict[str, str], say: Callable[[str], None]) -> bool:
    """Whether all of it is on the branch."""
    from treadle.landing import train

    def say_named(text: str) -> None:
        for order, name in by_id.items():
            text = text.replace(order, name)
        say(f"  {text}")

    name = await train.ensure(bus, str(repository), "", verify="python3 -m compileall -q .")
    await train.board(bus, name, by_id)
    record, _ = await train.load(bus, name)
    record = await train.Train(bus, name, record, say=say_named).run(_is_over)
    return record.landed == len(by_id)


def _is_over(record: TrainRecord) -> bool:
    return record.paused is not None or not record.queue and not record.back


async def _submit(bus: Bus, repository: Path) -> dict[str, str]:
    from treadle.fleet import client, sample

    names = {}
    for name in sample.ORDERS:
        order = sample.spec_of(name, repository)
        await client.submit(bus, [order])
        names[name] = order.id
    return names


async def _watch(bus: Bus, by_id: dict[str, str], say: Callable[[str], None]) -> None:
    """Show each change of an order. Raises LocalError as soon as one has failed."""
    from treadle.fleet import client
    from treadle.fleet.orders import read_order

    seen: dict[str, tuple[str, int]] = {}
    async for entry in client.changes(bus, start=1):
        order = read_order(entry)
        now = (order.state, order.attempt)
        if seen.get(order.id) != now:
            seen[order.id] = now
            more = f", attempt {order.attempt}" if order.attempt > 1 else ""
            say(f"  {by_id.get(order.id, order.id)}: {order.state}{more}" + (f" ({order.why})" if order.why else ""))
        if order.ended and order.state != "done" and order.id in by_id:
            raise LocalError(f"the order {by_id[order.id]} {order.state}: {order.why or 'it does not say why'}")


async def _collision(bus: Bus, order: str) -> str:
    from treadle.fleet import client

    while True:
        waits = (await client.why(bus, order)).waits
        if waits is not None and waits.kind == "claim":
            return waits.text
        await asyncio.sleep(0.05)


async def _kill(bus: Bus, order: str, say: Callable[[str], None]) -> None:
    """Kill the runner with SIGKILL as soon as its agent has begun."""
    from treadle.fleet import client
    from treadle.fleet.run import runs
    from treadle.io.process import table

    async for seen in client.events(bus, order, follow=True):
        if seen.n >= 3:
            break
    runner = runs.runner_of(runs.directory(order, 1))
    process = table.look(runner.pid) if runner is not None else None
    if process is not None and table.send(process, signal.SIGKILL):
        say(f"discount's runner, process {process.pid}, was killed (kill -9)")


async def _answer(bus: Bus, order: str, say: Callable[[str], None]) -> None:
    from treadle.fleet import client

    while not (asks := [ask for ask in await client.approvals(bus) if ask.order == order]):
        await asyncio.sleep(0.05)
    say(f"stock asks: {asks[0].words}")
    await client.answer(bus, order, "allow", by="demo")
    say("answered: allow, once")


def _check(repository: Path) -> str:
    from treadle.io.process.programs import run_program

    done = run_program([sys.executable, "check_shop.py"], cwd=str(repository))
    return (done.complaint.splitlines() or ["?"])[-1]


def _card(orders: list[Any], by_id: dict[str, str], say: Callable[[str], None]) -> None:
    say("tokens, as the provider reported them (its price is unknown, so no cost is shown):")
    for order in orders:
        used, tries = order.used, len(order.attempts)
        tokens = f"{used.input_tokens:6} in {used.output_tokens:5} out"
        say(f"  {by_id[order.id]:10} {tokens}  {tries} attempt{'s' if tries > 1 else ''}")
    say(f"  {'together':10} {sum(order.used.tokens for order in orders):6}")


if __name__ == "__main__":
    run_async(keep_fleet(sys.argv[1]))
