"""Which sidecars exist, what they can do, and which of them fits an order; and how one lets another go on.

They come from three sources; for the same name, a later source wins: `backplane.toml`, `[backends.NAME]` in the
person's settings, and our own agents, each served by `treadle sidecar`. A `backplane.toml` that lies in the working
directory comes with whatever was cloned, so it counts only when it is named or the directory is trusted.
"""

import asyncio
import os
import sys
import time
import tomllib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import msgspec
from msgspec.structs import replace

from treadle.agents import AGENTS
from treadle.drivers.sidecar.peer import ENVIRONMENT, SidecarPeer, Timing
from treadle.errors import Cancelled, ConfigError, NotFound, TreadleError, Unsupported
from treadle.host.conclusion import redactor_of
from treadle.host.job import Backend, Begun, Job, absolute_command
from treadle.host.run import HostRun
from treadle.io import paths
from treadle.io.files import read
from treadle.io.process.programs import command_words
from treadle.policy.environment import reduced
from treadle.policy.guess import access_of
from treadle.session import Agent
from treadle.sessions.handover import Gathering
from treadle.settings import config, trust
from treadle.wire.sidecar.connection import Requirements, satisfies, unmet
from treadle.wire.sidecar.events import SidecarIncoming, contract_code
from treadle.wire.sidecar.receipts import BackendIdentity, ErrorMet, Manifest, Receipt
from treadle.wire.sidecar.repair import NOWHEN

FILE = "backplane.toml"
PROBES_AT_ONCE = 4


class BackendEntry(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="sidecar"):
    command: str
    args: tuple[str, ...] = ()
    timeout_secs: float | None = None


class Mock(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="mock"):
    """A backend that the first implementation has for its own tests. We have none."""


class Backplane(msgspec.Struct, frozen=True, kw_only=True):
    default_backend: str | None = None
    log_level: Literal["error", "warn", "info", "debug", "trace"] | None = None
    receipts_dir: str | None = None
    port: int | None = None
    policy_profiles: tuple[str, ...] = ()
    backends: dict[str, BackendEntry | Mock] = {}


class Known(msgspec.Struct, frozen=True, kw_only=True):
    backends: dict[str, Backend]
    default: str | None = None
    receipts_dir: str | None = None
    policy_profiles: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()


def own_backend(agent: str) -> Backend:
    # -P, so that a module in the workspace is not imported in place of ours.
    argv = (sys.executable, "-P", "-c", "from treadle.cli import main; main()", "sidecar", "--agent", agent)
    return Backend(name=agent, argv=argv, source="treadle", ours=True)


def find_backends(path: str | None = None, cwd: str | None = None, environ: Mapping[str, str] | None = None) -> Known:
    """All backends that can be named. `path` is a `backplane.toml`; by default the one here, if it is trusted."""
    cwd, environ = cwd or paths.here(), os.environ if environ is None else environ
    ignored: list[str] = []
    here = os.path.join(cwd, FILE)
    if path is None and os.path.isfile(here):
        if trust.is_trusted(cwd):
            path = here
        else:
            ignored.append(f"{here} is not trusted: run treadle trust, or name it with --config {FILE}")
    plane = read_backplane(path) if path is not None else Backplane()
    found = _from_file(plane, path or "", ignored)
    for name, entry in config.load(cwd).settings.backends.items():
        found[name] = Backend(
            name=name, argv=(entry.command, *entry.args), env=entry.env, timeout=entry.timeout_secs, source="settings"
        )
    found |= {name: own_backend(name) for name in AGENTS}
    base = os.path.dirname(os.path.abspath(path)) if path else cwd
    receipts = environ.get("ABP_RECEIPTS_DIR") or plane.receipts_dir
    return Known(
        backends=found,
        default=environ.get("ABP_DEFAULT_BACKEND") or plane.default_backend,
        receipts_dir=os.path.join(base, receipts) if receipts else None,
        policy_profiles=tuple(os.path.join(base, profile) for profile in plane.policy_profiles),
        ignored=tuple(ignored),
    )


def read_backplane(path: str) -> Backplane:
    try:
        return msgspec.convert(tomllib.loads(read(path).decode()), Backplane)
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, msgspec.ValidationError) as error:
        raise ConfigError(f"{path} cannot be used: {error}") from error


