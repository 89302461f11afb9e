"""`treadle fleet submit` and `watch`, which make orders; `ls`, `show`, `logs`, `explain` and `wait` look at them."""

from __future__ import annotations

import asyncio
import os
import re
import secrets
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from typing import Any

import click
import msgspec

from treadle.cli.as_json import json_option, show_json
from treadle.cli.fleet import common
from treadle.cli.fleet.common import table
from treadle.cli.render import colourful, one_line, printable
from treadle.cli.terminal import duration
from treadle.errors import ConfigError, TimedOut
from treadle.events import AnyEvent
from treadle.fleet import client, submission
from treadle.fleet.engine.bus import Bus
from treadle.fleet.orders import NULL, local_zone, read_order
from treadle.fleet.submission import completed
from treadle.host.order import read_policy, read_tree
from treadle.io.files import read
from treadle.io.tasks import end_tasks
from treadle.wire.fleet.orders import HERE, OrderRequest, Reads, declared
from treadle.wire.fleet.records import WatchRecord
from treadle.workspace import checkouts


def order_options(command: Callable[..., Any], without: tuple[str, ...] = ()) -> Callable[..., Any]:
    """An option for each field that the declaration of an order gives one, `without` some."""
    for field in reversed([field for field in declared() if field.option and field.name not in without]):
        settings: dict[str, Any] = {"help": field.meaning, "metavar": field.metavar or None}
        if field.choices:
            settings |= {"type": click.Choice(field.choices), "metavar": None}
        elif field.type is bool:
            settings = {"help": field.meaning, "is_flag": True}
        elif field.number is not None and not field.reads:
            settings["type"] = field.number
        if field.many:
            settings["multiple"] = True
        elif field.name == "park":
            settings |= {"is_flag": False, "flag_value": "10s"}
        elif field.name == "land":
            settings |= {"is_flag": False, "flag_value": HERE}
        if field.default and not field.many and isinstance(field.default, str | int):
            settings["help"] += f"  [default: {field.default}]"
        elif field.default and field.reads == "duration":
            shown = f"{field.default / 60:g}m" if field.default >= 60 else f"{field.default:g}s"
            settings["help"] += f"  [default: {shown}]"
        command = click.option(field.option, field.path.replace(".", "_"), **settings)(command)
    return command


@click.command("submit")
@click.argument("task", required=False)
@click.option(
    "--file", "path", metavar="FILE", help="Read orders from TOML ([[order]] tables) or JSON; - reads JSON lines."
)
@click.option("--prompt-file", metavar="FILE", help="Read the task from a file.")
@order_options
@click.option("--bundle", is_flag=True, help="Send the repository with the order, for nodes on other machines.")
@click.option(
    "--race", "racing", metavar="A,B", help="Submit the order once for each of these agents, to compare them."
)
@click.option("--best-of", type=int, metavar="N", help="Submit the order N times, to compare the results.")
@click.option("--wait", is_flag=True, help="Wait until the order has ended. The exit code shows the result.")
@click.option("--timeout", type=float, metavar="S", help="With --wait: give up after this time (exit code 124).")
@click.option("--dry-run", is_flag=True, help="Show the order without submitting it.")
@json_option
def submit(as_json: bool, wait: bool, timeout: float | None, dry_run: bool, bundle: bool, **options: Any) -> None:
    """Submit an order, one task for an agent, to the fleet. Returns once it is stored.

    Default for --root: the current git checkout.

    \b
    treadle fleet submit "fix the failing test" --verify "make test" --claims 'src/**' --wait
    treadle fleet submit --file orders.toml
    printf '%s\\n' '{"task": "a"}' '{"task": "b"}' | treadle fleet submit --file -
    """
    specs = [submission.made(request, by=client.me()) for request in _requests(options)]
    if dry_run:
        return show_json(specs)

    async def work(bus: Bus) -> tuple[list[Any], list[Any]]:
        ready = [await _with_names(bus, spec, bundle) for spec in specs]
        given = await client.submit(bus, ready)
        if not as_json:
            for each in given:
                click.echo(each.id if each.new else f"{each.id}  (given before)")
        waits = [client.wait(bus, each.id, timeout, common.tell_asking) for each in given] if wait else []
        ended = await asyncio.gather(*waits)
        return given, list(ended)

    try:
        given, ended = common.with_bus(work)
    except TimedOut as error:
        click.echo(f"treadle: {error}", err=True)
        sys.exit(common.LATE)
    if as_json:
        show_json(ended if wait else given)
    elif wait:
        for order in ended:
            click.echo(f"{order.id}  {order.state}" + (f": {order.why}" if order.why else ""))
    sys.exit(max([common.exit_code(order.state) for order in ended], default=0))


