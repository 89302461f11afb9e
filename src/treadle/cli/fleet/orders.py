"""`treadle fleet submit`, and orders from files."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from typing import Any

import click
import msgspec

from treadle.cli.as_json import json_option, show_json
from treadle.cli.fleet.common import LATE, exit_code, with_bus
from treadle.errors import ConfigError, TimedOut
from treadle.io.reading import read

KEYS = "the keys of an order are those of `treadle fleet submit --dry-run`"


@click.command("submit")
@click.argument("task", required=False)
@click.option("--file", "path", metavar="FILE", help="Orders in TOML ([[order]] tables) or JSON; - reads JSON lines.")
@click.option("--prompt-file", metavar="FILE", help="Read the task from a file.")
@click.option("--agent", default="native", show_default=True, metavar="NAME", help="Who does it; `null` does nothing.")
@click.option("--model", metavar="NAME", help="The model, as the agent names it.")
@click.option("--mode", metavar="MODE", help="What runs without a question: suggest, auto-edit (default), full-auto.")
@click.option("--root", default="", metavar="DIR", help="The directory or repository that it is about.")
@click.option("--repo", default="", metavar="URL", help="A repository that the node can fetch.")
@click.option("--base", default="", metavar="COMMIT", help="Where the work starts. Default: what --root is at now.")
@click.option("--bundle", is_flag=True, help="Send the repository along, for nodes on other machines.")
@click.option("--claims", multiple=True, metavar="GLOB", help="Files it has for itself; overlapping orders wait.")
@click.option("--symbol", "symbols", multiple=True, metavar="NAME", help="Tell it what this name stands for.")
@click.option("--policy", metavar="FILE", help="What it may do, as for `treadle host run`.")
@click.option("--rule", "rules", multiple=True, metavar="RULE", help="Answer beforehand: 'allow Bash(git *)'.")
@click.option("--max-seconds", type=float, metavar="S", help="End it after this time.")
@click.option("--max-turns", type=int, metavar="N", help="End it after this many model calls.")
@click.option("--max-tokens", type=int, metavar="N", help="End it after this many tokens.")
@click.option("--max-usd", type=float, metavar="USD", help="End it at this cost.")
@click.option("--verify", default="", metavar="CMD", help="Run in its worktree afterwards; done only if it passes.")
@click.option("--setup", default="", metavar="CMD", help="Run in the worktree before the agent starts.")
@click.option("--bring", multiple=True, metavar="PATH", help="Ignored files it gets: .env, node_modules.")
@click.option("--in-place", is_flag=True, help="Work in the directory itself, not in a worktree.")
@click.option("--terminal", is_flag=True, help="Keep the agent in a terminal, for `treadle fleet attach`.")
@click.option("--priority", default=5, show_default=True, metavar="0-9", help="9 goes first.")
@click.option("--label", "labels", multiple=True, metavar="L", help="Only on nodes with this label.")
@click.option("--project", default="", metavar="NAME", help="For budgets and filters.")
@click.option("--credential", default="", metavar="NAME", help="The account that its rate limits are counted on.")
@click.option("--after", multiple=True, metavar="ORDER", help="Start when that order is done.")
@click.option("--if-failed", type=click.Choice(["block", "skip", "run"]), default="block", help="When --after failed.")
@click.option("--not-before", metavar="WHEN", help="A time such as 2026-12-01T06:00, or +90m.")
@click.option("--every", metavar="SCHEDULE", help="Again and again: 6h, or '30 6 * * mon-fri'. Never two at once.")
@click.option("--time-zone", metavar="ZONE", help="For a cron --every: Europe/Berlin. Default: that of this machine.")
@click.option("--race", metavar="A,B", help="The same order for each of these agents; compare them afterwards.")
@click.option("--best-of", type=int, metavar="N", help="The same order N times; compare them afterwards.")
@click.option("--attempts", default=3, show_default=True, metavar="N", help="How often it is begun.")
@click.option("--answer-within", default="1h", show_default=True, metavar="TIME", help="How long a question may wait.")
@click.option("--stall-after", default="5m", show_default=True, metavar="TIME", help="Silence that is a stall.")
@click.option(
    "--on-stall",
    type=click.Choice(["notify", "interrupt", "retry", "cancel"]),
    default="notify",
    show_default=True,
    help="What then happens.",
)
@click.option(
    "--park", is_flag=False, flag_value="10s", metavar="TIME", help="Give the slot back while a question waits."
)
@click.option("--idempotency-key", default="", metavar="KEY", help="The same key gives the same order, for ever.")
@click.option("--wait", is_flag=True, help="Wait until it has ended; the exit code says how.")
@click.option("--timeout", type=float, metavar="S", help="With --wait: give up after this time (exit code 124).")
@click.option("--dry-run", is_flag=True, help="Show the order and submit nothing.")
@json_option
def submit(as_json: bool, wait: bool, timeout: float | None, dry_run: bool, **options: Any) -> None:
    """Give an order to the fleet. Returns when it is stored: from then on it is done or told why not.

    \b
    treadle fleet submit "mend the failing test" --root . --verify "make test" --claims 'src/**' --wait
    treadle fleet submit --file orders.toml
    printf '%s\\n' '{"task": "a"}' '{"task": "b"}' | treadle fleet submit --file -
    """
    from treadle.fleet import client
    from treadle.fleet.engine.bus import Bus

    specs = list(_specs(options))
    if dry_run:
        from treadle.fleet.orders import checked

        return show_json([checked(spec) for spec in specs])

    async def work(bus: Bus) -> tuple[list[Any], list[Any]]:
        ready = [await _with_names(bus, spec, options.get("bundle", False)) for spec in specs]
        given = await client.submit(bus, ready)
        if not as_json:
            for each in given:
                click.echo(each.id if each.new else f"{each.id}  (given before)")
        ended = [await client.wait(bus, each.id, timeout) for each in given] if wait else []
        return given, ended

    try:
        given, ended = with_bus(work)
    except TimedOut as error:
        click.echo(f"treadle: {error}", err=True)
        sys.exit(LATE)
    if as_json:
        show_json(ended if wait else given)
    elif wait:
        for order in ended:
            click.echo(f"{order.id}  {order.state}" + (f": {order.why}" if order.why else ""))
    sys.exit(max([exit_code(order.state) for order in ended], default=0))


async def _with_names(bus: Any, spec: Any, bundle: bool) -> Any:
    """Replace shortened ids with whole ones, and add the repository where it is to travel."""
    from treadle.fleet import bundles, client

    after = tuple([await client.resolve(bus, name) for name in spec.after])
    spec = msgspec.structs.replace(spec, after=after)
    return await bundles.send(bus, spec) if bundle else spec


def _specs(options: dict[str, Any]) -> Iterator[Any]:
    from treadle.fleet.orders import new_id

    if options["path"]:
        for table in _tables(options["path"]):
            yield _spec({**_defaults(options), **table})
        return
    if options["prompt_file"]:
        options["task"] = read(options["prompt_file"]).decode()
    if not options["task"]:
        raise ConfigError("there is no task", hint="treadle fleet submit TEXT, or --prompt-file FILE, or --file FILE")
    fields = {**_defaults(options), "task": options["task"]}
    agents = [name.strip() for name in (options["race"] or "").split(",") if name.strip()]
    agents = agents or [options["agent"]] * (options["best_of"] or 1)
    race = new_id() if len(agents) > 1 else ""
    for number, agent in enumerate(agents):
        key = options["idempotency_key"]
        yield _spec({**fields, "agent": agent, "race": race, "key": f"{key} {number}" if key and number else key})


def _defaults(options: dict[str, Any]) -> dict[str, Any]:
    """What the options say; an order in a file overrides it."""
    from treadle.cli.terminal import duration
    from treadle.host.order import read_policy

    limits = {name: options[f"max_{name}"] for name in ("seconds", "turns", "tokens", "usd")}
    policy = msgspec.to_builtins(read_policy(options["policy"])) if options["policy"] else {}
    plain = (
        "agent",
        "model",
        "mode",
        "root",
        "repo",
        "base",
        "claims",
        "symbols",
        "rules",
        "verify",
        "setup",
        "bring",
        "in_place",
        "terminal",
    )
    more = ("priority", "labels", "project", "credential", "after", "if_failed", "attempts", "on_stall")
    return {
        **{name: options[name] for name in (*plain, *more)},
        "limits": {name: value for name, value in limits.items() if value is not None},
        "policy": policy,
        "not_before": _when(options["not_before"]),
        **_schedule(options["every"] or "", options["time_zone"]),
        "answer_seconds": duration(options["answer_within"]),
        "stall_seconds": duration(options["stall_after"]),
        "park": duration(options["park"]) if options["park"] else None,
        "key": options["idempotency_key"],
    }


def _schedule(text: str, zone: str | None) -> dict[str, Any]:
    """An interval, or the five fields of a crontab line."""
    from treadle.cli.terminal import duration
    from treadle.fleet.schedules import local_zone

    if " " in text.strip():
        return {"cron": text.strip(), "zone": zone or local_zone()}
    return {"every": duration(text) if text else 0.0}


def _when(text: str | None) -> float:
    from datetime import datetime

    from treadle.cli.terminal import duration

    if not text:
        return 0.0
    if text.startswith("+"):
        return time.time() + duration(text[1:])
    try:
        return datetime.fromisoformat(text).timestamp()
    except ValueError:
        raise ConfigError(f"{text!r} is no time", hint="write 2026-12-01T06:00 or +90m") from None


def _spec(fields: dict[str, Any]) -> Any:
    from treadle.fleet.client import me
    from treadle.fleet.orders import Spec, new_id
    from treadle.fleet.run.sources import commit_of

    key = fields.pop("key", "") or ""
    root = os.path.abspath(os.path.expanduser(fields["root"])) if fields.get("root") else ""
    if root and not fields.get("base") and not fields.get("in_place"):
        fields["base"] = commit_of(root)
    fields |= {"root": root, "id": new_id(key), "created": time.time(), "by": me()}
    try:
        return msgspec.convert(fields, Spec, strict=False)
    except msgspec.ValidationError as error:
        raise ConfigError(f"this is not an order: {error}", hint=KEYS) from error


def _tables(path: str) -> list[dict[str, Any]]:
    from treadle.fleet.orders import Spec
    from treadle.host.order import read_tree

    if path == "-":
        try:
            found = [msgspec.json.decode(line) for line in sys.stdin.buffer if line.strip()]
        except msgspec.MsgspecError as error:
            raise ConfigError(f"a line is not JSON: {error}") from error
    else:
        tree = read_tree(path)
        found = tree.get("order", [tree]) if isinstance(tree, dict) else tree
    known = {*Spec.__struct_fields__, "key"}
    for table in found:
        if not isinstance(table, dict):
            raise ConfigError(f"{path}: an order is a table of keys, not {table!r}", hint=KEYS)
        if unknown := set(table) - known:
            raise ConfigError(f"{path}: an order has no {sorted(unknown)[0]!r}", hint=KEYS)
    return found


COMMANDS = (submit,)
