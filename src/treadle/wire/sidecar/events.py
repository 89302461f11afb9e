"""The sidecar protocol's ten events, converted from and to our own."""

from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import UNSET

from treadle import events as ours
from treadle.session import Access
from treadle.wire.common.jsontext import amount, repaired
from treadle.wire.sidecar import receipts

PREVIEW = 2000

CODES: dict[str, receipts.ErrorCode] = {
    "invalid_json": "protocol_invalid_envelope",
    "line_too_long": "protocol_invalid_envelope",
    "protocol_violation": "protocol_unexpected_message",
    "protocol_error": "protocol_unexpected_message",
    "protocol_version_mismatch": "protocol_version_mismatch",
    "peer_exited": "backend_crashed",
    "peer_closed": "stream_closed",
    "peer_stalled": "backend_timeout",
    "timeout": "backend_timeout",
    "not_found": "sidecar_spawn_failed",
    "permission_denied": "policy_denied",
    "policy_not_enforceable": "policy_invalid",
    "config_error": "config_invalid",
    "missing_extra": "config_invalid",
    "workspace_error": "workspace_staging_failed",
    "storage_error": "execution_workspace_error",
    "disk_full": "execution_workspace_error",
    "unsupported": "capability_unsupported",
    "local_error": "internal",
    "rate_limited": "backend_rate_limited",
    "auth_failed": "backend_auth_failed",
    "context_overflow": "backend_context_length",
    "provider_error": "backend_unavailable",
    "empty_reply": "backend_unavailable",
    "tool_error": "execution_tool_failed",
    "internal_error": "internal",
}
"""Our error codes and the contract's. It has none for a limit that was reached or for a requested stop."""


def contract_code(code: str, details: Any = None) -> receipts.ErrorCode | None:
    """The contract's code for one of ours; if a peer sent its own code, that one is used."""
    own = details.get("error_code") if isinstance(details, dict) else None
    for known in receipts.ERROR_CODES:
        if known == own:
            return known
    return CODES.get(code)


class SidecarOutgoing:
    """Our events as the contract's. What it has no type for (thinking, usage, tasks) is left out or put into `ext`."""

    def __init__(self, root: str, *, passthrough: bool = False) -> None:
        self._root = root.rstrip("/") + "/"
        self._passthrough = passthrough
        self._usage: dict[str, Any] | None = None
        """Totals that have changed since they were last sent."""

    def spent(self, usage: dict[str, Any]) -> None:
        """Send these totals with the next event that is not a text delta."""
        self._usage = usage

    def translate(self, event: ours.AnyEvent) -> list[receipts.AnyAgentEvent]:
        made = self._made(event, receipts.timestamp(event.ts))
        if made and self._passthrough:
            raw = event.raw if event.raw is not None else event
            made = [_with(made[0], "raw_message", receipts.plain(msgspec.to_builtins(raw, str_keys=True))), *made[1:]]
        if made and self._usage is not None and not isinstance(event, ours.TextDelta):
            made = [*made[:-1], _with(made[-1], "usage", self._usage)]
            self._usage = None
        return made

    def _made(self, event: ours.AnyEvent, ts: str) -> list[receipts.AnyAgentEvent]:
        match event:
            case ours.TextDelta() if event.parent is None:
                return [receipts.AssistantDelta(ts=ts, text=repaired(event.text))]
            case ours.Message(kind="text") if event.parent is None:
                return [receipts.AssistantSaid(ts=ts, text=repaired(event.text))]
            case ours.TurnStarted():
                return [receipts.RunStarted(ts=ts, message="started")]
            case ours.TurnEnded():
                return [receipts.RunCompleted(ts=ts, message=event.outcome)]
            case ours.ToolStarted():
                return [
                    receipts.ToolCalled(
                        ts=ts,
                        tool_name=event.name,
                        input=receipts.plain(event.args),
                        tool_use_id=event.call,
                        parent_tool_use_id=event.parent,
                    )
                ]
            case ours.ToolEnded():
                return [
                    receipts.ToolReturned(
                        ts=ts,
                        tool_name=event.name,
                        output=repaired(event.result),
                        is_error=not event.ok,
                        tool_use_id=event.call,
                    )
                ]
            case ours.ToolDenied():
                return _denied(event, ts)
            case ours.FileChanged():
                return [
                    receipts.FileWritten(
                        ts=ts, path=repaired(event.path.removeprefix(self._root)), summary=event.change
                    )
                ]
            case ours.CommandRun():
                return [
                    receipts.CommandExecuted(
                        ts=ts,
                        command=repaired(event.command),
                        exit_code=event.exit_code,
                        output_preview=repaired(event.output[:PREVIEW]),
                    )
                ]
            case ours.Warned():
                return [receipts.WarningGiven(ts=ts, message=repaired(event.message))]
            case ours.Retrying():
                return [
                    receipts.WarningGiven(
                        ts=ts, message=f"trying again ({event.attempt}): {repaired(event.error.message)}"
                    )
                ]
            case ours.Failed():
                return [error_event(event.error, ts)]
        return []


