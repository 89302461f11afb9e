"""The process that runs a detached group: `python -m treadle.agent.detached_runner DIR`, started by `detached.py`."""

import asyncio
import os
import sys
from collections.abc import Callable
from typing import Any

import msgspec

from treadle.agent.detached import LOOK_SECONDS, Detached, is_stored
from treadle.agent.native import NativeAgent
from treadle.agent.tasks import Groups, Tasks
from treadle.errors import StorageError, TreadleError
from treadle.events import FINISHED, Event, Usage, encode
from treadle.io import files, paths
from treadle.io.process.loop import hold_secrets, on_signals, run_async
from treadle.io.process.tree import say_ready
from treadle.io.tasks import end_tasks


async def run(directory: str, ready: Callable[[], None]) -> None:
    plan = Detached(directory).plan
    # Held while the group runs: by it others see that this process lives (`Detached.alive`).
    with files.locked(os.path.join(directory, "lock")):
        session = await NativeAgent().open(plan.spec())
        output = paths.private_dir(os.path.join(directory, "output"))

        def emit(event: Event) -> None:
            if is_stored(event):
                try:
                    files.append_line(os.path.join(directory, "events.jsonl"), encode(event))
                except StorageError as error:
                    print(f"treadle: {error}", file=sys.stderr)
            elif isinstance(event, Usage):
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
        groups = Groups(tasks, emit, plan.parent_session)
        obeying = asyncio.create_task(_obey_all(os.path.join(directory, "requests.jsonl"), tasks, groups))
        try:
            groups.start(plan.members, group_id=plan.group, detached=True)
            _on_signals(lambda: groups.stop(plan.group, "its process was told to end"))
            ready()
            await groups.wait(plan.group)
        finally:
            await end_tasks(obeying)
            await tasks.stop_all()
            await session.close()


async def _obey_all(path: str, tasks: Tasks, groups: Groups) -> None:
    done, early = 0, list[bytes]()
    while True:
        lines = files.read_lines(path)[0] if os.path.exists(path) else []
        waiting, early = [*early, *lines[done:]], []
        for line in waiting:
            try:
                if not await _obey(msgspec.json.decode(line, type=dict[str, str]), tasks, groups):
                    early.append(line)
            except (TreadleError, msgspec.MsgspecError, RecursionError) as error:
                print(f"treadle: a request was not carried out: {error}", file=sys.stderr)
        done = len(lines)
        await asyncio.sleep(LOOK_SECONDS)


async def _obey(request: dict[str, str], tasks: Tasks, groups: Groups) -> bool:
    """False when it is too early: the task runs, and its conversation has not begun."""
    wanted = request.get("id", "")
    match request.get("do"):
        case "stop" if wanted in groups:
            await groups.stop(wanted, request.get("reason", ""))
        case "stop":
            await tasks.stop(wanted, request.get("reason", ""))
        case "send":
            return await tasks.send(wanted, request.get("text", "")) or tasks.get(wanted).status in FINISHED
    return True


def _on_signals(stop: Callable[[], Any]) -> None:
    stopping: set[asyncio.Task[Any]] = set()

    on_signals(lambda _: stopping.add(asyncio.ensure_future(stop())))


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
