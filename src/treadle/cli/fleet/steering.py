"""`treadle fleet cancel`, `pause`, `again`, `set`, `answer`, `say`, `shell`...: changing what happens."""

import asyncio
import contextlib
import os
import sys
import tempfile
import threading
import time
from typing import Any, Literal, get_args

import click

from treadle.cli.as_json import json_option, show_json
from treadle.cli.fleet import common
from treadle.cli.fleet.common import age
from treadle.cli.render import one_line, printable
from treadle.errors import ConfigError, LocalError, NotFound, TreadleError
from treadle.fleet import client, results
from treadle.io.files import write_atomic
from treadle.io.process.loop import run_async
from treadle.wire.fleet.messages import LimitName

why_option = click.option("--why", default="", metavar="TEXT", help="Stored with the order.")


@click.command("cancel")
@click.argument("names", metavar="ORDER...", nargs=-1, required=True)
@why_option
@click.option("--wait", is_flag=True, help="Wait until the orders have ended.")
@json_option
def cancel(names: tuple[str, ...], why: str, wait: bool, as_json: bool) -> None:
    """Cancel orders. Queued orders are removed; running ones are stopped with all their processes."""

    async def work(bus: Any) -> list[Any]:
        found: list[Any] = []
        for name in names:
            order = await client.resolve(bus, name)
            await client.cancel(bus, order, why=why)
            found.append(await client.wait(bus, order, 60.0) if wait else {"id": order})
            if wait and not as_json:
                click.echo(f"{found[-1].id}  {found[-1].state}: {found[-1].why}")
        return found

    found = common.with_bus(work)
    if as_json:
        show_json(found)


@common.fleet_command("hand", of=client.resolve)
@click.option("--to", required=True, metavar="AGENT", help="The agent that takes over.")
@why_option
async def hand(bus: Any, order: str, to: str, why: str) -> Any:
    """Hand an order over to another agent, which continues the work. The current agent is stopped first."""
    await client.hand(bus, order, to, why=why)
    return {"id": order, "to": to}


@common.fleet_command("pause")
@click.argument("scope", default="fleet")
@click.option("--now", is_flag=True, help="Also pause running orders at their next step.")
@why_option
async def pause(bus: Any, scope: str, now: bool, why: str) -> Any:
    """Start no more orders in the fleet, or in SCOPE: order:ID, label:L, agent:A, credential:C, node:N."""
    whole = await _whole(bus, scope)
    await client.pause(bus, whole, why=why, now=now)
    return {"scope": whole, "paused": True}


async def _whole(bus: Any, scope: str) -> str:
    """The scope, with an order's whole id in place of a shortened one."""
    kind, _, name = scope.partition(":")
    return f"order:{await client.resolve(bus, name)}" if kind == "order" and name else scope


@common.fleet_command("resume")
@click.argument("scope", default="fleet")
async def resume(bus: Any, scope: str) -> Any:
    """End a pause of the same scope."""
    whole = await _whole(bus, scope)
    await client.resume(bus, whole)
    return {"scope": whole, "paused": False}


@click.command("again")
@click.argument("names", metavar="[ORDER|GOAL]...", nargs=-1)
@click.option("--text", default="", metavar="TEXT", help="Instructions for the retry.")
@click.option(
    "--comments",
    "path",
    metavar="FILE",
    help="Comments on the change from a file, as PATH:LINE: TEXT; - is standard input.",
)
@click.option(
    "--anyway",
    is_flag=True,
    help="Allow changes to its check's own files and to files that control other programs (CI, AGENTS.md).",
)
@click.option("--failed", is_flag=True, help="Retry every failed order that was not retried yet.")
@json_option
def again(names: tuple[str, ...], text: str, path: str | None, anyway: bool, failed: bool, as_json: bool) -> None:
    """Retry an ended order, work that did not land, or dropped orders of a goal.

    \b
    treadle fleet again ORDER                         run it, or its landing, again
    treadle fleet again ORDER --text "shorter names"  the same agent continues its work
    treadle fleet again GOAL                          all dropped orders of the goal

    --comments has lines PATH:LINE: TEXT, with line numbers of the new file. Other lines continue the comment before
    them; at the start, they are about the whole change. A JSON list of {"path", "line", "text"} also works.
    """
    from treadle.goals import commands

    if path:
        with click.open_file(path, encoding="utf-8") as file:
            text = file.read()
    comments = results.parse_comments(text)
    if (path or text) and not comments:
        raise ConfigError("there are no comments", hint="write PATH:LINE: TEXT, or plain words")
    if bool(names) == failed:
        raise ConfigError("there is nothing to retry", hint="name orders or goals, or give --failed")

    async def work(bus: Any) -> list[Any]:
        ended = await client.list_orders(bus, count=100_000, states=["failed"]) if failed else []
        wanted = [*names, *(order.id for order, _ in ended if not order.retried_as)]
        return [done for name in wanted for done in await commands.again(bus, name, comments=comments, anyway=anyway)]

    found = common.with_bus(work)
    if as_json:
        return show_json(found)
    for each in found:
        click.echo(f"{each.name}  {each.what}")


