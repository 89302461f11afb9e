"""`treadle host`: give orders to sidecars, and keep their receipts."""

import asyncio
import os
import signal
import sys
import time
from collections.abc import Sequence
from typing import Any

import click
import msgspec

from treadle.agents import AGENTS, declared, find_agent
from treadle.cli.as_json import json_option, show_json
from treadle.cli.options import NETWORK, confinement
from treadle.cli.render import one_line, printable
from treadle.drivers.sidecar.peer import Timing
from treadle.errors import Busy, Cancelled, ConfigError
from treadle.host import backends
from treadle.host import job as jobs
from treadle.host import order as workorder
from treadle.host.backends import Attempts, Known, Probe
from treadle.host.conclusion import recover as recover_runs
from treadle.host.event_file import RedactedEvents
from treadle.host.run import HostRun
from treadle.host.signing import load_signer
from treadle.host.store import ReceiptStore
from treadle.io.files import opened, write_atomic
from treadle.io.process.loop import hold_secrets, on_signals, run_async
from treadle.receipts.trace import ours
from treadle.redact import Redactor
from treadle.session import Agent
from treadle.wire.common.jsontext import repaired
from treadle.wire.sidecar import receipts
from treadle.wire.sidecar.connection import TYPES, PolicyProfile, WorkOrder, text
from treadle.wire.sidecar.receipts import Receipt
from treadle.wire.sidecar.receipts import encode as encode_receipt

# `treadle host schema`: what files of the contract must look like.


@click.command("schema")
@click.argument("name", type=click.Choice(list(TYPES)), required=False)
@click.option("--write", "directory", type=click.Path(file_okay=False), help="Write all schemas to DIRECTORY.")
def schema(name: str | None, directory: str | None) -> None:
    """Print the JSON Schema of one type of the protocol, or write all of them."""
    if (name is None) == (directory is None):
        raise click.UsageError("give NAME to print one, or --write DIRECTORY for all")
    if name is not None:
        click.echo(text(name), nl=False)
    if directory is not None:
        os.makedirs(directory, exist_ok=True)
        for each in TYPES:
            write_atomic(os.path.join(directory, f"{each}.schema.json"), text(each).encode(), mode=0o644)


# Prints runs, backends and receipts for people.

WIDTH = 160
COMPLETE, FAILED, PARTIAL = 0, 1, 3


def exit_code(receipt: receipts.Receipt) -> int:
    """As the receipt says, no matter who asks: the one who runs it, or one who watches."""
    place = ours(receipt).get("workspace") or {}
    applied = place.get("applied")
    not_applied = place.get("apply") and (applied is None or applied.get("conflicts"))
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


def _say(text: str) -> None:
    """Anyone can write a receipt: no part of it acts on the terminal or looks like a line of ours."""
    click.echo(one_line(text))


def show_receipt(receipt: receipts.Receipt, path: str | None = None) -> None:
    more = ours(receipt)
    _say(f"{receipt.outcome}  {receipt.meta.run_id}  {receipt.backend.id}  {receipt.meta.duration_ms / 1000:.1f} s")
    _show_order(more)
    for tried in more.get("earlier_attempts") or []:
        why = tried.get("message") or ""
        _say(f"  before: {tried['agent']} {tried['outcome']}: {why}"[:WIDTH])
    end = more.get("end") or {}
    if end.get("message"):
        _say(f"  {end.get('code')}: {end['message']}")
    if isinstance(reason := end.get("said"), dict):
        _say(f"  its own reason: {reason.get('message')}"[:WIDTH])
    _show_work(receipt, more)
    if more.get("claimed", True):
        _show_usage(receipt.usage)
    for line in more.get("differences") or []:
        _say(f"  claimed and observed differ: {line}")
    notes = more.get("notes") or []
    for note in notes[:5]:
        _say(f"  note: {note['where']}: {note['problem']}")
    if len(notes) > 5:
        _say(f"  and {len(notes) - 5} more notes")
    if path:
        _say(f"  receipt: {path}")


def _show_order(more: dict[str, Any]) -> None:
    asked, policy = more.get("order") or {}, more.get("policy") or {}
    if asked.get("task"):
        _say(f"  task: {asked['task']}"[:WIDTH])
    if any((policy.get("rules") or {}).values()):
        best = " (best effort)" if policy.get("best_effort") else ""
        _say(f"  policy: {_enforcement(policy)}{best}")


