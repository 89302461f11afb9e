"""The one way to start and stop a process, with everything that will ever descend from it.

    with spawn(["npm", "test"], stdout=fd) as tree:
        code = tree.wait(timeout=60)

A tree runs under the keeper (`keeper.py`), which is started with the first one and ends all of them when this process
ends, however it ends. This is the plain, blocking interface; `child.py` is the async one. To follow a tree from a loop
of your own, select on `fileno()` and call `update()`.

We never call `waitpid(-1)` and never adopt orphans in this process: embedders share it.
"""

from __future__ import annotations

import atexit
import marshal
import os
import socket
import weakref

from treadle.io.process import handle, held, keeper
from treadle.io.process.held import GRACE, Tree, TreeEnd
from treadle.light import TYPE_CHECKING
from treadle.wire.common.framing import frame

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import TypedDict, Unpack

    class SpawnOptions(TypedDict, total=False):
        """How a command is started."""

        env: Mapping[str, str] | None
        cwd: str | None
        tty: bool
        """Its stdin is a pty's slave side and becomes its controlling terminal."""
        limits: Iterable[tuple[int, int, int]]
        """Arguments of `setrlimit`."""
        patient: bool
        """Only its descendants are asked to end: it is a wrapper, and its death would kill them without asking."""
        view: Mapping[str, object] | None
        """It sees the machine through mounts of its own (`view.py`)."""


__all__ = ["GRACE", "Tree", "TreeEnd", "busy", "request", "rest", "spawn"]


def spawn(
    argv: Sequence[str],
    *,
    stdin: int | None = None,
    stdout: int | None = None,
    stderr: int | None = None,
    fds: Sequence[int] = (),
    **how: Unpack[SpawnOptions],
) -> Tree:
    """Start `argv` and wait until it runs.

    Standard streams are descriptors; `None` is /dev/null; ours are never inherited. The command leads a session of its
    own. `fds` are further descriptors, which the command gets as 3, 4, 5 and so on.
    Raises `NotFound` when there is no such program or directory.
    """
    tree = request(argv, stdin=stdin, stdout=stdout, stderr=stderr, fds=fds, **how)
    try:
        tree.await_started()
    except BaseException:
        tree.close()
        raise
    return tree


def request(
    argv: Sequence[str],
    *,
    stdin: int | None = None,
    stdout: int | None = None,
    stderr: int | None = None,
    fds: Sequence[int] = (),
    env: Mapping[str, str] | None = None,
    cwd: str | None = None,
    tty: bool = False,
    limits: Iterable[tuple[int, int, int]] = (),
    patient: bool = False,
    view: Mapping[str, object] | None = None,
    detached: bool = False,
) -> Tree:
    """`spawn` without the wait: `update` learns when the tree has started, or failed to.

    A `detached` tree has a keeper of its own and outlives its handle and this process.
    """
    message = {
        **held.request(argv, env, cwd, tty),
        "limits": [(int(name), int(soft), int(hard)) for name, soft, hard in limits],
        "fds": len(fds),
        "patient": patient,
        "view": dict(view) if view else None,
        "detached": detached,
    }
    ours, theirs = socket.socketpair()
    keeper_pid = 0
    started = Tree(ours, list(argv), lambda reaper: handle.own.sweep(keeper_pid, reaper))
    _trees.add(started)  # from now on the keeper is not let go
    null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    try:
        streams = [null if fd is None else fd for fd in (stdin, stdout, stderr)]
        send = handle.send_detached if detached else handle.own.send
        send(frame(keeper.SPAWN, marshal.dumps(message)), [theirs.fileno(), *streams, *fds])
    except BaseException:
        ours.close()
        raise
    finally:
        theirs.close()
        os.close(null)
    keeper_pid = handle.own.pid
    return started


def rest() -> bool:
    """Let the keeper go when we have no tree: the next one starts another. Returns whether it is gone."""
    return handle.own.rest(busy)


def busy() -> bool:
    """Whether we have a tree that is not given up."""
    return any(tree.fileno() >= 0 for tree in list(_trees))


_trees: weakref.WeakSet[Tree] = weakref.WeakSet()


def _let_go() -> None:
    for tree in _trees:
        tree.close()


# A forked copy of us must not keep the sockets open: after our death the reapers would take the copy for us.
os.register_at_fork(after_in_child=_let_go)
atexit.register(_let_go)
