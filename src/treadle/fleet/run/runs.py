"""The directory of an attempt on its node. A restarted node finds its earlier runners by it."""

import os

import msgspec

from treadle.fleet.engine import places
from treadle.fleet.engine.places import ProcessNote
from treadle.io.files import is_locked
from treadle.io.records import FileRecord
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


JOB = FileRecord(RunJob, format=FORMAT, sync=False)
RUNNER = FileRecord(ProcessNote, sync=False)


def directory(order: str, attempt: int) -> str:
    return os.path.join(places.root(), "runs", f"{order}.{attempt}")


def prepare(job: RunJob) -> str:
    """Make the directory with the job in it."""
    path = places.inside("runs", f"{job.spec.id}.{job.order.attempt}")
    JOB.save(os.path.join(path, "job.json"), job)
    return path


def read_job(path: str) -> RunJob:
    return JOB.get(os.path.join(path, "job.json"))


def lock_of(path: str) -> str:
    return os.path.join(path, "lock")


def note_runner(path: str) -> None:
    RUNNER.save(os.path.join(path, "runner.json"), ProcessNote.mine())


def runner_of(path: str) -> ProcessNote | None:
    """The runner of an attempt, if it lives."""
    if not is_locked(lock_of(path)):
        return None
    note = RUNNER.load_whole(os.path.join(path, "runner.json"))
    return note if note is not None and note.alive else None


def all_here() -> list[tuple[str, int, str]]:
    """Order, attempt and directory of every run on this machine."""
    root = os.path.join(places.root(), "runs")
    found = []
    for name in sorted(os.listdir(root)) if os.path.isdir(root) else []:
        order, _, attempt = name.rpartition(".")
        if order and attempt.isdigit():
            found.append((order, int(attempt), os.path.join(root, name)))
    return found
