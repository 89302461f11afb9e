"""What a run is asked to do, and what is on disk while it runs.

state/host/<run_id>/      one directory for each run under way
    lock                  held while the run's host lives
    run.json              the order, and who was to do it
    events.jsonl          what the sidecar has said so far
    workspace/, store.git, workspace.json, patch.diff
"""

import os
from collections.abc import Sequence

import msgspec

from treadle.drivers.sidecar.liveness import Timing
from treadle.io.paths import state_dir
from treadle.receipts.trace import Enforced, Walls
from treadle.session import Agent, Confinement
from treadle.wire.common.connection import CAP
from treadle.wire.sidecar.connection import WorkOrder
from treadle.workspace.prepared import Origin, WorkspaceMode

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


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """An order, and how this control plane should run it. `order.workspace.root` is the source directory.

    `backend` is a sidecar to start, or an agent whose session is then in this process.
    """

    order: WorkOrder
    backend: Backend | Agent
    mode: WorkspaceMode = "staged"
    timeout: float | None = None
    check: str | None = None
    setup: str | None = None
    """Run before the check, in the same fresh directory."""
    bring: tuple[str, ...] | None = None
    """What the check gets of the source beside the result, such as installed packages; None: what is ignored there."""
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


def runs_directory() -> str:
    return os.path.join(state_dir(), "host")


def absolute_command(argv: Sequence[str]) -> list[str]:
    """Make paths in the command absolute, because the sidecar runs in its workspace and not here."""
    program, *rest = argv
    if "/" in program:
        program = os.path.abspath(program)
    return [program, *(os.path.abspath(word) if os.path.isfile(word) else word for word in rest)]