@click.command("set")
@click.argument("name", metavar=common.ORDER)
@click.option("--priority", type=int, metavar="0-9", help="Priority; 9 is the highest.")
@click.option("--max-seconds", type=float, metavar="S", help="End it after this time.")
@click.option("--max-turns", type=int, metavar="N", help="End it after this many model calls.")
@click.option("--max-tokens", type=int, metavar="N", help="End it after this many tokens.")
@click.option("--max-usd", type=float, metavar="USD", help="End it at this cost.")
@why_option
@json_option
def set_(name: str, priority: int | None, why: str, as_json: bool, **limits: Any) -> None:
    """Change an order's priority or limits, also while it runs. The change, its author and the reason are recorded."""
    given = {name: limits[f"max_{name}"] for name in get_args(LimitName) if limits[f"max_{name}"] is not None}
    if priority is None and not given:
        raise ConfigError("there is nothing to change", hint="give --priority or a limit")

    async def work(bus: Any, order: str) -> str:
        await client.set_fields(bus, order, priority=priority, limits=given, why=why)
        return order

    order = common.with_order(name, work)
    if as_json:
        show_json({"id": order, "priority": priority, "limits": given})


def _show_approvals(asks: list[Any]) -> None:
    if not asks:
        click.echo("Nothing waits for an answer.", err=True)
    for ask in asks:
        left = max(0.0, ask.deadline - time.time())
        click.echo(f"{ask.order}  asked {age(ask.asked_at)} ago by {ask.agent}: {one_line(ask.title)}")
        asked = ask.text if ask.kind == "question" and ask.text else ask.words  # a question is shown whole
        for line in asked.splitlines():
            click.echo(f"    {printable(line)}")
        click.echo(f"    treadle fleet answer {ask.order} allow|deny   ({ask.default} by itself in {left:.0f} s)")


@common.fleet_command("approvals", _show_approvals)
async def approvals(bus: Any) -> list[Any]:
    """List open questions, the nearest deadline first."""
    return await client.approvals(bus)


@common.fleet_command("answer", of=client.resolve)
@click.argument("decision", type=click.Choice(["allow", "deny"]))
@click.option("--text", default="", metavar="TEXT", help="A message to the agent.")
@click.option(
    "--scope", type=click.Choice(["once", "session", "always"]), default="once", help="How long the answer applies."
)
async def answer(bus: Any, order: str, decision: str, text: str, scope: str) -> Any:
    """Answer an order's question. Only the first answer counts; later ones are refused with its author."""
    await client.answer(bus, order, decision, text=text, scope=scope)
    return {"id": order, "decision": decision}


@click.command("say")
@click.argument("name", metavar=common.ORDER)
@click.argument("text")
@click.option("--now", is_flag=True, help="Interrupt the agent for this message.")
@click.option("--after-turn", is_flag=True, help="Deliver it after the current turn; it can be edited until then.")
@click.option("--edit", metavar="N", type=int, help="Edit message N; an empty text withdraws it.")
@json_option
def say(name: str, text: str, now: bool, after_turn: bool, edit: int | None, as_json: bool) -> None:
    """Send the agent a message. Default: delivered at its next step.

    The message is stored until it is delivered. `show` reports its state: queued, delivered to the runner, in a turn of
    the agent.
    """
    if now and after_turn:
        raise ConfigError("--now and --after-turn cannot be combined", hint="give one of them")

    async def work(bus: Any, order: str) -> str:
        if edit is not None:
            await client.edit_message(bus, f"{order}.{edit}", text)
            return f"{order}.{edit}"
        return await client.say(bus, order, text, when="now" if now else "turn" if after_turn else "")

    key = common.with_order(name, work)
    show_json({"message": key}) if as_json else click.echo(key)


