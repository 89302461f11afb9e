"""Start a program confined: the one function for tools, hooks, servers, checks and driven agents.

    child = await start(confinement, ["npm", "test"], cwd=workspace, env=env, stderr="stdout")

With `confinement` None the program is started without a sandbox. A confined program begins only after a handshake: it
reports from inside that it is ready; we look at it from outside through /proc, make sure that the namespaces are its
own, and tell it to start. If any of us is killed at any moment, the program either never begins or ends with us: its
first process dies with bubblewrap, bubblewrap dies with the reaper that started it, and the kernel ends everything
inside with the first process.
"""

import asyncio
import os
import shutil
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Literal, NamedTuple

from treadle.errors import LocalError, NotFound
from treadle.io.process import child as children
from treadle.io.process.child import Child
from treadle.io.sandbox import activity, bubblewrap, caches, landlock, loopback, methods, parted, places, seccomp, seen
from treadle.io.sandbox.limits import BoundedProgram
from treadle.io.sandbox.loopback import SharedNetwork
from treadle.io.sandbox.outside import Outside
from treadle.io.sandbox.passage import Granted, Passage
from treadle.io.sandbox.proxy import Proxy, Reaching, relayed, variables
from treadle.io.within import within
from treadle.session import Confinement

READY_SECONDS = 30.0
NAMESPACES = ("pid", "mnt", "ipc", "uts")


async def start(
    confinement: Confinement | None,
    argv: Sequence[str],
    *,
    cwd: str,
    env: Mapping[str, str] | None = None,
    stdin: int | Literal["pipe"] | None = None,
    stdout: int | Literal["pipe"] | None = "pipe",
    stderr: int | Literal["pipe", "stdout", "tail"] | None = "tail",
    limits: Iterable[tuple[int, int, int]] = (),
    linger: bool = False,
    reaching: Reaching | None = None,
) -> Child:
    """Start `argv` as `confinement` says and wait until it runs; the rest is as in `child.start`.

    `reaching` decides about hosts that are not in the list of a confinement whose network is off.

    `linger`: what the command leaves running may go on writing for a moment; what is then stopped is named on its
    stdout. Give pipes, not files, as standard streams: a file could be reopened from inside, even for writing.
    A program with "pipe" for both stdin and stdout alone holds them, so that we notice at once when it closes one.
    """
    env = dict(os.environ if env is None else env)
    launch = partial(children.start, cwd=cwd, stdin=stdin, stdout=stdout, stderr=stderr, limits=tuple(limits))
    if confinement is None:
        return await launch(argv, env=env)
    command = [find_program(argv[0], env, cwd), *argv[1:]]
    alone = stdin == "pipe" and stdout == "pipe"
    begin = partial(_begin, launch, confinement, command, cwd, env, linger, alone, reaching)
    network = loopback.shared(confinement)
    try:
        return await begin(network)
    except _Vanished:
        return await begin(loopback.shared(confinement))
    except LocalError:
        if network is None or network.is_there():
            raise
        return await begin(None)  # the program whose network it was has ended


class _Vanished(LocalError):
    """Something to hide, such as the socket of a program that ended, disappeared before it could be hidden."""


async def _begin(
    launch: Callable[..., Awaitable[Child]],
    confinement: Confinement,
    command: list[str],
    cwd: str,
    env: dict[str, str],
    linger: bool,
    alone: bool,
    reaching: Reaching | None,
    network: SharedNetwork | None,
) -> Child:
    beside: list[Passage] = []
    activity.starting(confinement.write)
    if confinement.network == "off" and (confinement.hosts or reaching is not None):
        beside.append(Proxy(confinement.hosts, reaching, public=confinement.public))
        command, env = relayed(command), {**env, **variables(confinement.hosts, env)}
    if confinement.relay is not None and methods.available().method == "bubblewrap":
        beside.append(Outside(confinement.relay))
    if methods.available().divides:
        beside += [Granted(place) for place in confinement.sockets if os.path.exists(place)]
    go, ours_go = os.pipe()
    ready, theirs_ready = os.pipe()
    fds = [go, theirs_ready]
    try:
        try:
            wrapped, env = _wrapped(confinement, command, cwd, env, linger, beside, alone=alone, network=network)
            if wrapped.filtered:
                fds.append(_filter(unix_sockets=wrapped.view is not None))
            for server in beside:
                await server.start()
            patient = wrapped.mounts is not None
            view = wrapped.view.plan() if wrapped.view is not None else None
            started = await launch(wrapped.argv, env=env, fds=fds, aside=wrapped.aside, patient=patient, view=view)
        except OSError as error:  # such as a link that was removed while we looked at it
            raise LocalError(f"the sandbox cannot be made: {error}") from error
        finally:
            for fd in fds:
                os.close(fd)
        try:
            bounds = BoundedProgram(confinement.limits, filter(None, (*confinement.write, confinement.temp)))
            left = await _handshake(started, ready, ours_go, wrapped, bounds)
        except BaseException:
            await started.stop(0)
            started.close()
            raise
    except BaseException:
        for server in beside:
            server.close()
        raise
    finally:
        os.close(ready)
        os.close(ours_go)
    started.beside += [*(server.close for server in beside), activity.running(confinement.write), *left]
    return started


class _Wrapped(NamedTuple):
    argv: list[str]
    confinement: Confinement
    mounts: bubblewrap.Mounts | None = None
    filtered: bool = False
    aside: bool = False

    @property
    def view(self) -> parted.MachineView | None:
        return self.mounts.view if self.mounts is not None else None


