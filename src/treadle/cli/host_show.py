"""Prints runs, backends and receipts for people."""

import os
from collections.abc import Sequence
from typing import Any

import click
import msgspec

from treadle.cli.render import one_line, printable
from treadle.host.backends import Known, Probe
from treadle.host.event_file import RedactedEvents
from treadle.redact import Redactor
from treadle.wire.common.jsontext import repaired
from treadle.wire.sidecar import receipts

WIDTH = 160
COMPLETE, FAILED, PARTIAL = 0, 1, 3


def exit_code(receipt: receipts.Receipt) -> int:
    """As the receipt says, no matter who asks: the one who runs it, or one who watches."""
    more = receipt.usage_raw.get("treadle") if isinstance(receipt.usage_raw, dict) else None
    place = (more or {}).get("workspace") or {}
    applied = place.get("applied")
    not_applied = place.get("apply") and (applied is None or applied["conflicts"])
    if receipt.outcome == "failed" or (receipt.outcome == "complete" and not_applied):
        return FAILED
    return COMPLETE if receipt.outcome == "complete" else PARTIAL


def show_events(events: Sequence[receipts.AnyAgentEvent]) -> None:
    """Print events on stderr, so that stdout has only the result."""
    for event in events:
        line = _line(event)
        if line:
            click.echo(one_line(line)[:WIDTH], err=True)


def _line(event: receipts.AnyAgentEvent) -> str:
    match event:
        case receipts.AssistantSaid():
            return event.text
        case receipts.ToolCalled():
            return f"  > {event.tool_name} {event.input if event.input is not None else ''}"
        case receipts.ToolReturned() if event.is_error:
            return f"  x {event.tool_name}: {event.output}"
        case receipts.FileWritten():
            return f"  * {event.path}: {event.summary}"
        case receipts.CommandExecuted():
            return f"  $ {event.command} (exit code {event.exit_code})"
        case receipts.WarningGiven():
            return f"  ! {event.message}"
        case receipts.ErrorMet():
            return f"  error: {event.message}"
    return ""


def show_receipt(receipt: receipts.Receipt, path: str | None = None) -> None:
    more: dict[str, Any] = receipt.usage_raw.get("treadle", {}) if isinstance(receipt.usage_raw, dict) else {}
    click.echo(
        f"{receipt.outcome}  {receipt.meta.run_id}  {receipt.backend.id}  {receipt.meta.duration_ms / 1000:.1f} s"
    )
    _show_order(more)
    for tried in more.get("earlier_attempts") or []:
        why = tried.get("message") or ""
        click.echo(printable(f"  before: {tried['agent']} {tried['outcome']}: {one_line(why)}"[:WIDTH]))
    end = more.get("end") or {}
    if end.get("message"):
        click.echo(printable(f"  {end.get('code')}: {end['message']}"))
    if end.get("said"):
        click.echo(printable(f"  its own reason: {one_line(end['said']['message'])}"[:WIDTH]))
    _show_work(receipt, more)
    if more.get("claimed", True):
        _show_usage(receipt.usage)
    for line in more.get("differences") or []:
        click.echo(printable(f"  claim and fact differ: {line}"))
    notes = more.get("notes") or []
    for note in notes[:5]:
        click.echo(printable(f"  note: {note['where']}: {note['problem']}"))
    if len(notes) > 5:
        click.echo(f"  and {len(notes) - 5} more notes")
    if path:
        click.echo(f"  receipt: {path}")


def _show_order(more: dict[str, Any]) -> None:
    asked, policy = more.get("order") or {}, more.get("policy") or {}
    if asked.get("task"):
        click.echo(printable(f"  task: {one_line(asked['task'])}"[:WIDTH]))
    if any((policy.get("rules") or {}).values()):
        best = " (best effort)" if policy.get("best_effort") else ""
        click.echo(f"  policy: {_enforcement(policy)}{best}")


def _enforcement(policy: dict[str, Any]) -> str:
    how = {"kernel": "enforced by the kernel", "guard": "asked before each act", "observed": "judged by what was seen"}
    lists: dict[str, str] = policy.get("lists") or {}
    if len(set(lists.values())) < 2:
        return how.get(str(policy.get("enforced")), "not applied: it did not begin")
    parts = []
    for kind, text in how.items():
        names = [name for name, enforced in lists.items() if enforced == kind]
        parts += [f"{text}: {', '.join(names)}"] if names else []
    return "; ".join(parts)


def _show_artifacts(found: list[dict[str, Any]]) -> None:
    for one in found:
        if one.get("kept") is None:
            click.echo(printable(f"  missing {one['kind']} {one['path']}: {one['problem']}"))
        elif not os.path.exists(one["kept"]):
            click.echo(printable(f"  missing {one['kind']} {one['path']}: {one['kept']} was discarded"))
        else:
            click.echo(printable(f"  {one['kind']}: {one['kept']} ({one['bytes']} bytes)"))


def _show_usage(used: receipts.UsageTotals) -> None:
    tokens = [f"{name} {value}" for name, value in (("in", used.input_tokens), ("out", used.output_tokens)) if value]
    cost = f"{used.estimated_cost_usd:.4f} USD" if used.estimated_cost_usd is not None else "cost unknown"
    click.echo(f"  usage: {', '.join([*tokens, cost])} (as the sidecar says)")