@click.command("budget")
@click.argument("scope", default="fleet")
@click.option("--max-usd", "--usd", "usd", type=float, metavar="USD", help="Cost limit in USD.")
@click.option("--max-tokens", "--tokens", "tokens", type=int, metavar="N", help="Token limit.")
@click.option(
    "--share",
    type=click.FloatRange(0, 1, min_open=True),
    metavar="PART",
    help="Share of the budget reserved for an order without its own limits: 0.1 is a tenth.  [default: 0.1]",
)
@click.option(
    "--daily/--in-all", default=None, help="The budget is per day, from midnight, or in total.  [default: --in-all]"
)
@json_option
def budget(
    scope: str, usd: float | None, tokens: int | None, share: float | None, daily: bool | None, as_json: bool
) -> None:
    """Show the budgets, or set that of the fleet, of project:NAME or of agent:NAME. At the limit, orders wait
    until it is raised, or go to their next fallback."""
    limits: dict[str, Any] = {"usd": usd, "tokens": tokens, "share": share, "daily": daily}
    given = {name: value for name, value in limits.items() if value is not None}

    async def work(bus: Any) -> Any:
        if given:
            await client.set_budget(bus, scope, **given)
            return None
        return (await client.control(bus)).budgets

    found = common.with_bus(work)
    if found is None:
        return show_json({"scope": scope, **given}) if as_json else None
    if as_json:
        return show_json(found)
    rows = [["SCOPE", "MONEY", "TOKENS", "UNPRICED"]]
    for name, one in found.items():
        limit = "-" if one.usd is None else f"{one.usd:.2f}"
        most = "-" if one.tokens is None else str(one.tokens)
        counts = [f"{one.spent_usd:.2f} of {limit} USD", f"{one.spent_tokens} of {most}"]
        rows.append([f"{name}, today" if one.daily else name, *counts, str(one.unpriced_tokens)])
    common.table(rows)


@common.fleet_command("limit")
@click.argument("scope")
@click.argument("most", type=int, required=False)
async def limit(bus: Any, scope: str, most: int | None) -> Any:
    """Limit SCOPE (agent:A, credential:C, repo:PATH) to MOST orders at once. Without MOST, remove the limit."""
    await client.set_limit(bus, scope, most)
    return {"scope": scope, "most": most}


# `treadle fleet diff`, `review`, `discard`, `compare`, `receipt`: the results of orders.


@click.command("diff")
@click.argument("name", metavar=common.ORDER)
@json_option
def diff(name: str, as_json: bool) -> None:
    """Show what an order changed, as a patch."""
    data = common.with_order(name, results.diff)
    if as_json:
        show_json({"patch": data.decode("utf-8", "replace")})
    elif sys.stdout.isatty():
        click.echo(printable(data.decode("utf-8", "replace")), nl=False)
    else:
        click.echo(data, nl=False)


def _show_review(found: dict[str, Any]) -> None:
    order = found["order"]
    verified = {True: "verified", False: "NOT verified"}.get(order.result.get("verified"), "not checked by a command")
    click.echo(f"{order.id}  {order.state}, {verified}: {one_line(order.title)}")
    for word in ("says", "ending", "stat", "outside_claims", "under_claims_of"):
        if order.result.get(word):
            click.echo(f"{word.replace('_', ' '):9} {printable(str(order.result[word]))}")
    click.echo(printable(found["patch"]), nl=False)


@common.fleet_command("review", _show_review, of=client.resolve)
async def review(bus: Any, name: str) -> Any:
    """Show an order's summary, its check result and its patch.

    `treadle fleet again ORDER --comments FILE` sends comments back to the agent.
    """
    order = await client.get_order(bus, name)
    try:
        patch = (await results.diff(bus, order.id)).decode("utf-8", "replace")
    except NotFound as error:
        patch = f"({error})\n"
    return {"order": order, "patch": patch}


@common.fleet_command("discard")
@click.argument("names", metavar="ORDER...", nargs=-1, required=True)
async def discard(bus: Any, names: tuple[str, ...]) -> Any:
    """Discard the work of orders: delete their branches, but keep receipts and patches."""
    orders = [await client.resolve(bus, name) for name in names]
    for order in orders:
        await results.discard(bus, order)
    return [{"id": order, "discarded": True} for order in orders]


def _show_standings(rows: list[dict[str, Any]]) -> None:
    lines = [["PLACE", "ORDER", "STATE", "AGENT", "VERIFIED", "FILES", "TOKENS"]]
    for number, row in enumerate(rows, 1):
        verified = {True: "yes", False: "no", None: "-"}[row["verified"]]
        cells = [str(number), row["order"], row["state"], row["agent"], verified, str(row["files"])]
        lines.append([*cells, str(row["tokens"])])
    common.table(lines)


