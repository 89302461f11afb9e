"""Translates between the worker wire and our sessions: what an init asks for, and the result of a finished turn."""

import os
from collections.abc import Callable, Mapping
from typing import Any, get_args

from treadle.agent.providers.names import PREFIXES
from treadle.errors import ConfigError
from treadle.io.paths import here
from treadle.session import Instructions, Limits, Mode, Rules, SessionSpec, Start, Toolset
from treadle.sessions.totals import TurnSummary
from treadle.settings.config import load
from treadle.wire.worker.events import counts, envelope
from treadle.wire.worker.messages import (
    CallMade,
    ErrorEnvelope,
    Failure,
    InitConfig,
    ResultUsage,
    SendResult,
)
from treadle.wire.worker.versions import PROTOCOL_VERSION, Version, parse_version

HEARTBEAT_MS = 5000


def heartbeat_seconds(environ: Mapping[str, str], warn: Callable[[str], None]) -> float:
    given = environ.get("HEDDLE_HEARTBEAT_INTERVAL", "").strip()
    if not given:
        return HEARTBEAT_MS / 1000
    if given.isascii() and given.isdigit() and 0 < int(given) < 10**9:
        return int(given) / 1000
    warn(f"HEDDLE_HEARTBEAT_INTERVAL is {given[:40]!r}, not a positive number of milliseconds; using {HEARTBEAT_MS}")
    return HEARTBEAT_MS / 1000


def pinned_version(environ: Mapping[str, str], warn: Callable[[str], None]) -> str | None:
    given = environ.get("HEDDLE_PROTOCOL_VERSION", "").strip()
    if given and parse_version(given) is None:
        warn(f"HEDDLE_PROTOCOL_VERSION is {given[:40]!r}, not a version such as {PROTOCOL_VERSION}; it is ignored")
        return None
    return given or None


WORKING = {"bash", "write_file", "edit_file"}
"""A client that leaves one of these out wants it not done, which an agent that keeps all of its tools must refuse."""
GRACE = 0.8
"""Seconds that an interrupted command has to end by itself: it is gone when the client, who waits 2 s, is answered."""


def session_spec(config: InitConfig, environ: Mapping[str, str], warn: Callable[[str], None]) -> SessionSpec:
    """Raises ConfigError when the client or the environment asks for something impossible."""
    for field in ("approval_mode", "permissions", "budget", "cwd", "resume"):
        if getattr(config, field) is not None and not config.asked(field):
            warn(f"config.{field} is ignored, as config.capabilities does not name it")
    cwd = _cwd(config)
    permissions = config.permissions if config.asked("permissions") else None
    return SessionSpec(
        cwd=cwd,
        model=_model(config, environ),
        instructions=Instructions(system=config.system_prompt or None),
        tools=Toolset(offered=config.tools),
        routine=("iterations", *(("toolset",) if WORKING <= {*config.tools} else ())),
        rules=Rules(allow=permissions.allow, ask=permissions.ask, deny=permissions.deny) if permissions else Rules(),
        mode=_mode(config, cwd, environ),
        limits=_limits(config),
        start=Start(resume=config.resume if config.asked("resume") else None),
        answers=config.asked("answers"),
        env=_provider(environ),
        extra={"grace": GRACE},
    )


def state_root(config: InitConfig) -> str | None:
    """The directory that an isolated worker keeps its state in. Raises what cannot be done."""
    runtime = config.runtime
    if runtime is None:
        return None
    for name in ("state_root", "transcript_path"):
        path = getattr(runtime, name)
        if path is not None and not os.path.isabs(path):
            raise ConfigError(f"runtime.{name} must be an absolute path")
    if runtime.transcript_path is not None:
        raise ConfigError("runtime.transcript_path cannot be chosen", hint="leave it out: the reply names it")
    if runtime.mode == "default":
        if runtime.state_root is not None:
            raise ConfigError("runtime.state_root is for the mode isolated", hint='add "mode": "isolated"')
        return None
    if runtime.state_root is None:
        raise ConfigError("runtime.state_root is missing: the mode isolated needs it")
    if runtime.inherit_ambient_config:
        raise ConfigError("an isolated runtime reads no settings but those in its state_root")
    return runtime.state_root


def _provider(environ: Mapping[str, str]) -> dict[str, str]:
    """The ecosystem's own name for a server that speaks its gateway's dialect, in our terms."""
    base, key = environ.get("HEDDLE_BASE_URL", "").strip(), environ.get("OPENROUTER_API_KEY", "")
    if not base:
        return {}
    return {"OPENROUTER_BASE_URL": base, **({"OPENROUTER_API_KEY": key} if key else {})}