def _show_work(receipt: receipts.Receipt, more: dict[str, Any]) -> None:
    seen = more.get("observed") or {}
    status = (receipt.verification.git_status or "").splitlines()
    _show_some([printable(f"  {line}") for line in status], len(status))
    if seen.get("patch_lines_redacted"):
        click.echo(f"  {seen['patch_lines_redacted']} lines of the patch look like secrets: only its file shows them")
    _show_unlisted(seen)
    check = seen.get("check")
    if check:
        click.echo(printable(f"  verified: {check['command']!r} {'passed' if check['ok'] else 'failed'}"))
    place = more.get("workspace") or {}
    applied = place.get("applied")
    if applied and applied["conflicts"]:
        click.echo("  not applied, as these conflict:")
        for conflict in applied["conflicts"]:
            click.echo(printable(f"    {conflict['path']}: {conflict['reason']}"))
    elif applied:
        counts = f"{len(applied['written'])} written, {len(applied['deleted'])} deleted"
        trees = [str(applied.get(name) or "unknown")[:12] for name in ("before", "after")]
        click.echo(f"  applied to {place['source']}: {counts}, tree {trees[0]} before, {trees[1]} after")
    if place.get("result_commit"):
        click.echo(f"  branch {place['branch']}: {place['result_commit'][:12]}")
    if place.get("kept"):
        click.echo(f"  the work is in {place['kept']}")
    _show_oddities(seen.get("oddities") or [])
    if place:
        _show_confinement(more.get("confinement"), place)
    _show_artifacts(more.get("artifacts") or [])


def _show_some(lines: list[str], number: int) -> None:
    for line in lines[:20]:
        click.echo(line)
    if number > 20:
        click.echo(f"  and {number - 20} more")


def _show_unlisted(seen: dict[str, Any]) -> None:
    """What changed and is in no patch: ignored files, `.git`, permissions."""
    hidden = seen.get("hidden") or []
    lines = [printable(f"  not in the patch: {path}") for path in hidden]
    _show_some(lines, len(hidden) + (seen.get("hidden_left_out") or 0))
    changed = seen.get("permissions") or []
    lines = [printable(f"  permissions of {one['path']}: {one['before']}, now {one['after']}") for one in changed]
    _show_some(lines, len(changed) + (seen.get("permissions_left_out") or 0))


def _show_confinement(walls: dict[str, Any] | None, place: dict[str, Any]) -> None:
    sealed = "" if place.get("sealed") else "not sealed: "
    if walls is None:
        confined = f"by {place['confined_by']}" if place.get("confined_by") else "by nothing"
        click.echo(f"  {sealed}confined {confined}, in mode {place['mode']}")
        return
    covers = {"commands": "only the agent's commands", "agent": "the whole agent", "sidecar": "the whole sidecar"}
    reach = f"only to {', '.join(walls['hosts'])}" if walls["hosts"] else "off"
    network = {"off": reach, "off for commands": f"of commands {reach}"}.get(walls["network"], walls["network"])
    what = covers.get(walls["covers"], walls["covers"])
    click.echo(printable(f"  {sealed}confined by {walls['method']}: {what}, network {network}, mode {place['mode']}"))
    if walls["cannot"]:
        click.echo(printable(f"  which cannot {', '.join(walls['cannot'])}"))


def _show_oddities(found: list[dict[str, str]]) -> None:
    for one in found[:5]:
        click.echo(printable(f"  odd: {one['path']}: {one['note']}"))
    if len(found) > 5:
        click.echo(f"  and {len(found) - 5} more that are odd")


def show_backends(known: Known) -> None:
    for name, backend in sorted(known.backends.items()):
        mark = "*" if name == known.default else " "
        click.echo(f"{mark} {name:20} {backend.source:12} {' '.join(backend.argv)}"[:WIDTH])
    for line in known.ignored:
        click.echo(f"  ignored: {line}", err=True)


def show_probe(result: Probe) -> None:
    if not result.ok:
        click.echo(printable(f"NO  {result.name}: {result.error}"))
        return
    identity = result.identity
    version = f" {identity.backend_version}" if identity and identity.backend_version else ""
    shown = f"{identity.id if identity else ''}{version}, {result.contract_version}, {result.milliseconds} ms"
    click.echo(printable(f"ok  {result.name}: {shown}"))
    for capability, level in result.capabilities.items():
        shown = level if isinstance(level, str) else f"restricted: {level.restricted.reason}"
        click.echo(printable(f"      {capability:32} {shown}"))
    for note in result.notes:
        click.echo(printable(f"      note: {note}"))


class PrintedEvents:
    """Prints events as JSON lines, without secrets."""

    def __init__(self, redactor: Redactor) -> None:
        self._redacted = RedactedEvents(redactor)

    def __call__(self, events: Sequence[receipts.AnyAgentEvent]) -> None:
        for event in events:
            for clean in self._redacted.clean(repaired(msgspec.to_builtins(event))):
                click.echo(msgspec.json.encode(clean))

    def end(self) -> None:
        for clean in self._redacted.rest():
            click.echo(msgspec.json.encode(clean))
