"""Runs the person's command that checks work, confined: what it runs was written by agents."""

import asyncio
import os
from collections.abc import Callable, Collection, Sequence

from msgspec.structs import replace

from treadle.errors import ConfigError, DiskFull
from treadle.io import scratch
from treadle.io.process import child as children
from treadle.io.sandbox import limits
from treadle.io.sandbox.start import start
from treadle.io.tasks import within
from treadle.policy.environment import reduced
from treadle.policy.network import offline, parse_network
from treadle.receipts.trace import Check
from treadle.sandboxed.confining import Confining, settled
from treadle.session import Confinement
from treadle.settings import config
from treadle.verification.checking import Checking
from treadle.workspace.store import Store

CHECK_SECONDS = 600.0


async def run_check(
    command: str, cwd: str, seconds: float = CHECK_SECONDS, confinement: Confinement | None = None
) -> Check:
    """Run the person's check command in the workspace; says whether the work is good. Raises DiskFull when it fails
    and the disk is full: that says nothing about the work."""
    argv = ["sh", "-c", command]
    async with await start(confinement, argv, cwd=cwd, env=reduced(os.environ), stderr="stdout") as child:
        tail = children.Tail(8192)

        async def collect() -> int:
            while data := await child.stdio.read():
                tail.feed(data)
            return await child.wait()

        try:
            async with within(seconds):
                code: int | None = await collect()
        except TimeoutError:
            code = None
            tail.feed(f"\n[it did not end within {seconds:g} s]".encode())
        if confinement is not None and confinement.network == "off" and code and (why := offline(tail.text)):
            tail.feed(f"\n[{why}]".encode())
        if code != 0 and (full := child.disk_full or limits.full(cwd)):
            raise DiskFull(f"`{command}` could not be run to its end: {full}", hint="free some space")
        if exceeded := child.exceeded(tail.text if code else ""):
            tail.feed(f"\n[{exceeded}]".encode())
    return Check(command=command, exit_code=code, output_tail=tail.text)


def asked_by_order(network: str, cwd: str, shown: Sequence[str] = ()) -> Confinement:
    """The sandbox of an order that says what can be reached; what this machine's settings say goes before that."""
    if not network or config.load(cwd).settings.network is not None:
        return Confinement(use="possible", read_only=tuple(shown))
    reach, hosts = parse_network(network)
    return Confinement(use="possible", network=reach, hosts=hosts, read_only=tuple(shown))


async def confined_check(
    command: str,
    cwd: str,
    *,
    shown: Sequence[str] = (),
    setup: bool = False,
    network: str = "",
    trusted: bool = True,
) -> Check:
    """Run a check outside of any run, in a sandbox where possible: what it runs was written by agents.

    It can read the directories `shown` wherever they are, also in /tmp, which is private otherwise. It has the network
    of a command, a `setup` that of the machine; `network` is what an order says about it. What is not `trusted` runs
    only in a sandbox, and a setup like a command.
    """
    asked = settled(asked_by_order(network, cwd, shown), config.load(cwd).settings)
    confining = Confining(cwd, (), asked, session="check")
    try:
        confinement = confining.now() if setup and trusted else confining.for_command()
        if confinement is None and not trusted:
            why = f"`{command}` is of a project that is not trusted, and there is no sandbox to run it in"
            raise ConfigError(why, hint="treadle trust")
        return await run_check(command, cwd, confinement=confinement)
    finally:
        confining.close()


async def verified_check(
    store: Store,
    base: str,
    work: str,
    command: str,
    write: Callable[[str, str], str],
    *,
    setup: str = "",
    shown: Sequence[str] = (),
    network: str = "",
    inside: str = "",
    may_change: Sequence[str] = (),
    plain: bool = False,
    blame: bool = False,
    prove: bool = False,
    plants: bool = False,
    untrusted: Collection[str] = (),
) -> Check:
    """Check what the tree `work` changes of the tree `base`, by the judge of the base, outside of any run. `plain`: run
    the command on `work` once, and nothing else. `blame`, `prove`, `plants`: as in `Checking`. `untrusted`: those of
    `setup` and `command` that a project names which is not trusted.

    `write` writes a tree into a directory that does not exist yet and returns the directory to run in; it blocks. The
    rest is as for `confined_check`.
    """

    async def run(tree: str) -> Check:
        with scratch.directory("check") as directory:
            here = await asyncio.to_thread(write, os.path.join(directory, "tree"), tree)
            for each in filter(None, (setup, command)):
                before, trusted = each != command, each not in untrusted
                done = await confined_check(each, here, shown=shown, setup=before, network=network, trusted=trusted)
                if not done.ok:
                    break
            return replace(done, setup=setup)

    if plain:
        return await run(work)
    checking = Checking(
        store, command, run, inside=inside, may_change=may_change, blame=blame, prove=prove, plants=plants
    )
    verified = await checking.verify(base, work)
    return verified.main.proving(verified.evidence)