def _enforcement(policy: dict[str, Any]) -> str:
    how = {"kernel": "enforced by the kernel", "guard": "asked before each act", "observed": "judged by what was seen"}
    lists: dict[str, str] = policy.get("lists") or {}
    if len(set(lists.values())) < 2:
        return how.get(str(policy.get("enforced")), "not applied: it did not begin")
    parts = []
    for kind, words in how.items():
        names = [name for name, enforced in lists.items() if enforced == kind]
        parts += [f"{words}: {', '.join(names)}"] if names else []
    return "; ".join(parts)


def _show_artifacts(found: list[dict[str, Any]]) -> None:
    for one in found:
        if one.get("kept") is None:
            _say(f"  missing {one['kind']} {one['path']}: {one.get('problem')}")
        elif not os.path.exists(one["kept"]):
            _say(f"  missing {one['kind']} {one['path']}: {one['kept']} was discarded")
        else:
            _say(f"  {one['kind']}: {one['kept']} ({one.get('bytes')} bytes)")


def _show_usage(used: receipts.UsageTotals) -> None:
    tokens = [f"{name} {value}" for name, value in (("in", used.input_tokens), ("out", used.output_tokens)) if value]
    cost = f"{used.estimated_cost_usd:.4f} USD" if used.estimated_cost_usd is not None else "cost unknown"
    _say(f"  usage: {', '.join([*tokens, cost])} (as the sidecar says)")


def _show_check(check: dict[str, Any]) -> None:
    evidence = check.get("evidence") or {}
    word = evidence.get("word") or ("passed" if check["ok"] else "failed")
    _say(f"  verified: {check['command']!r} {word}")
    if evidence and check["exit_code"] == 0 and word != "passed":
        _say(f"    {evidence['why']}")
    if judge := evidence.get("judge"):
        _show_some([f"    changes what it is judged by: {path}" for path in judge], len(judge))


def _show_work(receipt: receipts.Receipt, more: dict[str, Any]) -> None:
    seen = more.get("observed") or {}
    status = (receipt.verification.git_status or "").splitlines()
    _show_some([f"  {line}" for line in status], len(status))
    if seen.get("patch_lines_redacted"):
        _say(f"  {seen['patch_lines_redacted']} lines of the patch look like secrets: only its file shows them")
    _show_unlisted(seen)
    check = seen.get("check")
    if check:
        _show_check(check)
    elif ending := seen.get("ending"):
        _say(f"  {ending['state']}: {ending['why']}")
    place = more.get("workspace") or {}
    applied = place.get("applied")
    if applied and applied.get("conflicts"):
        _say("  not applied, as these conflict:")
        for conflict in applied["conflicts"]:
            _say(f"    {conflict['path']}: {conflict['reason']}")
    elif applied:
        counts = f"{len(applied.get('written', ()))} written, {len(applied.get('deleted', ()))} deleted"
        trees = [str(applied.get(name) or "unknown")[:12] for name in ("before", "after")]
        _say(f"  applied to {place.get('source')}: {counts}, tree {trees[0]} before, {trees[1]} after")
    if place.get("result_commit"):
        _say(f"  branch {place.get('branch')}: {place['result_commit'][:12]}")
    if place.get("kept"):
        _say(f"  the work is in {place['kept']}")
    _show_oddities(seen.get("oddities") or [])
    if place:
        _show_confinement(more.get("confinement"), place)
    _show_artifacts(more.get("artifacts") or [])


def _show_some(lines: list[str], number: int) -> None:
    for line in lines[:20]:
        _say(line)
    if number > 20:
        _say(f"  and {number - 20} more")


def _show_unlisted(seen: dict[str, Any]) -> None:
    """What changed and is in no patch: ignored files, `.git`, permissions."""
    hidden = seen.get("hidden") or []
    lines = [f"  not in the patch: {path}" for path in hidden]
    _show_some(lines, len(hidden) + (seen.get("hidden_left_out") or 0))
    changed = seen.get("permissions") or []
    lines = [f"  permissions of {one['path']}: {one['before']}, now {one['after']}" for one in changed]
    _show_some(lines, len(changed) + (seen.get("permissions_left_out") or 0))