@common.fleet_command("compare", _show_standings, of=client.resolve)
async def compare(bus: Any, order: str) -> Any:
    """Compare the orders of a race: verified first, then the smallest change, then the lowest cost."""
    return await results.standings(bus, order)


@click.command("receipt")
@click.argument("name", metavar=common.ORDER)
@click.option("--out", metavar="FILE", help="Write to this file, for treadle receipt show, verify and export.")
@json_option
def receipt(name: str, out: str | None, as_json: bool) -> None:
    """Show the receipt of an order's run, on whatever machine it ran.

    \b
    treadle fleet receipt ORDER --out run.json
    treadle receipt verify ./run.json --trusted keys.toml --expect confined=yes,verified=yes

    It is signed with the key of the person or machine that ran it, if any.
    """
    from treadle.cli.host import show_receipt
    from treadle.wire.sidecar.repair import read_receipt

    text = common.with_order(name, results.run_receipt)
    if out is not None:
        write_atomic(out, text + b"\n", 0o644)
    elif as_json:
        click.echo(text)
    else:
        show_receipt(read_receipt(text, []))


# `treadle fleet shell` and `attach`: terminals of orders, on whatever machine they are.


@click.command("shell")
@click.argument("name", metavar=common.ORDER)
def shell(name: str) -> None:
    """Open a shell in an order's worktree, on its node. The receipt records this.

    Ctrl-\\ detaches and leaves the shell open; the next `shell` of this order reattaches.
    """
    sys.exit(attach_order(name, "shell", read_only=False))


@click.command("attach")
@click.argument("name", metavar=common.ORDER)
@click.option("--read-only", is_flag=True, help="Read-only: send no input.")
def attach(name: str, read_only: bool) -> None:
    """Join the terminal of an order that was submitted with --terminal. Ctrl-\\ detaches."""
    sys.exit(attach_order(name, "agent", read_only=read_only))


def attach_order(name: str, what: Literal["agent", "shell"], *, read_only: bool) -> int:
    """Show an order's terminal (`agent`) or a shell in its worktree (`shell`) here, until the person leaves it."""
    from treadle.terminal.places import Place
    from treadle.terminal.settings import TerminalSettings
    from treadle.terminal.viewers.attach import attach as show

    if not os.isatty(0):
        raise ConfigError("this needs a terminal on standard input", hint="`treadle fleet logs` shows what happened")
    with tempfile.TemporaryDirectory(prefix="tf-") as directory:
        place = Place(directory, "order")
        carrier = _Carrier(name, what, place.sock)
        carrier.start()
        try:
            carrier.ready()
            settings = TerminalSettings()
            settings.prefix_key = 0
            return show(place, settings, read_only) or 0
        finally:
            carrier.end()


class _Carrier(threading.Thread):
    """The connection to the fleet, in a thread of its own, because the main thread waits on the terminal."""

    def __init__(self, name: str, what: Literal["agent", "shell"], path: str) -> None:
        super().__init__(daemon=True)
        self._name, self._what, self._path = name, what, path
        self._ready = threading.Event()
        self._problem: BaseException | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._over: asyncio.Event | None = None

    def ready(self) -> None:
        self._ready.wait()
        if self._problem is not None:
            raise self._problem

    def end(self) -> None:
        if self._loop is not None and self._over is not None:
            with contextlib.suppress(RuntimeError):  # it has ended by itself, with a problem
                self._loop.call_soon_threadsafe(self._over.set)
        self.join(10.0)

    def run(self) -> None:
        try:
            run_async(self._carry())
        except TreadleError as error:
            self._problem = error
        finally:
            self._ready.set()

    async def _carry(self) -> None:
        from treadle.fleet.run.terminals import Carried

        self._loop, self._over = asyncio.get_running_loop(), asyncio.Event()
        async with client.connected() as bus:
            order = await client.get_order(bus, await client.resolve(bus, self._name))
            node = order.node or (order.attempts[-1].node if order.attempts else "")
            if not node:
                raise LocalError(f"the order {order.id} has not run on a node yet: it is {order.state}")
            carried = Carried(bus, node, order.id, self._what, client.me())
            await carried.try_once()
            serving: Any = await asyncio.start_unix_server(carried.carry, self._path)
            self._ready.set()
            async with serving:
                await self._over.wait()


COMMANDS = (
    cancel,
    hand,
    pause,
    resume,
    again,
    set_,
    approvals,
    answer,
    say,
    budget,
    limit,
    diff,
    review,
    discard,
    compare,
    receipt,
    shell,
    attach,
)
