"""The directory of an attempt on its node. A restarted node finds its earlier runners by it."""

import os

import msgspec

from treadle.errors import StorageError
from treadle.fleet.engine import places
from treadle.io.files import is_locked, read, write_atomic
from treadle.io.process import table
from treadle.wire.fleet.orders import Spec
from treadle.wire.fleet.records import Order

FORMAT = 1


class RunJob(msgspec.Struct, frozen=True, kw_only=True):
    """Everything a runner has to know. Credentials are in the fleet's own file, by the name of the role."""

    format: int = FORMAT
    spec: Spec
    order: Order
    """As it was when it was placed here: it has the attempt's number and the node's name."""
    role: str
    lease: float


class RunnerNote(msgspec.Struct, frozen=True, kw_only=True):
    pid: int
    start: int

    @property
    def alive(self) -> bool:
        return table.lives(self.pid, self.start)


def directory(order: str, attempt: int) -> str:
    return os.path.join(places.root(), "runs", f"{order}.{attempt}")


def prepare(job: RunJob) -> str:
    """Make the directory with the job in it."""
    path = places.inside("runs", f"{job.spec.id}.{job.order.attempt}")
    write_atomic(os.path.join(path, "job.json"), msgspec.json.encode(job), sync=False)
    return path


def read_job(path: str) -> RunJob:
    try:
        job = msgspec.json.decode(read(os.path.join(path, "job.json")), type=RunJob)
    except (StorageError, msgspec.MsgspecError) as error:
        raise StorageError(f"the job in {path} cannot be read: {error}") from error
    if job.format != FORMAT:
        raise StorageError(f"the job in {path} has format {job.format}", hint="upgrade treadle")
    return job


def lock_of(path: str) -> str:
    return os.path.join(path, "lock")


def note_runner(path: str) -> None:
    note = RunnerNote(pid=os.getpid(), start=table.start_time(os.getpid()))
    write_atomic(os.path.join(path, "runner.json"), msgspec.json.encode(note), sync=False)


def runner_of(path: str) -> RunnerNote | None:
    """The runner of an attempt, if it lives."""
    if not is_locked(lock_of(path)):
        return None
    try:
        note = msgspec.json.decode(read(os.path.join(path, "runner.json")), type=RunnerNote)
    except (StorageError, msgspec.MsgspecError):
        return None
    return note if note.alive else None


def all_here() -> list[tuple[str, int, str]]:
    """Order, attempt and directory of every run on this machine."""
    root = os.path.join(places.root(), "runs")
    found = []
    for name in sorted(os.listdir(root)) if os.path.isdir(root) else []:
        order, _, attempt = name.rpartition(".")
        if order and attempt.isdigit():
            found.append((order, int(attempt), os.path.join(root, name)))
    return found