def _show_confinement(walls: dict[str, Any] | None, place: dict[str, Any]) -> None:
    sealed = "" if place.get("sealed") else "not sealed: "
    if walls is None:
        confined = f"by {place['confined_by']}" if place.get("confined_by") else "by nothing"
        _say(f"  {sealed}confined {confined}, in mode {place.get('mode')}")
        return
    covers = {"commands": "only the agent's commands", "agent": "the whole agent", "sidecar": "the whole sidecar"}
    reach = f"only to {', '.join(walls['hosts'])}" if walls.get("hosts") else "off"
    network = {"off": reach, "off for commands": f"of commands {reach}"}.get(walls["network"], walls["network"])
    what = covers.get(walls["covers"], walls["covers"])
    _say(f"  {sealed}confined by {walls['method']}: {what}, network {network}, mode {place.get('mode')}")
    if walls.get("cannot"):
        _say(f"  which cannot {', '.join(walls['cannot'])}")


def _show_oddities(found: list[dict[str, str]]) -> None:
    for one in found[:5]:
        _say(f"  odd: {one['path']}: {one['note']}")
    if len(found) > 5:
        _say(f"  and {len(found) - 5} more oddities")


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


CANCEL_SECONDS = 60.0

config_option = click.option(
    "--config",
    metavar="FILE",
    type=click.Path(exists=True, dir_okay=False),
    help="A backplane.toml. Default: the one in this directory, if trusted.",
)


@click.group()
def host() -> None:
    """Run an abp/v0.1 sidecar and get a verifiable receipt.

    \b
    treadle host run --task "fix the test" --sidecar "node host.js"
    treadle host run --task "fix the test" --agent native --apply --verify "make test"
    treadle receipt show latest
    """


host.add_command(schema)


@host.command("run")
@click.option("--task", required=True, metavar="TEXT", help="The task; @FILE reads it from a file.")
@click.option("--sidecar", metavar="CMD", help="Start this command as the sidecar.")
@click.option("--agent", metavar="NAME", help="Run one of Treadle's agents, such as native, in this process.")
@click.option(
    "--sandbox/--no-sandbox",
    default=None,
    help="Sandbox the agent and the check. Default: on where available.",
)
@click.option("--network", metavar="WHAT", help=NETWORK)
@click.option("--backend", metavar="NAME", help="A backend from backplane.toml or your settings.")
@config_option
@click.option(
    "--root",
    default=".",
    metavar="DIR",
    type=click.Path(exists=True, file_okay=False),
    help="The directory to work on. Default: the current one.",
)
@click.option(
    "--workspace-mode",
    type=click.Choice(["staged", "pass-through", "worktree"]),
    default="staged",
    show_default=True,
    help="A copy, the directory itself, or a separate checkout of the last commit.",
)
@click.option("--include", multiple=True, metavar="GLOB", help="Copy only these files. Repeatable.")
@click.option("--exclude", multiple=True, metavar="GLOB", help="Exclude these files. Overrides --include.")
@click.option(
    "--policy",
    multiple=True,
    metavar="FILE",
    type=click.Path(exists=True, dir_okay=False),
    help="Policy file (JSON or TOML).",
)
@click.option(
    "--best-effort-policy",
    is_flag=True,
    help="Also run an agent on which the policy cannot be enforced. The receipt records this.",
)
@click.option("--require", multiple=True, metavar="CAP[=LEVEL]", help="Require this capability: tool_bash=native.")
@click.option("--model", metavar="NAME", help="The model for the order.")
@click.option("--context", multiple=True, metavar="FILE", help="A file to read first.")
@click.option(
    "--env",
    multiple=True,
    metavar="NAME[=VALUE]",
    help="Set a variable for the sidecar; without a value, pass on the current one.",
)
@click.option("--param", multiple=True, metavar="KEY=VALUE", help="A vendor setting, such as abp.mode=passthrough.")
@click.option(
    "--lane",
    type=click.Choice(["patch-first", "workspace-first"]),
    default="patch-first",
    show_default=True,
    help="Return changes as one patch, or as the final workspace.",
)
@click.option("--max-turns", type=click.IntRange(1), metavar="N", help="Stop after N turns.")
@click.option("--max-budget-usd", type=click.FloatRange(0, min_open=True), metavar="X", help="Stop at this cost.")
@click.option("--timeout", type=click.FloatRange(0, min_open=True), metavar="S", help="Cancel after S seconds.")
@click.option(
    "--retry", type=click.IntRange(0), default=0, metavar="N", help="Retry up to N times after a crash or when stuck."
)
@click.option(
    "--fallback", multiple=True, metavar="BACKEND", help="Backend that takes over after a failure. Repeatable."
)
@click.option("--fresh", is_flag=True, help="Let the fallback start over from --root.")
@click.option(
    "--verify",
    metavar="CMD",
    help="Check the result with this command in a fresh directory. Default: the project's own check.",
)
@click.option("--no-verify", is_flag=True, help="Run no check.")
@click.option(
    "--may-change",
    multiple=True,
    metavar="GLOB",
    help="For --verify: tests and configuration that the agent may change ('tests/**'). Repeatable.",
)
@click.option("--setup", metavar="CMD", help="For --verify: setup command. Default: the project's, if you trust it.")
@click.option(
    "--bring",
    multiple=True,
    metavar="PATH",
    help="For --verify: also copy this from --root (node_modules). Repeatable. Default: all ignored files.",
)
@click.option("--apply", "apply_", is_flag=True, help="If complete, apply all changes to --root, or none.")
@click.option(
    "--anyway", is_flag=True, help="With --apply: also change files that control other programs (CI, AGENTS.md)."
)
@click.option("--keep", is_flag=True, help="Keep the workspace even if nothing changed.")
@click.option("--events", metavar="FILE", help="Write events to this file, one per line.")
@click.option("--out", metavar="FILE", help="Also write the receipt to this file.")
@click.option(
    "--strict-pong", is_flag=True, help="Treat a missed ping as stuck, even for sidecars that never answer pings."
)
@click.option(
    "--handshake-timeout",
    type=click.FloatRange(0, min_open=True),
    default=10.0,
    show_default=True,
    metavar="S",
    help="Timeout for hello, in seconds.",
)
@json_option
def run(**options: Any) -> None:
    """Run one order with a sidecar or an agent and wait for its receipt.

    The sidecar works in a copy of --root. Whatever it does (crash, hang, lie, break the protocol), the receipt records
    what it claimed and what was observed. Without --sidecar, --agent or --backend, a backend that meets --require is
    chosen.

    With --json, stdout has one line for the run, one for each event, and the receipt last.

    Exit code: 0 complete, 1 failed, 3 partial.
    """
    hold_secrets()
    sys.exit(run_async(_run(options)))


