"""Start a program confined: the one function for tools, hooks, servers, checks and driven agents.

    child = await start(confinement, ["npm", "test"], cwd=workspace, env=env, stderr="stdout")

With `confinement` None the program is started without a sandbox. A confined program begins only after a handshake: it
reports from inside that it is ready; we look at it from outside through /proc, make sure that the namespaces are its
own, and tell it to start. If any of us is killed at any moment, the program either never begins or ends with us: its
first process dies with bubblewrap, bubblewrap dies with the reaper that started it, and the kernel ends everything
inside with the first process.
"""

import asyncio
import contextlib
import os
import shutil
import stat
import sys
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Literal, NamedTuple, TypeVar

import msgspec

from treadle.errors import LocalError, NotFound, TimedOut, TreadleError
from treadle.io import descriptors
from treadle.io.process import child as children
from treadle.io.process.child import Child
from treadle.io.sandbox import bubblewrap, landlock, methods, parted, places, seccomp
from treadle.io.sandbox.bubblewrap import Mounts, SharedNetwork
from treadle.io.sandbox.limits import BoundedProgram
from treadle.io.sandbox.places import count_run, count_start, is_under
from treadle.io.sandbox.proxy import PLACE, PORT, Granted, Passage, Proxy, Reaching, relayed, variables
from treadle.io.tasks import within
from treadle.session import Confinement, PortGrant, RelayGrant

# What confined programs may have done outside: for each connection to a socket in the sandbox, a program of ours
# runs.
#
# The request is only that program's standard input; it chooses neither the program nor its words, directory or
# variables. The program judges the request, and bounds its own time. It ends when the connection does.

MOST = 8
"""Connections at once; further ones wait."""


class Outside(Passage):
    def __init__(self, grant: RelayGrant) -> None:
        super().__init__(grant.place, "relay")
        self._grant = grant
        self._free = asyncio.Semaphore(MOST)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # If either end is gone or the program cannot be started, the one inside sees no answer, and says so.
        with contextlib.suppress(TreadleError, OSError):
            async with self._free:
                await self._answer(reader, writer)

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        grant = self._grant
        env = {**os.environ, **dict(grant.env)}
        child = await children.start(grant.argv, cwd=grant.cwd, env=env, stdin="pipe", stdout="pipe", stderr=None)
        async with child:
            given = asyncio.ensure_future(_give(reader, child))
            try:
                while data := await child.stdio.read():
                    writer.write(data)
                    await writer.drain()
            finally:
                given.cancel()


async def _give(reader: asyncio.StreamReader, child: Child) -> None:
    with contextlib.suppress(TreadleError, OSError):  # the other direction notices too
        while data := await reader.read(64 * 1024):
            await child.stdio.write(data)
    child.stdio.close_write()


# Checks from outside what a confined program will see, before it begins.
#
# Between our look at a path and bubblewrap's mount, a program that runs in the same workspace, such as a background
# task, can replace the path by a link. So each place in the workspace is opened as the program would see it, refusing
# links, and must be what we meant: the same file, read-only, or hidden.

T = TypeVar("T")
_PATH = os.O_PATH | os.O_NOFOLLOW if hasattr(os, "O_PATH") else os.O_RDONLY | os.O_NOFOLLOW


