"""What a run is asked to do, what is on disk while it runs, and the runs under way on this machine.

state/host/<run_id>/      one directory for each run under way
    lock                  held while the run's host lives
    run.json              the order, and who was to do it
    events.jsonl          what the sidecar has said so far
    workspace/, store.git, workspace.json, patch.diff
"""

import os
import time
from collections.abc import Iterator, Sequence

import msgspec

from treadle.drivers.sidecar.peer import Timing
from treadle.errors import NotFound, StorageError
from treadle.host.signing import RunRegistration
from treadle.io.files import follow_lines, is_locked, write_atomic
from treadle.io.paths import state_dir
from treadle.io.records import FileRecord
from treadle.receipts.trace import Enforced, Walls
from treadle.session import Agent, Confinement
from treadle.wire.common.connection import CAP
from treadle.wire.sidecar.connection import WorkOrder
from treadle.wire.sidecar.receipts import AnyAgentEvent
from treadle.workspace.workspace import Origin, Workspace, WorkspaceMode

FORMAT = 1
MAKING = ".making-"
CANCEL = "cancel"
"""In a run's directory: why someone wants it to end."""
PENDING = "receipt.json"
"""In a run's directory: its receipt, until that is in the store."""


class Backend(msgspec.Struct, frozen=True, kw_only=True):
    """A sidecar that can be started."""

    name: str
    argv: tuple[str, ...]
    env: tuple[str, ...] = ()
    """Further variables that it may see."""
    timeout: float | None = None
    source: str = ""
    ours: bool = False
    """Whether it is our own sidecar, which confines what its agent starts and stays outside itself."""


class Begun(msgspec.Struct, frozen=True):
    """What another backend has done of the order, which this one goes on from."""

    workspace: Workspace
    handover: str


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """An order, and how this control plane should run it. `order.workspace.root` is the source directory.

    `backend` is a sidecar to start, or an agent whose session is then in this process.
    """

    order: WorkOrder
    backend: Backend | Agent
    mode: WorkspaceMode = "staged"
    timeout: float | None = None
    check: str | None = None
    """The person's; None: that of the project, where `finds_check`."""
    finds_check: bool = False
    may_change: tuple[str, ...] = ()
    """Patterns of the tests and configuration that the work may change and still be checked with."""
    setup: str | None = None
    """Run before the check, in the same fresh directory; None: that of the project, if the person trusts it."""
    bring: tuple[str, ...] | None = None
    """What the check gets of the source beside the result, such as installed packages; None: what is ignored there."""
    begun: Begun | None = None
    origin: Origin | None = None
    """Where the source's files come from, if its own git directory is an agent's."""
    apply: bool = False
    anyway: bool = False
    """Apply also what changes files that other programs obey."""
    keep_workspace: bool = False
    events_path: str | None = None
    out_path: str | None = None
    timing: Timing = Timing()
    line_cap: int = CAP
    confinement: Confinement = Confinement(use="possible")
    """The sandbox of the sidecar, of what an agent of ours starts, and of the check."""


class RunRecord(msgspec.Struct, frozen=True, kw_only=True):
    format: int = 0
    run_id: str
    order: WorkOrder
    backend: str
    mode: WorkspaceMode
    started: float
    pid: int = 0
    out_path: str | None = None
    receipts: str | None = None
    """Where its receipt belongs, if not in the store of the one who recovers it."""
    walls: Walls | None = None
    enforced: dict[str, Enforced] | None = msgspec.field(name="kept", default=None)
    """`Observed.enforcement`, once it is known."""
    repository: str | None = None
    """Its address, as it was before the agent started."""
    registered: RunRegistration | None = None
    """For the signature of its receipt; None while its agent has not started, or without a key."""


RUN = FileRecord(RunRecord, format=FORMAT, sync=False)


def runs_directory() -> str:
    return os.path.join(state_dir(), "host")


def absolute_command(argv: Sequence[str]) -> list[str]:
    """Make paths in the command absolute, because the sidecar runs in its workspace and not here."""
    program, *rest = argv
    if "/" in program:
        program = os.path.abspath(program)
    return [program, *(os.path.abspath(word) if os.path.isfile(word) else word for word in rest)]


# The runs under way on this machine: which there are, what they say, and how to end one.

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
            record = RUN.load(os.path.join(directory, "run.json"))
        except StorageError:
            continue
        if record is None:
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
        many = f"{len(fitting)} running runs begin with" if fitting else "there is no running run with the id"
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