async def _run(options: dict[str, Any]) -> int:
    known = backends.find_backends(options["config"])
    for line in known.ignored:
        _warn(line)
    for name in ("events", "out"):
        _check_place(name, options[name])
    store = ReceiptStore(known.receipts_dir, load_signer())
    recovered = await asyncio.to_thread(recover_runs, store, _warn, again=False)
    for left in recovered.receipts:
        _warn(f"wrote the missing receipt of an earlier run: {left.meta.run_id}")
    policies = [workorder.read_policy(path) for path in (*known.policy_profiles, *options["policy"])]
    order = _order(options, workorder.merged(policies))
    confined = confinement(options["sandbox"], options["network"])
    if confined.use == "auto":
        confined = msgspec.structs.replace(confined, use="possible")
    backend = await _backend(options, known, order)
    mode = options["workspace_mode"].replace("-", "_")
    job = jobs.Job(
        order=order,
        backend=backend,
        mode=mode,
        timeout=options["timeout"],
        check=options["verify"],
        finds_check=not options["no_verify"],
        setup=options["setup"],
        may_change=options["may_change"],
        bring=options["bring"] or None,
        apply=options["apply_"],
        anyway=options["anyway"],
        keep_workspace=options["keep"],
        events_path=options["events"],
        out_path=options["out"],
        timing=Timing(handshake=options["handshake_timeout"], strict_pong=options["strict_pong"]),
        confinement=confined,
    )
    fallbacks = [_fallback(name, known) for name in options["fallback"]]
    quiet = options["as_json"]
    printing = PrintedEvents(Redactor.of_environment({**os.environ, **order.config.env}))

    def start(job: jobs.Job, earlier: Sequence[dict[str, Any]]) -> HostRun:
        printing.end()
        made = HostRun(job, store, listener=printing if quiet else show_events, earlier=earlier)
        if quiet:
            click.echo(msgspec.json.encode({"type": "run", "run_id": made.run_id, "agent": job.backend.name}))
        else:
            _warn(f"run {made.run_id} by {job.backend.name}")
        return made

    attempts = Attempts(job, start, retries=options["retry"], fallbacks=fallbacks, fresh=options["fresh"])
    receipt = await _interruptible(attempts)
    printing.end()
    work = attempts.run
    assert work is not None
    if quiet:
        click.echo(encode_receipt(receipt))
    else:
        show_receipt(receipt, store.path(receipt.meta.run_id))
    if work.not_copied is not None:
        _warn(f"{work.not_copied}; the receipt is {store.path(receipt.meta.run_id)}")
    return FAILED if work.not_copied is not None else exit_code(receipt)