def _from_file(plane: Backplane, path: str, ignored: list[str]) -> dict[str, Backend]:
    found = {}
    for name, entry in plane.backends.items():
        if isinstance(entry, Mock):
            ignored.append(f"{path}: the backend {name} is a mock, which only its own control plane has")
        else:
            found[name] = Backend(name=name, argv=(entry.command, *entry.args), timeout=entry.timeout_secs, source=path)
    return found


def named_backend(known: Known, name: str) -> Backend:
    """A backend by its name, also in the first implementation's form, `sidecar:NAME`."""
    for form in (name, name.removeprefix("sidecar:")):
        if form in known.backends:
            return known.backends[form]
    hint = f"there are {', '.join(sorted(known.backends))}"
    raise NotFound(f"there is no backend {name!r}", hint="; ".join([hint, *known.ignored]))


def command_backend(command: str) -> Backend:
    argv = tuple(command_words(command))
    if not argv:
        raise ConfigError("--sidecar needs a command", hint="such as --sidecar 'node host.js'")
    return Backend(name=os.path.basename(argv[0]), argv=argv, source="command line")


class Probe(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a probe: what the sidecar said in its hello, or the error."""

    name: str
    ok: bool
    milliseconds: int
    identity: BackendIdentity | None = None
    contract_version: str | None = None
    mode: str | None = None
    capabilities: Manifest = {}
    notes: tuple[str, ...] = ()
    code: str | None = None
    error: str | None = None


async def probe(backend: Backend, timing: Timing = Timing()) -> Probe:  # noqa: B008
    """Start the sidecar, read its hello, end it."""
    started = time.monotonic()

    def spent() -> int:
        return round((time.monotonic() - started) * 1000)

    try:
        peer = await SidecarPeer.spawn(
            absolute_command(backend.argv),
            env=reduced(os.environ, (*ENVIRONMENT, *backend.env), providers=True),
            cwd=paths.here(),
            name=backend.name,
            timing=timing,
        )
        async with peer:
            hello = await peer.await_hello()
            return Probe(
                name=backend.name,
                ok=True,
                milliseconds=spent(),
                identity=hello.backend,
                contract_version=hello.contract_version,
                mode=hello.mode,
                capabilities=hello.capabilities,
                notes=tuple(map(str, peer.notes)),
            )
    except TreadleError as error:
        return Probe(name=backend.name, ok=False, milliseconds=spent(), code=error.code, error=str(error))


async def select(known: Known, requirements: Requirements) -> Backend:
    """The backend that offers what the order requires; among several, the one that offers most of it natively."""
    if known.default is not None and not requirements.required:
        return named_backend(known, known.default)
    backends = list(known.backends.values())
    if not requirements.required and len(backends) == 1:
        return backends[0]
    if not requirements.required:
        raise ConfigError(
            "several backends are available and none was chosen",
            hint=f"name one with --backend: {', '.join(sorted(known.backends))}",
        )
    limit = asyncio.Semaphore(PROBES_AT_ONCE)

    async def ask(backend: Backend) -> Probe:
        async with limit:
            return await probe(backend)

    probes = await asyncio.gather(*map(ask, backends))
    return named_backend(known, best(probes, requirements, known.default).name)


def best(probes: Sequence[Probe], requirements: Requirements, default: str | None = None) -> Probe:
    """Prefers coverage, then native support, then the default, then the name. Raises when none offers everything."""

    def rank(found: Probe) -> tuple[int, int, bool, str]:
        met = [need for need in requirements.required if _meets(found, need.capability, need.min_support)]
        native = [need for need in met if found.capabilities.get(need.capability) == "native"]
        return -len(met), -len(native), found.name != default, found.name

    alive = sorted((found for found in probes if found.ok), key=rank)
    if not alive:
        reasons = "; ".join(f"{found.name}: {found.error}" for found in probes)
        raise NotFound(f"no backend responds: {reasons}")
    missing = unmet(requirements, alive[0].capabilities)
    if missing:
        raise Unsupported(f"no backend meets all requirements; {alive[0].name} lacks {'; '.join(missing)}")
    return alive[0]


def _meets(found: Probe, capability: str, wanted: Literal["native", "emulated", "any"]) -> bool:
    return satisfies(found.capabilities.get(capability), wanted)  # type: ignore[call-overload]


# Tries one order again, or lets another backend go on. Each attempt has its own receipt; the last one lists them.

PASSING = {
    "backend_unavailable",
    "backend_timeout",
    "backend_rate_limited",
    "backend_crashed",
    "rate_limit_exceeded",
    "circuit_breaker_open",
    "stream_closed",
}
"""Error codes of the contract that another attempt may not meet again."""
FIRST_PAUSE, LONGEST_PAUSE = 0.1, 5.0


class Attempts:
    """`start` makes the run of one attempt from its job and the outcomes of the earlier ones.

    With `fresh`, a fallback begins again, without what was done.
    """

    def __init__(
        self,
        job: Job,
        start: Callable[[Job, Sequence[dict[str, Any]]], HostRun],
        *,
        retries: int = 0,
        fallbacks: Sequence[Backend | Agent] = (),
        fresh: bool = False,
    ) -> None:
        self._jobs = [job, *(_for(job, backend) for backend in fallbacks)]
        self._start = start
        self._retries = retries
        self._fresh = fresh
        self._gathering = Gathering(redactor_of(job.order))
        self._begun: Begun | None = None
        self._earlier: list[dict[str, Any]] = []
        self._stopped: TreadleError | None = None
        self._pausing: asyncio.Task[None] | None = None
        self.run: HostRun | None = None
        """The current attempt, or the last one."""

    async def carry_out(self) -> Receipt:
        for at, job in enumerate(self._jobs):
            receipt = await self._try(replace(job, begun=self._begun))
            more = at < len(self._jobs) - 1
            if not more or receipt.outcome != "failed" or self._stopped is not None:
                break
            if self.run is not None and not self._fresh:
                self._begun = self._left_by(self.run) or self._begun
        return receipt

    def _left_by(self, run: HostRun) -> Begun | None:
        """What there is to go on from: the files, and what was said and done."""
        incoming, seen = SidecarIncoming(access_of), run.observed.trace.events(NOWHEN)
        for event in [made for one in seen for made in incoming.translate(one)]:
            self._gathering.look(event)
        if run.left is None:
            return None
        why = _why(run) or "it did not finish the task"
        return Begun(run.left, self._gathering.handover(run.job.backend.name).prompt(why=why))

    async def _try(self, job: Job) -> Receipt:
        for attempt in range(self._retries + 1):
            self.run = self._start(job, tuple(self._earlier))
            receipt = await self.run.run()
            self._earlier.append(_summary(self.run, receipt))
            failure = self.run.observed.failure
            if attempt == self._retries or receipt.outcome != "failed" or not _may_pass(failure):
                break
            self._pausing = asyncio.create_task(asyncio.sleep(min(FIRST_PAUSE * 2**attempt, LONGEST_PAUSE)))
            await asyncio.wait([self._pausing])
            if self._stopped is not None:
                break
        return receipt

    async def stop(self, why: TreadleError) -> None:
        """End the current attempt and begin no other."""
        self._stopped = why
        if self._pausing is not None:
            self._pausing.cancel()
        if self.run is not None:
            await self.run.stop(why)

    def kill(self) -> None:
        if self.run is not None:
            self.run.kill()


def _for(job: Job, backend: Backend | Agent) -> Job:
    """The same for another; a model is its agent's own."""
    config = job.order.config if isinstance(backend, Backend) else replace(job.order.config, model=None)
    return replace(job, backend=backend, order=replace(job.order, config=config))


def _may_pass(failure: TreadleError | None) -> bool:
    if failure is None or isinstance(failure, Cancelled):
        return False
    return failure.retryable or contract_code(failure.code, failure.details) in PASSING


def _why(run: HostRun) -> str | None:
    """Why it failed: what stopped it, else the last error that the agent met."""
    if run.observed.failure is not None:
        return str(run.observed.failure)
    met = [event for event in run.observed.trace.events(NOWHEN) if isinstance(event, ErrorMet)]
    return met[-1].message if met else None


def _summary(run: HostRun, receipt: Receipt) -> dict[str, Any]:
    failure, place = run.observed.failure, run.observed.workspace
    return {
        "run_id": run.run_id,
        "base": {"commit": place["base_commit"], "tree": place["base_tree"]} if place else None,
        "agent": run.job.backend.name,
        "outcome": receipt.outcome,
        "code": failure.code if failure else None,
        "message": _why(run),
        "duration_ms": receipt.meta.duration_ms,
    }