async def _with_names(bus: Any, spec: Any, bundle: bool) -> Any:
    """Replace shortened ids with whole ones, and add the repository where it is to travel."""
    after = tuple([await client.resolve(bus, name) for name in spec.after])
    spec = msgspec.structs.replace(spec, after=after)
    return await submission.send(bus, spec) if bundle else spec


NOT_WATCHED = ("labels", "every", "not_before", "key", "after", "if_failed", "base", "repo", "zone", "title")
"""Fields that are about one order alone, or whose option has another meaning here."""


def watch_options(command: Callable[..., Any]) -> Callable[..., Any]:
    return order_options(command, NOT_WATCHED)


@click.command("watch")
@click.argument("source", required=False, metavar="FORGE:OWNER/REPO")
@click.option("--label", default="agent", show_default=True, metavar="L", help="Watch issues with this label.")
@click.option("--poll", default="60s", show_default=True, metavar="TIME", help="Polling interval.")
@click.option(
    "--token",
    default="",
    metavar="VARIABLE",
    help="The environment variable with the token. Default: the forge's usual one.",
)
@click.option("--stop", is_flag=True, help="Stop watching. Running orders continue.")
@watch_options
@json_option
def watch(source: str | None, label: str, poll: str, token: str, stop: bool, as_json: bool, **options: Any) -> None:
    """Submit an order for every issue with a label. Without FORGE:OWNER/REPO, list the watched repositories.

    The agent gets the issue's text marked as untrusted; these options set its permissions. Comments by people with
    write access are answers (`allow`, `deny`) or messages to the agent. If an issue is edited, you are asked. When the
    work lands, the issue is closed with the commit.

    \b
    export GITHUB_TOKEN=...                            also before `treadle fleet up`, because the node polls the forge
    treadle fleet watch github:acme/shop --label agent --land main --verify "make test"
    """
    from treadle.landing import watching

    if source is None:
        found = common.with_bus(watching.watches)
        return show_json([record for record, _ in found.values()]) if as_json else _show_watches(found)
    if stop:
        return common.with_bus(lambda bus: watching.end(bus, source, label))
    order = _in_a_checkout(_given(options), always=True)
    if not order.get("root"):
        raise ConfigError("this directory is not in a git repository", hint="name it: --root DIR")
    order["root"] = os.path.abspath(os.path.expanduser(order["root"]))
    record = WatchRecord(source=source, label=label, token=token, order=order, every=duration(poll), by=client.me())
    name = common.with_bus(lambda bus: watching.begin(bus, record))
    show_json({"watch": name, "source": source, "label": label}) if as_json else click.echo(name)


def _show_watches(found: dict[str, tuple[Any, int]]) -> None:
    from treadle.fleet.engine.controller import delay_words

    if not found:
        return click.echo("Nothing is watched.", err=True)
    rows = [["FORGE", "LABEL", "OPEN", "CLOSED", "STATE"]]
    for record, _ in found.values():
        over = sum(each.over for each in record.issues.values())
        state = f"stopped: {record.stopped.what}" if record.stopped else "watched"
        state = f"delayed: {delay_words(record.delay)}" if record.delay and not record.stopped else state
        rows.append([record.source, record.label, str(len(record.issues) - over), str(over), state])
    table(rows)


def _requests(options: dict[str, Any]) -> Iterator[OrderRequest]:
    def tell(text: str) -> None:
        click.echo(f"treadle: {text}", err=True)

    given = _given(options)
    if options["path"]:
        for where, table in _tables(options["path"]):
            yield completed({**given, **table} if isinstance(table, dict) else table, where, tell)
        return
    if options["prompt_file"]:
        options["task"] = read(options["prompt_file"]).decode()
    if not options["task"]:
        taken = "--land takes what follows as its branch: write it after TEXT" if " " in given.get("land", "") else ""
        hint = "treadle fleet submit TEXT, or --prompt-file FILE, or --file FILE"
        raise ConfigError("there is no task", hint=taken or hint)
    request = completed(_in_a_checkout({**given, "task": options["task"]}), "the options", tell)
    agents = [name.strip() for name in (options["racing"] or "").split(",") if name.strip()]
    agents = agents or [request.agent] * (options["best_of"] or 1)
    race = secrets.token_hex(6) if len(agents) > 1 else ""
    for number, agent in enumerate(agents):
        key = f"{request.key} {number}" if request.key and number else request.key
        yield msgspec.structs.replace(request, agent=agent, race=race, key=key)