def _fallback(name: str, known: backends.Known) -> jobs.Backend | Agent:
    if name in AGENTS or name not in known.backends and declared(name) is not None:
        return find_agent(name)
    return backends.named_backend(known, name)


def _warn(text: str) -> None:
    click.echo(f"treadle: {text}", err=True)


def _check_place(option: str, path: str | None) -> None:
    """Check that the file can be written, before the work rather than after it."""
    if path is not None and (os.path.isdir(path) or not os.path.isdir(os.path.dirname(os.path.abspath(path)))):
        why = "is a directory" if os.path.isdir(path) else "is in a directory that does not exist"
        raise ConfigError(f"--{option}: {path} {why}")


async def _interruptible(work: Attempts) -> Receipt:
    """The first signal cancels the run, which still ends with a receipt; the second does not wait for the sidecar."""
    stopping: set[asyncio.Task[None]] = set()

    def stop(signum: int) -> None:
        if stopping:
            work.kill()
        why = Cancelled(f"the control plane got {signal.Signals(signum).name}")
        stopping.add(asyncio.create_task(work.stop(why)))

    on_signals(stop)
    return await work.carry_out()


def _order(options: dict[str, Any], policy: PolicyProfile) -> WorkOrder:
    task = options["task"]
    if task.startswith("@"):
        try:
            with opened(task[1:]) as file:
                task = file.read().decode()
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"--task {task}: {error}") from error
    return workorder.make_order(
        task,
        options["root"],
        lane=options["lane"].replace("-", "_"),
        include=options["include"],
        exclude=options["exclude"],
        context=options["context"],
        policy=policy,
        require=options["require"],
        model=options["model"],
        env=dict(_variable(text) for text in options["env"]),
        vendor=_vendor(options["param"], best_effort=options["best_effort_policy"]),
        max_turns=options["max_turns"],
        max_budget_usd=options["max_budget_usd"],
    )


def _variable(text: str) -> tuple[str, str]:
    name, given, value = text.partition("=")
    if not given and name not in os.environ:
        raise ConfigError(f"--env {name}: there is no such variable here", hint=f"--env {name}=VALUE")
    return name, value if given else os.environ[name]


def _vendor(params: tuple[str, ...], *, best_effort: bool = False) -> dict[str, Any]:
    """`abp.mode=passthrough` as a nested table. A value that is JSON is parsed."""
    made: dict[str, Any] = {"abp": {"best_effort_policy": True}} if best_effort else {}
    for param in params:
        key, given, value = param.partition("=")
        if not given or not key:
            raise ConfigError(f"--param {param!r} is not KEY=VALUE")
        *outer, last = key.split(".") if "." in key else ("abp", key)
        place = made
        for name in outer:
            place = place.setdefault(name, {})
        try:
            place[last] = msgspec.json.decode(value)
        except msgspec.MsgspecError:
            place[last] = value
    return made


async def _backend(options: dict[str, Any], known: backends.Known, order: WorkOrder) -> jobs.Backend | Agent:
    named = [name for name in ("sidecar", "agent", "backend") if options[name]]
    if len(named) > 1:
        raise ConfigError(f"--{named[0]} and --{named[1]} both name a sidecar", hint="give one of them")
    if options["sidecar"]:
        return backends.command_backend(options["sidecar"])
    if options["agent"]:
        return find_agent(options["agent"])
    if options["backend"]:
        return backends.named_backend(known, options["backend"])
    return await backends.select(known, order.requirements)


