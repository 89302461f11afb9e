"""`treadle fleet shell` and `attach`: terminals of orders, on whatever machine they are."""

import asyncio
import contextlib
import os
import sys
import tempfile
import threading
from typing import Any, Literal

import click

from treadle.cli.fleet.common import ORDER
from treadle.errors import ConfigError, LocalError, TreadleError
from treadle.io.process.loop import run_async


@click.command("shell")
@click.argument("name", metavar=ORDER)
def shell(name: str) -> None:
    """Open a shell in an order's worktree, on its node. The receipt records this.

    Ctrl-\\ detaches and leaves the shell open; the next `shell` of this order reattaches.
    """
    sys.exit(attach_order(name, "shell", read_only=False))


@click.command("attach")
@click.argument("name", metavar=ORDER)
@click.option("--read-only", is_flag=True, help="Read-only: send no input.")
def attach(name: str, read_only: bool) -> None:
    """Join the terminal of an order that was submitted with --terminal. Ctrl-\\ detaches."""
    sys.exit(attach_order(name, "agent", read_only=read_only))


def attach_order(name: str, what: Literal["agent", "shell"], *, read_only: bool) -> int:
    """Show an order's terminal (`agent`) or a shell in its worktree (`shell`) here, until the person leaves it."""
    from treadle.terminal.places import Place
    from treadle.terminal.settings import AttachOptions
    from treadle.terminal.viewers.attach import attach as show

    if not os.isatty(0):
        raise ConfigError("this needs a terminal on standard input", hint="`treadle fleet logs` shows what happened")
    with tempfile.TemporaryDirectory(prefix="tf-") as directory:
        place = Place(directory, "order")
        carrier = _Carrier(name, what, place.sock)
        carrier.start()
        try:
            carrier.ready()
            return show(place, AttachOptions(read_only=read_only, prefix_key=0)) or 0
        finally:
            carrier.end()


class _Carrier(threading.Thread):
    """The connection to the fleet, in a thread of its own, because the main thread waits on the terminal."""

    def __init__(self, name: str, what: Literal["agent", "shell"], path: str) -> None:
        super().__init__(daemon=True)
        self._name, self._what, self._path = name, what, path
        self._ready = threading.Event()
        self._problem: BaseException | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._over: asyncio.Event | None = None

    def ready(self) -> None:
        self._ready.wait()
        if self._problem is not None:
            raise self._problem

    def end(self) -> None:
        if self._loop is not None and self._over is not None:
            with contextlib.suppress(RuntimeError):  # it has ended by itself, with a problem
                self._loop.call_soon_threadsafe(self._over.set)
        self.join(10.0)

    def run(self) -> None:
        try:
            run_async(self._carry())
        except TreadleError as error:
            self._problem = error
        finally:
            self._ready.set()

    async def _carry(self) -> None:
        from treadle.fleet import client
        from treadle.fleet.run.terminals import Carried

        self._loop, self._over = asyncio.get_running_loop(), asyncio.Event()
        async with client.connected() as bus:
            order = await client.get_order(bus, await client.resolve(bus, self._name))
            node = order.node or (order.attempts[-1].node if order.attempts else "")
            if not node:
                raise LocalError(f"the order {order.id} was on no node yet: it is {order.state}")
            carried = Carried(bus, node, order.id, self._what, client.me())
            await carried.try_once()
            serving: Any = await asyncio.start_unix_server(carried.carry, self._path)
            self._ready.set()
            async with serving:
                await self._over.wait()


COMMANDS = (shell, attach)