def _in_a_checkout(given: dict[str, Any], *, always: bool = False) -> dict[str, Any]:
    """The order with the checkout that the person is in, if it names no place itself, and has an agent that works
    there, or `always`. Prints which one."""
    works = always or str(given.get("agent", "")).partition(":")[0] != NULL
    if given.get("root") or given.get("repo") or not works:
        return given
    found = checkouts.find(os.getcwd())
    if found is None:
        return given
    click.echo(f"in {found.top}, the checkout that you are in (--root DIR: another)", err=True)
    return {**given, "root": found.top}


def _given(options: dict[str, Any]) -> dict[str, Any]:
    """What the options say, as the fields of an order; an order in a file overrides it."""
    reading: dict[Reads, Callable[[Any], Any]] = {
        "duration": duration,
        "when": _when,
        "names": lambda texts: [name.strip() for text in texts for name in text.split(",") if name.strip()],
        "policy": lambda path: msgspec.to_builtins(read_policy(path)),
    }
    found: dict[str, Any] = {}
    for field in declared():
        value = options.get(field.path.replace(".", "_"))
        if not field.option or value in (None, (), False):
            continue
        if field.reads == "schedule":
            found |= _schedule(value)
            continue
        value = reading[field.reads](value) if field.reads else list(value) if field.many else value
        (found.setdefault(field.inside, {}) if field.inside else found)[field.name] = value
    if "cron" in found:
        found.setdefault("zone", local_zone())
    return found


def _schedule(text: str) -> dict[str, Any]:
    """An interval, or the five fields of a crontab line."""
    return {"cron": text.strip()} if " " in text.strip() else {"every": duration(text)}


def _when(text: str) -> float:
    if text.startswith("+"):
        return time.time() + duration(text[1:])
    try:
        return datetime.fromisoformat(text).timestamp()
    except ValueError:
        raise ConfigError(f"{text!r} is not a time", hint="write 2026-12-01T06:00 or +90m") from None


def _tables(path: str) -> Iterator[tuple[str, Any]]:
    """Each order of a file or of standard input as it is written there, with its place."""
    if path == "-":
        for number, line in enumerate(sys.stdin.buffer, 1):
            if line.strip():
                try:
                    yield f"line {number}", msgspec.json.decode(line)
                except msgspec.MsgspecError as error:
                    raise ConfigError(f"line {number} is not JSON: {error}") from error
        return
    tree = read_tree(path)
    if isinstance(tree, dict) and "order" in tree:
        if beside := sorted(set(tree) - {"order"}):
            hint = "write it into each of them, or give it as an option"
            raise ConfigError(f"{path}: `{beside[0]}` is outside of the orders - at `$.{beside[0]}`", hint=hint)
        tree = tree["order"]
    if not isinstance(tree, list):
        yield path, tree
        return
    lines = _headers(path) if path.endswith(".toml") else []
    for number, each in enumerate(tree):
        line = f":{lines[number]}" if len(lines) == len(tree) else ""
        yield f"{path}{line}: order {number + 1}", each


def _headers(path: str) -> list[int]:
    """The lines on which the orders of a TOML file begin."""
    lines = read(path).decode().splitlines()
    return [number for number, line in enumerate(lines, 1) if re.match(r"\s*\[\[\s*order\s*\]\]", line)]


# `treadle fleet ls`, `show`, `logs`, `explain`, `wait`: looking at orders.