def _wrapped(
    confinement: Confinement,
    argv: list[str],
    cwd: str,
    env: dict[str, str],
    linger: bool,
    beside: Sequence[Passage] = (),
    *,
    alone: bool = False,
    network: SharedNetwork | None = None,
) -> tuple[_Wrapped, dict[str, str]]:
    """`alone`: no process of the sandbox holds the program's standard input and output open."""
    method = methods.available().method
    if method == "bubblewrap":
        program = bubblewrap.find(*confinement.write)
        if program is None:
            raise LocalError("the sandbox cannot be made: the program bwrap has gone")
        filtered = seccomp.program() is not None
        passages = [(server.path, server.place) for server in beside]
        mounts = bubblewrap.Mounts(confinement, divided=methods.available().divides, network=network)
        outer = bubblewrap.command(
            program, confinement, os.path.realpath(cwd), filtered=filtered, passages=passages, mounts=mounts
        )
        aside = bubblewrap.FILTER + filtered if alone else None
        inner = bubblewrap.init(argv, linger=linger, aside=aside)
        wrapped = _Wrapped([*outer, *inner], confinement, mounts=mounts, filtered=filtered, aside=alone)
        return wrapped, bubblewrap.environment(env, confinement)
    if method == "landlock":
        wrapped = _Wrapped([*landlock.command(confinement), *argv], confinement)
        return wrapped, caches.in_temp(env, confinement.temp, confinement) if confinement.temp else env
    raise LocalError("the sandbox cannot be made: " + "; ".join(methods.available().problems))


def find_program(name: str, env: Mapping[str, str], cwd: str) -> str:
    """The path of a program. Inside, a missing program would be just another exit code."""
    place = os.path.join(cwd, name) if "/" in name else name
    found = shutil.which(place, path=env.get("PATH", os.defpath))
    if found is None:
        raise NotFound(f"cannot start {name}: No such file or directory", hint="is it installed and on PATH?")
    return os.path.join(cwd, found)


def _filter(*, unix_sockets: bool) -> int:
    read, write = os.pipe()
    os.write(write, seccomp.program(unix_sockets=unix_sockets) or b"")
    os.close(write)
    return read


async def _handshake(
    started: Child, ready: int, go: int, wrapped: _Wrapped, bounds: BoundedProgram
) -> list[Callable[[], None]]:
    """Returns what is to be called when the program has ended."""
    loop = asyncio.get_running_loop()
    heard: asyncio.Future[bytes] = loop.create_future()

    def hear() -> None:
        if not heard.done():
            heard.set_result(os.read(ready, 1))

    loop.add_reader(ready, hear)
    try:
        async with within(READY_SECONDS):
            answer = await heard
    except TimeoutError:
        answer = b""
    finally:
        loop.remove_reader(ready)
    started.tree.update()
    if answer != b"r" or started.tree.exit_code is not None or started.tree.ended:
        failure = _Vanished if wrapped.mounts is not None and wrapped.mounts.vanished() else LocalError
        raise failure(f"the sandbox could not be made: {await _complaint(started)}", hint="see treadle doctor")
    left: list[Callable[[], None]] = []
    if wrapped.mounts is not None:
        # Before it may begin: a short program has ended soon after.
        first = prove(started.pid, wrapped.confinement, wrapped.mounts)
        left.append(loopback.running(wrapped.confinement, first))
        await bounds.hold(first, namespace=not wrapped.mounts.keeps_capability)
    else:
        await bounds.hold(started.pid, namespace=False)
    bounds.follow(started)
    os.write(go, b"g\n")
    return left


def prove(wrapper: int, confinement: Confinement, mounts: bubblewrap.Mounts) -> int:
    """Look from outside at the first process inside; raises LocalError unless it is confined as it should be."""
    for first in _children(wrapper):
        own = [*NAMESPACES, *(["net"] if confinement.network == "off" else [])]
        capabilities = 0
        if mounts.keeps_capability:
            capabilities = 1 << places.CAP_DAC_OVERRIDE
        else:
            own.append("user")
        shared = [name for name in own if _namespace(first, name) == _namespace(os.getpid(), name)]
        if mounts.network is not None and _namespace(first, "net") != mounts.network.namespace:
            shared.append("the network of another program")
        status = _status(first)
        if shared or status.get("NoNewPrivs") != "1" or int(status.get("CapEff", "f"), 16) != capabilities:
            raise LocalError(f"the sandbox does not hold: shared {', '.join(shared) or 'privileges'} with this process")
        seen.check(first, mounts)
        return first
    raise LocalError("the sandbox does not hold: nothing runs in it")


def _children(pid: int) -> list[int]:
    with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
        return [int(word) for word in file.read().split()]


def _namespace(pid: int, name: str) -> str:
    return os.readlink(f"/proc/{pid}/ns/{name}")


def _status(pid: int) -> dict[str, str]:
    with open(f"/proc/{pid}/status", encoding="utf-8", errors="replace") as file:
        return {name: value.strip() for name, _, value in (line.partition(":") for line in file)}


async def _complaint(started: Child) -> str:
    """What the wrapper printed before it gave up, wherever its stderr went."""
    await started.stop(0)
    words = await started.last_words()
    if not words.strip():
        try:
            async with within(1.0):
                words = (await started.stdio.read()).decode(errors="replace")
        except (TimeoutError, OSError, LocalError):
            pass
    return words.strip()[-500:] or f"it ended with {started.exit_code}"
