"""Saves all streams of a fleet in a directory, and restores them: the server's own snapshots, as `nats` takes them.

    DIR/fleet.json                  which engine, and the credentials of every role
    DIR/STREAM/backup.json          the stream's configuration and state
    DIR/STREAM/stream.tar.s2        its messages and consumers

A backup may be taken while the fleet works. The streams are saved one after the other, each before those
it refers to: an order that ends during the backup is done again, one that had ended before it is not.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from typing import Any

import msgspec

from treadle.errors import LocalError, NotFound, StorageError
from treadle.fleet.engine import places, server
from treadle.fleet.engine.bus import EVENTS, INBOX, STATE, Bus, EngineRefused, Unreachable
from treadle.fleet.engine.layout import OBJECTS, ensure
from treadle.io.files import open_append, storage_error, write_all, write_atomic
from treadle.io.paths import private_dir
from treadle.io.reading import pieces, read, read_if_there
from treadle.wire.fleet.messages import FleetStatus

STREAMS = (INBOX, STATE, EVENTS, OBJECTS)
CHUNK = 128 * 1024
WAIT_SECONDS = 30.0
"""How long the server may take for the next piece."""
Progress = Callable[[str], None]


async def backup(bus: Bus, directory: str, *, say: Progress = lambda text: None) -> int:
    """Save every stream in a new or empty directory. Returns the total bytes."""
    directory = private_dir(os.path.abspath(directory))
    if os.listdir(directory):
        raise LocalError(f"{directory} is not empty", hint="a backup goes into a directory of its own")
    total = 0
    for stream in STREAMS:
        place = private_dir(os.path.join(directory, stream))
        about, size = await _save(bus, stream, os.path.join(place, "stream.tar.s2"))
        write_atomic(os.path.join(place, "backup.json"), msgspec.json.format(msgspec.json.encode(about), indent=2))
        say(f"saved   {stream}: {about['state']['messages']} messages, {size / 1e6:.1f} MB")
        total += size
    # Written last, so that a directory with this file is complete.
    write_atomic(os.path.join(directory, "fleet.json"), msgspec.json.encode(places.load()))
    return total


async def _save(bus: Bus, stream: str, path: str) -> tuple[dict[str, Any], int]:
    inbox = bus.client.new_inbox()
    arrived: asyncio.Queue[Any] = asyncio.Queue()
    listening = await bus.client.subscribe(inbox, cb=arrived.put)
    file = open_append(path)
    try:
        about = await bus.api(f"STREAM.SNAPSHOT.{stream}", {"deliver_subject": inbox, "chunk_size": CHUNK})
        size = 0
        async for data in _pieces(arrived, stream):
            await asyncio.to_thread(write_all, file, data)
            size += len(data)
        await asyncio.to_thread(os.fsync, file)
        return {"config": about["config"], "state": about["state"]}, size
    except OSError as error:
        raise storage_error(error, path, "write") from error
    finally:
        os.close(file)
        await listening.unsubscribe()


async def _pieces(arrived: asyncio.Queue[Any], stream: str) -> AsyncIterator[bytes]:
    """Yield each piece, acknowledged once it is written. An empty piece is the end, and carries an error if it
    failed.
    """
    while True:
        try:
            message = await asyncio.wait_for(arrived.get(), WAIT_SECONDS)
        except TimeoutError:
            raise Unreachable(f"the engine stopped sending {stream}", hint="take the backup again") from None
        if not message.data:
            why = (message.headers or {}).get("Description", "")
            if why and (message.headers or {}).get("Status", "204") != "204":
                raise StorageError(f"the engine could not save {stream}: {why}")
            return
        yield message.data
        if message.reply:
            await message.respond(b"")


async def restore(directory: str, *, say: Progress = lambda text: None) -> None:
    """Bring the streams of a backup into the engine of this machine's fleet, which is made if it has none yet.

    No node or runner may be at work: they would not match the older orders of the backup.
    """
    known = read_if_there(os.path.join(directory, "fleet.json"))
    if known is None:
        raise NotFound(f"{directory} holds no whole backup", hint="`treadle fleet backup DIR` makes one")
    try:
        fleet = places.load()
    except NotFound:
        fleet = msgspec.json.decode(known, type=places.Fleet)
        places.save(fleet)
    started = fleet.private and await asyncio.to_thread(server.start, fleet)
    try:
        bus = await server.await_ready(fleet, "admin")
        try:
            await _refuse_if_used(bus)
            for stream in STREAMS:
                await _restore_stream(bus, stream, os.path.join(directory, stream))
                say(f"restored {stream}")
            # Brings streams of an older version up to date, and refuses those of a newer one.
            await ensure(bus, replicas=fleet.replicas, lease=fleet.lease)
        finally:
            await bus.close()
    finally:
        if started:
            await asyncio.to_thread(server.stop)


async def _refuse_if_used(bus: Bus) -> None:
    try:
        if await bus.keys("spec.*"):
            raise LocalError("this fleet has orders already", hint="`treadle fleet down --forget` removes them")
        status = await bus.ask("fleet.ask.status", FleetStatus, timeout=1.0)
        raise LocalError(f"{status.scheduler} is at work", hint="`treadle fleet down` on every machine first")
    except (EngineRefused, Unreachable):
        return  # no streams and no scheduler, as it should be


async def _restore_stream(bus: Bus, stream: str, place: str) -> None:
    about = msgspec.json.decode(read(os.path.join(place, "backup.json")))
    try:
        await bus.api(f"STREAM.DELETE.{stream}")
    except EngineRefused:
        pass  # there was none
    answer = await bus.api(f"STREAM.RESTORE.{stream}", about)
    to = answer["deliver_subject"]
    for data in pieces(os.path.join(place, "stream.tar.s2"), CHUNK):
        await bus.request(to, data, timeout=WAIT_SECONDS)
    reply = await bus.request(to, b"", timeout=WAIT_SECONDS)
    done = msgspec.json.decode(reply.data)
    if error := done.get("error"):
        raise StorageError(f"the engine could not restore {stream}: {error.get('description', error)}")
    # The number of messages may differ: those with a time to live may have expired.
    if done["state"]["last_seq"] != about["state"]["last_seq"]:
        raise StorageError(f"{stream} ends at {done['state']['last_seq']}, not at {about['state']['last_seq']}")