@click.command("ls")
@click.option("-n", "--count", default=50, show_default=True, help="Maximum number of results.")
@click.option("--state", "states", multiple=True, metavar="S", help="queued, placed, running, asking, done, failed...")
@click.option("--agent", default="", metavar="NAME", help="Only orders of this agent.")
@click.option("--label", default="", metavar="L", help="Only orders with this label.")
@click.option("--project", default="", metavar="NAME", help="Only orders of this project.")
@click.option("--active", is_flag=True, help="Only orders that have not ended.")
@click.option("--helpers", is_flag=True, help="Also list the orders that trains create for checks and fixes.")
@click.option("--watch", is_flag=True, help="Keep running and print a line for each change.")
@json_option
def ls(as_json: bool, watch: bool, helpers: bool, **options: Any) -> None:
    """List orders, the last changed first. An order has one row from submission until it lands."""
    from treadle.landing.views import all_changes

    async def work(bus: Bus) -> list[Any]:
        start = await bus.last_revision() + 1 if watch else 0
        found = await client.list_orders(bus, helpers=helpers, **options)
        on_its_way.update(await all_changes(bus))
        if not watch:
            return [order for order, _ in found]
        fits = client.fitting(**{name: options[name] for name in ("states", "agent", "label", "project")})
        oldest_first = [order for order, _ in reversed(found)]
        if not as_json:
            _table(oldest_first, on_its_way)
        for order in oldest_first if as_json else ():
            click.echo(msgspec.json.encode(order))
        sys.stdout.flush()
        async for entry in client.changes(bus, start=start):
            order = read_order(entry)
            if not fits(order) or order.helps and not helpers:
                continue
            if as_json:
                click.echo(msgspec.json.encode(order))
            else:
                click.echo(f"{time.strftime('%H:%M:%S')}  {order.id}  {order.state:9}  {one_line(order.title)}")
            sys.stdout.flush()
        return []

    on_its_way: dict[str, Any] = {}
    orders = common.with_bus(work)
    if as_json:
        from treadle.landing.views import standing_of

        stands = [standing_of(order, on_its_way)[0] for order in orders]
        show_json(
            [{**msgspec.to_builtins(order), "standing": state} for order, state in zip(orders, stands, strict=True)]
        )
    else:
        _table(orders, on_its_way)


def _table(orders: list[Any], on_its_way: Mapping[str, Any]) -> None:
    from treadle.landing.views import standing_of

    if not orders:
        click.echo("There are no such orders.", err=True)
        return
    rows = [["ORDER", "STATE", "AGE", "AGENT", "NODE", "TRY", "USED", "TITLE"]]
    for order in orders:
        state, why = standing_of(order, on_its_way)
        state += "!" if state == "asking" else ""
        place = [order.id, state, common.age(order.changed), order.agent[:20], order.node or "-", str(order.attempt)]
        rows.append([*place, common.money(order.used), order.title[:70]])
        if why and state not in ("done", "running"):
            rows[-1][-1] += f"  ({one_line(why)[:200]})"
    table(rows)


def _show_order(found: dict[str, Any]) -> None:
    spec, order = found["spec"], found["order"]
    click.echo(f"{order['id']}  {order['state']}" + (f": {order['why']}" if order.get("why") else ""))
    click.echo(f"task      {printable(spec['task'])}")
    for name_ in ("agent", "model", "root", "base", "claims", "verify", "labels", "after"):
        if spec.get(name_):
            value = spec[name_]
            click.echo(f"{name_:9} {', '.join(value) if isinstance(value, list | tuple) else value}")
    for attempt in order.get("attempts", ()):
        click.echo(f"attempt   {_attempt(attempt)}")
        for line in attempt.get("output", "").strip().splitlines()[-SHOWN_LINES:]:
            click.echo(f"          | {printable(line)}")
    for note in order.get("notes", ()):
        at = time.strftime("%H:%M:%S", time.localtime(note["at"]))
        click.echo(f"note      {at} {note['by']}: {one_line(note['what'])}")
    for message in found["messages"]:
        click.echo(f"message   [{message['state']}] {message['by']}: {one_line(message['text'])}")
    for key, value in order.get("result", {}).items():
        if value not in (None, "", []) and key != "capsule" and value != spec.get(key):
            click.echo(f"{key:9} {one_line(_plain(value))[:300]}")
    if found["receipt"]:
        for given in found["receipt"].get("approvals", ()):
            click.echo(f"answered  {given['decision']} by {given['by']}: {one_line(given['text'])[:100]}")
        click.echo(f"receipt   sha256 {found['receipt']['sha256']}")
    waits = (found.get("why") or {}).get("waits")
    if waits:
        click.echo(f"waits     {waits['text']}")


@common.fleet_command("show", _show_order, of=client.resolve)
async def show(bus: Any, order: str) -> Any:
    """Show an order: its task, state, attempts and result."""
    return await client.show(bus, order)