def check(first: int, mounts: Mounts) -> None:
    """`first` is the first process inside. Raises LocalError."""
    here = os.open("/", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    there = os.open(f"/proc/{first}/root", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        protected = [place for place in mounts.inside(mounts.read_only) if not is_under(place, *mounts.hidden)]
        for place in [*mounts.write, *mounts.pins, *protected]:
            if not is_under(place, *mounts.hidden) and _identity(here, place) != _identity(there, place):
                raise _moved(place)
        for shown in mounts.shown:
            if _identity(here, shown.source) != _identity(there, shown.target):
                raise _moved(shown.target)
            if not shown.write and not _is_read_only(there, shown.target):
                raise _moved(shown.target)
        for place in protected:
            if not _is_read_only(there, place):
                raise _moved(place)
        for place in mounts.inside(mounts.hidden):
            if not _is_hidden(there, place):
                raise _moved(place)
    finally:
        os.close(here)
        os.close(there)


def _moved(place: str) -> LocalError:
    problem = f"the sandbox is incomplete: {place} was moved while it was made"
    return LocalError(problem, hint="try again; another program is changing this directory")


def _seen(root: int, place: str, look: Callable[[int], T]) -> T:
    try:
        fd = descriptors.open_from(root, place.lstrip("/") or ".", _PATH)
    except OSError as error:
        raise _moved(place) from error
    try:
        return look(fd)
    finally:
        os.close(fd)


def _identity(root: int, place: str) -> tuple[int, int]:
    found = _seen(root, place, os.fstat)
    return found.st_dev, found.st_ino


def _is_read_only(root: int, place: str) -> bool:
    return bool(_seen(root, place, os.fstatvfs).f_flag & os.ST_RDONLY)


def _is_hidden(root: int, place: str) -> bool:
    found = _seen(root, place, os.fstat)
    if stat.S_ISDIR(found.st_mode):
        return stat.S_IMODE(found.st_mode) == 0
    return stat.S_ISCHR(found.st_mode) and found.st_rdev == os.stat("/dev/null").st_rdev


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
    if confinement.variables is not None:
        env = {name: value for name, value in env.items() if name in confinement.variables}
    command = [find_program(argv[0], env, cwd), *argv[1:]]
    alone = stdin == "pipe" and stdout == "pipe"
    begin = partial(_begin, launch, confinement, command, cwd, env, linger, alone, reaching)
    network = bubblewrap.shared(confinement)
    try:
        return await begin(network)
    except _Vanished:
        return await begin(bubblewrap.shared(confinement))
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
    wrapped: _Wrapped | None = None
    count_start(confinement.write)
    offered = [grant._replace(socket=_place(grant)) for grant in confinement.ports]
    if confinement.network == "off" and (confinement.hosts or reaching is not None):
        beside.append(Proxy(confinement.hosts, reaching, public=confinement.public))
        offered.append(PortGrant(PORT, PLACE))
        env = {**env, **variables(confinement.hosts, env, [grant.host for grant in confinement.ports])}
    if confinement.network == "off" and offered:
        command = relayed(command, offered)
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
            raise LocalError(f"the sandbox cannot be created: {error}") from error
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
        if wrapped is not None and wrapped.mounts is not None:
            wrapped.mounts.home.close()
        raise
    finally:
        os.close(ready)
        os.close(ours_go)
    left += [wrapped.mounts.home.close] if wrapped.mounts is not None else []
    started.beside += [*(server.close for server in beside), count_run(confinement.write), *left]
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
            raise LocalError("the sandbox cannot be created: the program bwrap no longer exists")
        filtered = seccomp.program() is not None
        passages = [(server.path, server.place) for server in beside]
        passages += [(grant.socket, _place(grant)) for grant in confinement.ports]
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
        return wrapped, landlock.environment(env, confinement)
    raise LocalError("the sandbox cannot be created: " + "; ".join(methods.available().problems))


def _place(grant: PortGrant) -> str:
    """The path of its socket inside."""
    return f"/run/treadle-port-{grant.port}"


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
        left.append(bubblewrap.running(wrapped.confinement, first))
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
            raise LocalError(f"the sandbox is incomplete: shared {', '.join(shared) or 'privileges'} with this process")
        check(first, mounts)
        return first
    raise LocalError("the sandbox did not start")


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


# A sandbox that runs: what is read-only in it is changed from outside, by a process that joins it (`keeping.py`).

ANSWER_SECONDS = 20.0


class RunningSandbox:
    def __init__(self, wrapper: Child, tops: Sequence[str]) -> None:
        """`wrapper`: what `start.start` returned; `tops`: the writable places."""
        self._wrapper = wrapper
        self._tops = [os.path.realpath(top) for top in tops if os.path.exists(top)]
        self._helper: Child | None = None

    async def change(self, keep: Iterable[str], release: Iterable[str]) -> dict[str, str]:
        """Make paths read-only, and give others back. Returns those for which that failed, each with the reason."""
        asked = msgspec.json.encode({"keep": [*keep], "release": [*release]})
        try:
            async with within(ANSWER_SECONDS):
                if self._helper is None:
                    self._helper = await self._start()
                await self._helper.stdio.write(asked + b"\n")
                answer = b""
                while not answer.endswith(b"\n"):
                    more = await self._helper.stdio.read()
                    if not more:
                        raise LocalError(f"the sandbox cannot be changed: {await self._helper.last_words()}")
                    answer += more
        except TimeoutError as error:
            raise TimedOut(f"the sandbox was not changed within {ANSWER_SECONDS:g} s") from error
        return dict(msgspec.json.decode(answer)["failed"])

    async def _start(self) -> Child:
        with open(f"/proc/{self._wrapper.pid}/task/{self._wrapper.pid}/children", encoding="ascii") as file:
            inside = file.read().split()
        if not inside:
            raise LocalError("the sandbox cannot be changed: nothing runs in it")
        argv = [sys.executable, "-P", "-m", "treadle.io.sandbox.keeping", inside[0], *self._tops]
        return await children.start(argv, cwd="/", stdin="pipe")

    def close(self) -> None:
        """Stop changing it; what is read-only stays so."""
        if self._helper is not None:
            self._helper.close()
            self._helper = None
