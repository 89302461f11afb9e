"""The runs under way on this machine: which there are, what they say, and how to end one."""

import os
import time
from collections.abc import Iterator

import msgspec

from treadle.errors import NotFound, StorageError
from treadle.host.job import CANCEL, RunRecord, runs_directory
from treadle.io.files import is_locked, write_atomic
from treadle.io.reading import follow_lines, read_if_there
from treadle.wire.sidecar.receipts import AnyAgentEvent

LOOK_EVERY = 0.1

_events: msgspec.json.Decoder[AnyAgentEvent] = msgspec.json.Decoder(AnyAgentEvent)


class RunUnderWay(msgspec.Struct, frozen=True, kw_only=True):
    run_id: str
    agent: str
    task: str
    source: str
    mode: str
    started: float
    pid: int
    alive: bool
    """False when its host has died; the next host, or `treadle host recover`, finishes it."""
    receipts: str | None = None
    """The store that its receipt goes to."""


def running() -> list[RunUnderWay]:
    """The runs under way and those whose host has died before their end, oldest first."""
    base = runs_directory()
    found = []
    for name in os.listdir(base) if os.path.isdir(base) else []:
        directory = os.path.join(base, name)
        try:
            record = msgspec.json.decode(read_if_there(os.path.join(directory, "run.json")) or b"", type=RunRecord)
        except (StorageError, msgspec.MsgspecError):
            continue
        found.append(
            RunUnderWay(
                run_id=record.run_id,
                agent=record.backend,
                task=record.order.task,
                source=record.order.workspace.root,
                mode=record.mode,
                started=record.started,
                pid=record.pid,
                alive=is_locked(os.path.join(directory, "lock")),
                receipts=record.receipts,
            )
        )
    return sorted(found, key=lambda run: run.started)


def find_running(name: str) -> RunUnderWay:
    """The run with this id, whole or shortened; `latest` is the one that started last."""
    known = [run for run in running() if run.alive]
    fitting = known[-1:] if name == "latest" else [run for run in known if run.run_id.startswith(name.lower())]
    if len(fitting) != 1:
        many = f"{len(fitting)} runs under way begin with" if fitting else "there is no run under way of the id"
        raise NotFound(f"{many} {name!r}", hint="treadle host ps lists them; treadle receipt list those that ended")
    return fitting[0]


def ask_to_stop(run_id: str, reason: str) -> None:
    """Ask a run to end by leaving a file that its host looks for. What the agent says within its grace still counts."""
    write_atomic(os.path.join(runs_directory(), run_id, CANCEL), reason.encode())


def is_under_way(run_id: str) -> bool:
    return is_locked(os.path.join(runs_directory(), run_id, "lock"))


def wait_for_end(run_id: str, seconds: float | None = None) -> bool:
    """Wait for the end of a run. False when it did not end in time."""
    until = None if seconds is None else time.monotonic() + seconds
    while is_under_way(run_id):
        if until is not None and time.monotonic() >= until:
            return False
        time.sleep(LOOK_EVERY)
    return True


def follow(run_id: str) -> Iterator[AnyAgentEvent]:
    """What a run has said so far and says from now on, until it ends."""
    path = os.path.join(runs_directory(), run_id, "events.jsonl")
    for line in follow_lines(path, lambda: is_under_way(run_id), LOOK_EVERY):
        yield _events.decode(line)