def _model(config: InitConfig, environ: Mapping[str, str]) -> str | None:
    """With that gateway's address, every model is its model: errors then name it and the variable of its key."""
    model = config.model or environ.get("HEDDLE_MODEL") or None
    if model is None or not environ.get("HEDDLE_BASE_URL", "").strip() or model.partition(":")[0] in PREFIXES:
        return model
    return f"openrouter:{model}"


def _cwd(config: InitConfig) -> str:
    if config.cwd is None or not config.asked("cwd"):
        return here()
    if not os.path.isabs(config.cwd) or not os.path.isdir(config.cwd):
        raise ConfigError(f"config.cwd is {config.cwd!r}, which is not the absolute path of a directory")
    return config.cwd


def _mode(config: InitConfig, cwd: str, environ: Mapping[str, str]) -> Mode | None:
    if config.approval_mode is not None and config.asked("approval_mode"):
        return config.approval_mode
    given = environ.get("HEDDLE_APPROVAL_MODE", "").strip()
    for mode in get_args(Mode):
        if mode == given:
            found: Mode = mode
            return found
    if given:
        raise ConfigError(f"HEDDLE_APPROVAL_MODE is {given!r}", hint=f"the modes are {', '.join(get_args(Mode))}")
    return load(cwd, environ).settings.mode


def _limits(config: InitConfig) -> Limits:
    if config.max_iterations is not None and config.max_iterations < 1:
        raise ConfigError(f"config.max_iterations is {config.max_iterations}", hint="it must be at least 1")
    budget = config.budget if config.asked("budget") else None
    if budget is None:
        return Limits(max_iterations=config.max_iterations)
    return Limits(
        max_iterations=config.max_iterations,
        max_cost_usd=budget.max_cost_usd,
        max_tokens=budget.max_tokens,
        max_seconds=budget.max_seconds,
    )


CANCELLED = ErrorEnvelope(code="cancelled", message="cancelled", retryable=False)
FULL = ErrorEnvelope(code="busy", message="too many sends wait already; send this one again later", retryable=True)


def result(id: str, summary: TurnSummary, version: Version, ids: Mapping[str, Any]) -> SendResult:
    """The result of a send, from the totals of its turn. `ids`: session_id, task_id, worker_id."""
    calls = tuple(
        CallMade(use.started.name, use.started.args, use.started.call if version >= (0, 5) else None)
        for use in summary.tools
    )
    error: ErrorEnvelope | None = None
    if summary.outcome == "interrupted":
        error = CANCELLED
    elif summary.outcome != "completed":
        error = (
            envelope(summary.error)
            if summary.error
            else ErrorEnvelope(code="provider_error", message="the session ended without saying why", retryable=True)
        )
    return SendResult(
        id=id,
        status="error" if error else "ok",
        response=None if error else summary.text,
        tool_calls_made=calls,
        usage=_usage(summary, version),
        iterations=_answered(error, summary),
        error=error,
        failure=_failure(error, summary, calls, version) if error else None,
        model_latency_ms=summary.model_ms,
        tool_latency_ms=summary.tool_ms,
        total_latency_ms=summary.total_ms,
        **ids,
    )


def failed(id: str, error: ErrorEnvelope, version: Version, ids: Mapping[str, Any]) -> SendResult:
    """The result of a send that never ran."""
    return SendResult(
        id=id,
        status="error",
        tool_calls_made=(),
        iterations=0,
        error=error,
        failure=_failure(error, TurnSummary(), (), version),
        model_latency_ms=0,
        tool_latency_ms=0,
        total_latency_ms=0,
        **ids,
    )


def _usage(summary: TurnSummary, version: Version) -> ResultUsage | None:
    """What the service counted. A call without a count adds nothing: no guesses."""
    usage = summary.counted
    generation = summary.request_id if version >= (0, 3) else None
    return ResultUsage(**counts(usage, version), generation_id=generation) if usage.calls else None


def _answered(error: ErrorEnvelope | None, summary: TurnSummary) -> int:
    """Model calls that succeeded: the one that a send failed with did not."""
    return max(0, summary.iterations - (error is not None and error.code == "provider_error"))


def _failure(
    error: ErrorEnvelope, summary: TurnSummary, calls: tuple[CallMade, ...], version: Version
) -> Failure | None:
    if version < (0, 4):
        return None
    details = error.details if isinstance(error.details, dict) else {}
    return Failure(
        code=error.code,
        termination_reason=error.message,
        iterations=_answered(error, summary),
        tool_calls_made=len(calls),
        last_tool_name=calls[-1].name if calls else None,
        loop_count=details.get("loop_count"),
        loop_threshold=details.get("loop_threshold"),
        cancellation_source="user" if error.code == "cancelled" else None,
        last_tool=calls[-1] if calls and version >= (0, 5) else None,
    )