def _plain(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


SHOWN_LINES = 10
"""How much is shown of what a failed `verify` printed."""
WENT_ON = {"session": ", in the session of the one before", "brief": ", with a brief of what was done"}


def _attempt(attempt: dict[str, Any]) -> str:
    by = f" by {attempt['agent']}" if attempt.get("agent") else ""
    text = f"{attempt['number']}{by} on {attempt['node']}{WENT_ON.get(attempt.get('resumed', ''), '')}"
    if attempt.get("ended"):
        text += f", {attempt.get('outcome', '').replace('_', ' ')} after {attempt['ended'] - attempt['placed']:.1f} s"
    return text + (f": {one_line(attempt['why'])}" if attempt.get("why") else "")


@click.command("logs")
@click.argument("name", metavar=common.ORDER)
@click.option("-f", "--follow", is_flag=True, help="Keep printing until the order has ended.")
@click.option("--from", "start", default=1, metavar="SEQ", help="Start at this position (`at` in --json).")
@json_option
def logs(name: str, follow: bool, start: int, as_json: bool) -> None:
    """Show the events of an order's runs, all attempts in sequence. --json prints one event per line."""

    async def work(bus: Bus) -> None:
        order = await client.resolve(bus, name)
        show = _Shown(as_json, start)
        if not follow:
            async for seen in client.events(bus, order, start=start):
                show(seen)
            return
        await _follow(bus, order, show)

    common.with_bus(work)


async def _follow(bus: Any, order: str, show: _Shown) -> None:
    """Print until the order has ended and all of its events were shown."""

    async def read() -> None:
        async for seen in client.events(bus, order, start=show.at, follow=True):
            show(seen)

    reading = asyncio.create_task(read())
    try:
        await client.wait(bus, order, asking=common.tell_asking)
    finally:
        await end_tasks(reading)
    async for seen in client.events(bus, order, start=show.at):
        show(seen)


class _Shown:
    def __init__(self, as_json: bool, start: int) -> None:
        self.at = start
        self._as_json = as_json
        columns = shutil.get_terminal_size().columns
        from treadle.cli.chat.page import Page  # rich takes longer to load than most of these commands need to run

        self._page = Page(lambda: columns, colour=colourful(sys.stdout), flowing=True)
        self._attempt = 0

    def __call__(self, seen: Any) -> None:
        self.at = seen.at
        if self._as_json:
            click.echo(msgspec.json.encode(seen))
            return
        if seen.attempt != self._attempt:
            self._attempt = seen.attempt
            click.echo(f"-- attempt {seen.attempt} --")
        if seen.gap:
            click.echo(f"-- {seen.gap} events are missing here --")
        if seen.end:
            click.echo(f"-- {one_line(seen.end)} --")
            return
        try:
            click.echo(self._page.feed(msgspec.convert(seen.event, AnyEvent)), nl=False)
        except msgspec.ValidationError:
            click.echo(one_line(str(seen.event)))


@click.command("explain")
@click.argument("name", metavar=common.ORDER)
@json_option
def explain(name: str, as_json: bool) -> None:
    """Show why an order waits, what it is doing and the evidence, or its progress towards a branch."""
    from treadle.fleet.schedule import liveness
    from treadle.fleet.schedule.book import handing_words
    from treadle.landing import views

    async def work(bus: Any, order: str) -> tuple[Any, list[str]]:
        why = await client.why(bus, order)
        lands = await views.explained(bus, order) if why.state == "done" else []
        lines = [line for each in lands for line in each["lines"]]
        lines += [f"changed   {one_line(handing_words(each))}" for each in (await client.get_order(bus, order)).handed]
        if why.state == "done" and not lines:
            lines = [f"landing   {await views.not_in_a_train(bus, order)}"]
        return liveness.judged(why), lines

    found, lines = common.with_order(name, work)
    if as_json:
        return show_json(found)
    for line in [*liveness.as_lines(found), *lines]:
        click.echo(line)


@click.command("wait")
@click.argument("names", metavar="ORDER...", nargs=-1, required=True)
@click.option("--or-asks", is_flag=True, help="Stop waiting when an order asks a question; it counts as exit code 0.")
@click.option("--timeout", type=float, metavar="S", help="Give up after this time (exit code 124).")
@json_option
def wait(names: tuple[str, ...], or_asks: bool, timeout: float | None, as_json: bool) -> None:
    """Wait until these orders have ended. The exit code shows the result."""

    async def work(bus: Bus) -> list[Any]:
        found = [await client.resolve(bus, name) for name in names]
        waits = (client.wait(bus, name, timeout, common.tell_asking, or_asks=or_asks) for name in found)
        return list(await asyncio.gather(*waits))

    try:
        ended = common.with_bus(work)
    except TimedOut as error:
        click.echo(f"treadle: {error}", err=True)
        sys.exit(common.LATE)
    if as_json:
        show_json(ended)
    else:
        _table(ended, {})
    sys.exit(max(common.exit_code(order.state) if order.ended else 0 for order in ended))


COMMANDS = (submit, watch, ls, show, logs, explain, wait)