def error_event(error: ours.ErrorInfo, ts: str) -> receipts.ErrorMet:
    code = contract_code(error.code, error.details)
    return receipts.ErrorMet(ts=ts, message=repaired(error.message), error_code=UNSET if code is None else code)


def _denied(event: ours.ToolDenied, ts: str) -> list[receipts.AnyAgentEvent]:
    """The contract has no event for a call that was refused, so send a warning and a result that says so."""
    reason = repaired(event.reason)
    return [
        receipts.WarningGiven(ts=ts, message=f"{event.name} was denied: {reason}"),
        receipts.ToolReturned(
            ts=ts,
            tool_name=event.name,
            output={"denied": True, "reason": reason},
            is_error=True,
            tool_use_id=event.call,
        ),
    ]


def _with(event: receipts.AnyAgentEvent, name: str, value: Any) -> receipts.AnyAgentEvent:
    return msgspec.structs.replace(event, ext={**({} if event.ext is UNSET else event.ext), name: value})


class SidecarIncoming:
    """The contract's events as ours. `access` guesses what a tool touches, because we do not know its tools."""

    def __init__(self, access: Callable[[str, Any], Access]) -> None:
        self._access = access
        self._calls: dict[str, str] = {}
        self._made = 0

    def translate(self, event: receipts.AnyAgentEvent) -> list[ours.Event]:
        raw = event.ext.get("raw_message") if event.ext is not UNSET else None
        match event:
            case receipts.AssistantDelta():
                return [ours.TextDelta(text=event.text, raw=raw)]
            case receipts.AssistantSaid():
                return [ours.Message(text=event.text, raw=raw), *_usage(event.ext)]
            case receipts.ToolCalled():
                return [self._started(event, raw), *_usage(event.ext)]
            case receipts.ToolReturned():
                return [self._ended(event, raw)]
            case receipts.FileWritten():
                return [ours.FileChanged(path=event.path, change=_change(event.summary), raw=raw)]
            case receipts.CommandExecuted():
                return [
                    ours.CommandRun(
                        command=event.command, exit_code=event.exit_code, output=event.output_preview or "", raw=raw
                    )
                ]
            case receipts.WarningGiven():
                return _usage(event.ext) or [ours.Warned(message=event.message, raw=raw)]
            case receipts.ErrorMet():
                code = "remote_error" if event.error_code is UNSET else event.error_code
                return [ours.Failed(error=ours.ErrorInfo(code=code, message=event.message), raw=raw)]
        return []

    def _call(self, id: str | None, name: str, *, new: bool) -> str:
        """The sidecar's own id of the call, or one that we make: calls without ids are answered in order, by name."""
        if id is not None:
            return id
        if new or name not in self._calls:
            self._made += 1
            self._calls[name] = f"call_{self._made}"
        return self._calls[name]

    def _started(self, event: receipts.ToolCalled, raw: Any) -> ours.Event:
        touched = self._access(event.tool_name, event.input)
        return ours.ToolStarted(
            call=self._call(event.tool_use_id, event.tool_name, new=True),
            name=event.tool_name,
            args=event.input,
            kind=touched.kind,
            paths=touched.paths,
            command=touched.command,
            parent=event.parent_tool_use_id,
            raw=raw,
        )

    def _ended(self, event: receipts.ToolReturned, raw: Any) -> ours.Event:
        call = self._call(event.tool_use_id, event.tool_name, new=False)
        output = event.output
        if isinstance(output, dict) and output.get("denied") is True:
            return ours.ToolDenied(call=call, name=event.tool_name, reason=str(output.get("reason", "")), raw=raw)
        text = output if isinstance(output, str) else msgspec.json.encode(output).decode()
        return ours.ToolEnded(call=call, name=event.tool_name, result=text, ok=not event.is_error, raw=raw)


def _change(summary: str) -> Any:
    word = summary.split()[0].lower() if summary.split() else ""
    kinds = {"added": "added", "created": "added", "add": "added", "new": "added", "deleted": "deleted"}
    return kinds.get(word, "deleted" if word in ("removed", "delete") else "modified")


def _usage(ext: Any) -> list[ours.Event]:
    """A usage event, which the contract lacks but some sidecars send. Totals in `ext.usage` are not added up."""
    event = ext.get("unknown_event") if ext is not UNSET else None
    if not isinstance(event, dict) or event.get("type") != "usage":
        return []
    counts: dict[str, Any] = {
        name: value
        for name in ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens")
        if type(value := event.get(name)) is int and value >= 0
    }
    return [ours.Usage(**counts, cost_usd=amount(event.get("estimated_cost_usd")))]