@host.command("backends")
@config_option
@json_option
def list_backends(config: str | None, as_json: bool) -> None:
    """List the sidecars available to --backend."""
    known = backends.find_backends(config)
    if as_json:
        show_json(known)
    else:
        show_backends(known)


@host.command("probe")
@click.argument("names", nargs=-1, metavar="[BACKEND]...")
@click.option("--sidecar", metavar="CMD", help="Probe this command.")
@config_option
@json_option
def probe(names: tuple[str, ...], sidecar: str | None, config: str | None, as_json: bool) -> None:
    """Start each sidecar and show its capabilities. Exits with 1 if one does not respond."""
    sys.exit(run_async(_probe(names, sidecar, config, as_json)))


async def _probe(names: tuple[str, ...], sidecar: str | None, config: str | None, as_json: bool) -> int:
    known = backends.find_backends(config)
    chosen = [backends.named_backend(known, name) for name in names]
    if sidecar:
        chosen.append(backends.command_backend(sidecar))
    results = [await backends.probe(backend) for backend in chosen or known.backends.values()]
    if as_json:
        show_json(results)
    else:
        for result in results:
            show_probe(result)
    return 0 if all(result.ok for result in results) else 1


@host.command("ps")
@json_option
def ps(as_json: bool) -> None:
    """List running runs, and runs whose host died."""
    found = jobs.running()
    if as_json:
        show_json(found)
        return
    for run in found:
        age = f"{max(0, time.time() - run.started):.0f} s"
        head = f"{run.run_id}  {'running' if run.alive else 'left':7}  {age:>8}  {run.agent}"
        click.echo(printable(f"{head}  {one_line(run.task)}"[:WIDTH]))


@host.command("watch")
@click.argument("run_id", metavar="RUN")
@json_option
def watch(run_id: str, as_json: bool) -> None:
    """Show a run's output until it ends, then its receipt. RUN is an id, an id prefix, or `latest`.

    Exit code: that of the run itself, 0 complete, 1 failed, 3 partial.
    """
    found = jobs.find_running(run_id)
    printing = PrintedEvents(Redactor.of_environment(os.environ))
    for event in jobs.follow(found.run_id):
        if as_json:
            printing([event])
        else:
            show_events([event])
    printing.end()
    jobs.wait_for_end(found.run_id)
    sys.exit(exit_code(_show_end(found, as_json)))


@host.command("cancel")
@click.argument("run_id", metavar="RUN")
@click.option(
    "--reason",
    default="cancelled with treadle host cancel",
    metavar="TEXT",
    help="The reason to record in the receipt.",
)
@json_option
def cancel(run_id: str, reason: str, as_json: bool) -> None:
    """Stop a run and wait for its receipt. RUN is an id, an id prefix, or `latest`."""
    found = jobs.find_running(run_id)
    jobs.ask_to_stop(found.run_id, reason)
    if not jobs.wait_for_end(found.run_id, CANCEL_SECONDS):
        raise Busy(f"{found.run_id} did not end within {CANCEL_SECONDS:g} s", hint=f"its host is process {found.pid}")
    _show_end(found, as_json)


def _show_end(run: jobs.RunUnderWay, as_json: bool) -> Receipt:
    store = ReceiptStore(run.receipts)
    receipt = store.get(run.run_id)
    if as_json:
        click.echo(encode_receipt(receipt))
    else:
        show_receipt(receipt, store.path(run.run_id))
    return receipt


@host.command("recover")
@config_option
@json_option
def recover(config: str | None, as_json: bool) -> None:
    """Write the receipts of runs whose control plane was killed. `treadle host run` does this when it starts.

    Exits with 1 if a run cannot be finished, and prints why.
    """
    sys.exit(run_async(_recover(config, as_json)))


async def _recover(config: str | None, as_json: bool) -> int:
    store = ReceiptStore(backends.find_backends(config).receipts_dir, load_signer())
    done = await asyncio.to_thread(recover_runs, store, _warn)
    if as_json:
        show_json([receipt.meta.run_id for receipt in done.receipts])
    else:
        for receipt in done.receipts:
            click.echo(f"{receipt.meta.run_id}  {receipt.outcome}  {store.path(receipt.meta.run_id)}")
    return 1 if done.failed else 0
