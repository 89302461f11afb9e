"""Lands finished work by itself: runs the trains of this machine's repositories while its node is the scheduler.

An order that names a branch (`land`) leaves `boards.ORDER` when it is done, stored together with its end. The conductor
queues it in the train of that branch and then removes the mark; killed in between, it is queued again, which changes
nothing. Two conductors at once do no harm, as trains do none.
"""

import asyncio
import contextlib
import logging
import os
import time
from typing import TypeVar

import msgspec
from msgspec.structs import replace

from treadle.errors import NotFound, TreadleError
from treadle.fleet import client
from treadle.fleet.engine import tasks
from treadle.fleet.engine.bus import Bus, Entry, Stale, Unreachable
from treadle.fleet.run.resumption import TRAIN
from treadle.landing import train as trains
from treadle.landing.train import Train
from treadle.wire.fleet.records import Note
from treadle.wire.fleet.train import Boarding, TrainRecord, TrainRequest

log = logging.getLogger(__name__)

LOOK_SECONDS = 1.0
T = TypeVar("T")


class Conductor:
    def __init__(self) -> None:
        self._running: dict[str, asyncio.Task[None]] = {}

    async def ride(self, bus: Bus) -> None:
        try:
            while True:
                try:
                    await self._take_up(bus)
                    await self._steer(bus)
                    await self._start_trains(bus)
                except Unreachable as error:
                    log.info("%s", error)
                except Exception:  # one record that cannot be read must not stop all landing
                    log.exception("work cannot be landed")
                await asyncio.sleep(LOOK_SECONDS)
        finally:
            await tasks.end([*self._running.values()])

    async def _take_up(self, bus: Bus) -> None:
        """Queue what has ended and is to land in a repository of this machine."""
        names: dict[tuple[str, str], str] = {}
        for _, entry in sorted((await bus.named(["boards.*"])).items()):
            mark = await _read(bus, entry, Boarding)
            if mark is None or not os.path.isdir(mark.root):
                continue  # the repository is on another machine
            try:
                await self._board(bus, mark, names)
            except Unreachable:
                raise
            except TreadleError as error:
                what = f"cannot land on {mark.branch}: {error}"
                await client.note_result(bus, mark.order, what, {"not_landed": str(error)}, by="train")
            await _done_with(bus, entry)

    async def _board(self, bus: Bus, mark: Boarding, names: dict[tuple[str, str], str]) -> None:
        """Queue it. The first order with a check decides the check of its branch; a person may give another.

        `names` has the trains that were found in this round: git is asked once for many orders of one branch.
        """
        spec = await client.get_spec(bus, mark.order)
        if spec.by == TRAIN and spec.retry_of:
            return  # the train itself takes up what helps it
        if (await client.get_order(bus, mark.order)).result.get("not_landed"):
            return  # that was settled; an engine that was killed may show a mark again that had been removed
        if (name := names.get((mark.root, mark.branch), "")) == "":
            name = names[mark.root, mark.branch] = await trains.ensure(bus, mark.root, mark.branch)
        if mark.verify:
            await trains.check_with(bus, name, mark.verify, mark.setup)
        await trains.board(bus, name, [mark.order], once=True)  # its mark may only not have been removed yet

    async def _steer(self, bus: Bus) -> None:
        """Pause and resume as people ask for who may not write a train's record themselves."""
        for key, entry in (await bus.named(["steers.*"])).items():
            if (request := await _read(bus, entry, TrainRequest)) is None:
                continue
            note = Note(at=time.time(), by=request.by, what=request.pause) if request.pause else None
            with contextlib.suppress(NotFound):
                await trains.change(bus, key.partition(".")[2], lambda found, note=note: replace(found, paused=note))  # type: ignore[misc]
            await _done_with(bus, entry)

    async def _start_trains(self, bus: Bus) -> None:
        for name, task in list(self._running.items()):
            if task.done():
                del self._running[name]
        for name, record in (await trains.trains(bus)).items():
            at_work = record.queue or record.back or record.landing is not None
            if at_work and record.paused is None and name not in self._running and os.path.isdir(record.repository):
                self._running[name] = asyncio.create_task(self._drive(bus, name, record))

    async def _drive(self, bus: Bus, name: str, record: TrainRecord) -> None:
        """Work on one train until it is empty or stands still. What it cannot get over stops it, with the reason."""
        try:
            train = await asyncio.to_thread(Train, bus, name, record, say=lambda text: log.info("%s %s", name, text))
            await train.run(lambda found: found.paused is not None or not found.queue and not found.back)
        except Unreachable as error:
            log.info("%s", error)
        except (TreadleError, OSError) as error:
            note = Note(at=time.time(), by="train", what=str(error))
            await trains.change(bus, name, lambda found: replace(found, paused=note))


async def _read(bus: Bus, entry: Entry, kind: type[T]) -> T | None:
    """What someone left for us. People may write it themselves, so what is none must not keep others from landing."""
    try:
        return msgspec.json.decode(entry.value, type=kind)
    except msgspec.MsgspecError as error:
        log.warning("%s is removed, because it cannot be read: %s", entry.key, error)
        await _done_with(bus, entry)
        return None


async def _done_with(bus: Bus, entry: Entry) -> None:
    """Remove what was read, and not what someone has left in its place meanwhile."""
    with contextlib.suppress(Stale):
        await bus.purge(entry.key, expect=entry.revision)
