"""The process that runs a detached group: `python -m treadle.agent.detached_runner DIR`, started by `detached.py`."""

import asyncio
import os
import signal
import sys
from collections.abc import Callable
from typing import Any

import msgspec

from treadle.agent.detached import Detached, control, is_stored, lines_of
from treadle.agent.native import NativeAgent
from treadle.agent.tasks import Groups, Tasks
from treadle.errors import PeerClosed, StorageError, TreadleError
from treadle.events import Event, TaskChanged, TaskGroupChanged, Usage, encode
from treadle.io import files, paths
from treadle.io.process.loop import hold_secrets, run_async
from treadle.io.process.tree import say_ready
from treadle.io.streams import FdStream, Listener, Stream, listen_unix
from treadle.io.tasks import start_held

FOLLOWER_ROOM = 4096
"""How many lines a follower may be behind; one further behind is dropped and finds the rest on disk."""
GOODBYE = 5.0
"""How many seconds followers have to read the end."""


class GroupRecord:
    """Writes what happens to disk and to the followers."""

    def __init__(self, directory: str) -> None:
        self._path = os.path.join(directory, "events.jsonl")
        self._stored: list[bytes] = []
        self._followers: set[asyncio.Queue[bytes | None]] = set()

    def add(self, event: Event) -> None:
        if not isinstance(event, TaskChanged | TaskGroupChanged):
            return
        line = encode(event)
        if is_stored(event):
            self._stored.append(line)
            try:
                files.append_line(self._path, line)
            except StorageError as error:
                print(f"treadle: {error}", file=sys.stderr)
        for queue in list(self._followers):
            try:
                queue.put_nowait(line)
            except asyncio.QueueFull:
                self._followers.discard(queue)
                queue.get_nowait()
                queue.put_nowait(None)

    async def follow(self, stream: Stream, after: int) -> None:
        queue: asyncio.Queue[bytes | None] = asyncio.Queue(FOLLOWER_ROOM)
        past = self._stored[after:]
        self._followers.add(queue)
        try:
            for line in past:
                await stream.write(line + b"\n")
            while (next_line := await queue.get()) is not None:
                await stream.write(next_line + b"\n")
        finally:
            self._followers.discard(queue)

    def end(self) -> None:
        for queue in self._followers:
            try:
                queue.put_nowait(None)
            except asyncio.QueueFull:
                queue.get_nowait()
                queue.put_nowait(None)


class Desk:
    """Serves the control socket."""

    def __init__(self, listener: Listener, record: GroupRecord, tasks: Tasks, groups: Groups) -> None:
        self._listener = listener
        self._record = record
        self._tasks = tasks
        self._groups = groups
        self._visits: set[asyncio.Task[None]] = set()

    async def serve(self) -> None:
        while True:
            stream = await self._listener.accept()
            start_held(self._visits, self._visit(stream))

    async def end(self) -> None:
        self._listener.close()
        self._record.end()
        if self._visits:
            await asyncio.wait(self._visits, timeout=GOODBYE)
        for visit in list(self._visits):
            visit.cancel()

    async def _visit(self, stream: FdStream) -> None:
        try:
            async for line in lines_of(stream):
                await self._obey(stream, line)
        except (TreadleError, msgspec.MsgspecError, RecursionError) as error:
            if not isinstance(error, PeerClosed):
                print(f"treadle: a visitor was turned away: {error}", file=sys.stderr)
        finally:
            stream.close()

    async def _obey(self, stream: FdStream, line: bytes) -> None:
        request = msgspec.json.decode(line, type=dict[str, Any])
        wanted = str(request.get("id", ""))
        match request.get("do"):
            case "follow":
                await self._record.follow(stream, int(request.get("after", 0)))
                stream.close()
                return
            case "stop" if wanted in self._groups:
                await self._groups.stop(wanted, str(request.get("reason", "")))
                ok = True
            case "stop" if self._tasks.has(wanted):
                await self._tasks.stop(wanted, str(request.get("reason", "")))
                ok = True
            case "send" if self._tasks.has(wanted):
                ok = await self._tasks.send(wanted, str(request.get("text", "")))
            case _:
                ok = False
        await stream.write(msgspec.json.encode({"ok": ok}) + b"\n")


async def run(directory: str, ready: Callable[[], None]) -> None:
    plan = Detached(directory).plan
    # Held while the group runs: by it others see that this process lives (`Detached.alive`).
    with files.locked(os.path.join(directory, "lock")):
        session = await NativeAgent().open(plan.spec())
        record = GroupRecord(directory)
        output = paths.private_dir(os.path.join(directory, "output"))

        def emit(event: Event) -> None:
            record.add(event)
            if isinstance(event, Usage):
                session.note(event)  # limits apply to the group as a whole

        tasks = Tasks(
            session_id=plan.parent_session,
            emit=emit,
            open_child=session.open_child,
            finished=lambda task: None,
            directory=lambda: output,
            cwd=plan.cwd,
            room=session.room,
            pid=os.getpid(),
        )
        groups = Groups(tasks, record.add, plan.parent_session)
        desk = Desk(listen_unix(control(directory)), record, tasks, groups)
        serving = asyncio.create_task(desk.serve())
        try:
            groups.start(plan.members, group_id=plan.group, detached=True)
            _on_signals(lambda: groups.stop(plan.group, "its process was told to end"))
            ready()
            await groups.wait(plan.group)
        finally:
            serving.cancel()
            await tasks.stop_all()
            await desk.end()
            await session.close()


def _on_signals(stop: Callable[[], Any]) -> None:
    stopping: set[asyncio.Task[Any]] = set()

    def heard() -> None:
        stopping.add(asyncio.ensure_future(stop()))

    for signum in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(signum, heard)


def main(directory: str) -> int:
    hold_secrets()
    try:
        run_async(run(directory, say_ready))
    except TreadleError as error:
        print(f"treadle: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
