"""`treadle fleet up`, `down`, `status`, `node`, `nodes`, `drain`, `add`, `join`...: the machines; `keep`: what
is stored.
"""

from __future__ import annotations

import asyncio
import platform
import sys
import time
from typing import TYPE_CHECKING, Any

import click
import msgspec

from treadle.cli.as_json import json_option, show_json
from treadle.cli.fleet.common import age, fleet_command, table, with_bus
from treadle.cli.terminal import duration
from treadle.errors import ConfigError, NotFound
from treadle.fleet import client, keeper
from treadle.fleet.engine import places
from treadle.io.files import append_lines
from treadle.io.process.loop import run_async

if TYPE_CHECKING:
    from treadle.fleet.engine.bus import Bus


@click.command("keep")
@click.option("--for", "--keep", "time_", metavar="TIME", help="How long to store ended orders: 90d, forever.")
@click.option(
    "--size", "--keep-size", "size", type=float, metavar="GB", help="Remove the oldest orders above this size."
)
@click.option("--older-than", metavar="TIME", help="Remove now what ended longer ago than this, such as 30d.")
@click.option("--archive", metavar="FILE", help="First append the removed orders to this file, one per line.")
@click.option("--dry-run", is_flag=True, help="Only list what --older-than would remove.")
@json_option
def keep(
    time_: str | None, size: float | None, older_than: str | None, archive: str | None, dry_run: bool, as_json: bool
) -> None:
    """Show or set how long ended orders are stored, or remove old ones now. Their --key stays used.

    Events and results of runs are always removed after 30 days or at 8 GB. Orders that others depend on stay.
    """
    if archive and not older_than:
        raise ConfigError("--archive needs --older-than", hint="treadle fleet keep --older-than 30d --archive FILE")
    seconds = None if time_ is None else 0.0 if time_ == "forever" else duration(time_)
    age = duration(older_than) if older_than else None

    async def work(bus: Bus) -> dict[str, Any]:
        limit = None if size is None else int(size * 1024**3)
        if seconds is not None or limit is not None:
            await client.keep(bus, seconds=seconds, size=limit)
        if age is not None:
            names = await _old(bus, age, None if dry_run else archive)
            await client.clean(bus, [] if dry_run else names)
            return {"orders": names}
        held = await client.control(bus)
        return {
            "keep_seconds": held.keep_seconds if seconds is None else seconds,
            "keep_bytes": held.keep_bytes if limit is None else limit,
        }

    found = with_bus(work)
    if as_json:
        return show_json(found)
    if "orders" in found:
        return click.echo(f"{len(found['orders'])} orders {'would be' if dry_run else 'are'} removed")
    days, most = found["keep_seconds"] / 86400, found["keep_bytes"] / 1024**3
    text = f"for {days:g} days after they ended" if days else "for ever"
    click.echo(f"orders are kept {text}" + (f", or until they take {most:g} GB" if most else ""))


async def _old(bus: Bus, age: float, archive: str | None) -> list[str]:
    from treadle.fleet.schedule.scheduler import ended_before, records

    names = []
    async for order, _ in ended_before(bus, time.time() - age):
        names.append(order.id)
        if archive:
            append_lines(archive, [msgspec.json.encode(await records(bus, order.id))], sync=True)
    return names


may_option = click.option(
    "--may",
    type=click.Choice(["watch", "submit"]),
    default="watch",
    show_default=True,
    help="Rights of people on that machine. submit: also submit orders, which run on every node, and answer questions.",
)


def _progress(quiet: bool) -> Any:
    return (lambda text: None) if quiet else (lambda text: click.echo(text, err=True))


@click.command("up")
@click.option(
    "--slots",
    type=int,
    metavar="N",
    help="Maximum number of parallel orders on this machine. Default: the last value, or 4.",
)
@click.option("--label", "labels", multiple=True, metavar="L", help="A label of this node, for orders with --label.")
@click.option("--name", default="", metavar="NAME", help="The node's name. Default: the last one, or the machine's.")
@click.option(
    "--nats", "url", default="", metavar="URL", help="Use this NATS server or cluster instead of starting one."
)
@click.option("--creds", default="", metavar="FILE", help="With --nats: a credentials file.")
@click.option("--ca", default="", metavar="FILE", help="With --nats: CA certificate of the server.")
@click.option("--replicas", default=1, show_default=True, metavar="N", help="With --nats: copies of each stream.")
@click.option(
    "--lease",
    default=0.0,
    metavar="S",
    help="Seconds without contact after which a runner is replaced. Default: 5, or 15 with several machines.",
)
@click.option(
    "--sync",
    default="",
    metavar="WHEN",
    help="How often data is synced to disk. `always`: a power cut loses nothing. Default: 2m.",
)
@click.option("--page/--no-page", default=True, help="Serve the web page. Default: yes.")
@click.option("--at-login", is_flag=True, help="Also start the fleet at each login, with the user's systemd.")
@json_option
def up(as_json: bool, **options: Any) -> None:
    """Start the fleet on this machine: engine, scheduler, node and web page. Running parts are reused.

    Parts that die are restarted, at most 5 times within 10 minutes, until `treadle fleet down`. After a reboot,
    `treadle fleet up` continues where the fleet stopped; --at-login does this automatically.

    The page is reachable from this machine only; the printed link signs in one browser. On a machine that joined a
    fleet, this restarts its node.
    """
    from treadle.fleet import up as machine

    labels, page, at_login = tuple(options.pop("labels")), options.pop("page"), options.pop("at_login")
    say = _progress(as_json)
    status = run_async(machine.up(labels=labels, say=say, program="treadle.goals.node", keep=True, **options))
    found = msgspec.to_builtins(status) if status is not None else {}
    if page and not places.load().joined:
        from treadle.serve import background

        found["page"] = background.started_link(say)
        if found["page"]:
            keeper.keep("page", background.watched())
    if at_login:
        found["unit"] = _write_unit(page, say)
    if as_json:
        show_json(found)
    elif found.get("page") and not sys.stderr.isatty():
        click.echo(found["page"])  # a terminal has seen it already


def _write_unit(page: bool, say: Any) -> str:
    path = keeper.write_unit(FLEET_UNIT, keeper.fleet_unit(page))
    if keeper.systemd_available():
        keeper.enable_unit(FLEET_UNIT, now=False)
        say(f"login   {path} starts it at each login; a key that is only in this shell's environment is not there then")
    else:
        say(f"login   {path} is written; `systemctl --user enable {FLEET_UNIT}`, where there is a systemd session")
    return path


FLEET_UNIT = "treadle-fleet.service"


def _ask_to_forget() -> None:

    try:
        agreed = click.confirm("Remove all orders, events and results of this fleet?", err=True)
    except click.Abort:
        if sys.stdin.isatty():
            raise
        hint = "`--yes` removes them without asking"
        raise ConfigError(
            "nothing was stopped or removed: --forget asks first, and there was no answer", hint=hint
        ) from None
    if not agreed:
        raise click.Abort()


@click.command("down")
@click.option("--forget", is_flag=True, help="Delete all data: orders, events, results, credentials.")
@click.option("--yes", is_flag=True, help="With --forget: do not ask for confirmation.")
@json_option
def down(forget: bool, yes: bool, as_json: bool) -> None:
    """Stop the fleet on this machine. Running orders return to the queue and continue after the next `up`."""
    from treadle.fleet import up as machine
    from treadle.serve import background

    if forget and not yes:
        _ask_to_forget()
    say = _progress(as_json)
    stopped = run_async(machine.down(say=say, forget=forget, stop_page=background.stop))
    if as_json:
        show_json({**stopped, "forgotten": forget})


@click.command("status")
@json_option
def status(as_json: bool) -> None:
    """Show the running parts of the fleet, their machines, uptime and disk use. Exits with 1 when no scheduler
    answers."""
    from treadle.fleet import up as machine
    from treadle.serve import background

    page = background.find()
    found = run_async(machine.status()) | {"page": page.address if page else None}
    if found.get("scheduler"):
        found["trains"] = run_async(_trains())
    if as_json:
        show_json(found)
    else:
        _show_status(found)
    sys.exit(0 if found.get("scheduler") else 1)


async def _trains() -> list[dict[str, Any]]:
    from treadle.landing import views

    async with client.connected() as bus:
        return await views.standing(bus)


def _show_status(found: dict[str, Any]) -> None:
    engine = found.get("engine")
    where = found["url"]
    if found["private"]:
        text = (
            f"nats-server {engine['version']}, process {engine['pid']}, up {age(engine['started'])}"
            if engine
            else "down"
        )
        click.echo(f"engine     {where}: {text}")
        free = found["disk_free_bytes"] / 1e9
        click.echo(f"disk       {found['disk_bytes'] / 1e6:.1f} MB in {found['directory']}, {free:.1f} GB free")
    else:
        click.echo(f"engine     {where}")
    if found.get("page"):
        click.echo(f"page       {found['page']} (`treadle serve --link` prints a link)")
    if found.get("scheduler"):
        click.echo(f"scheduler  {found['scheduler']}, for {age(found['since'])}")
    for node in found.get("nodes") or found["nodes_here"]:
        if "alive" in node:
            at_work = f"{len(node['at_work'])} of {node['slots']} slots"
            click.echo(f"node       {node['name']}: {at_work if node['alive'] else 'gone'}; {node['says']}")
        else:
            click.echo(f"node       {node['name']}: {'process ' + str(node['pid']) if node['pid'] else 'down'}")
    _show_keeping(found)
    counts = ", ".join(f"{count} {state}" for state, count in sorted((found.get("orders") or {}).items()))
    if not found.get("scheduler"):
        here = f"; {len(found['runners_here'])} at work on this machine" if found["runners_here"] else ""
        counts = f"unknown: no scheduler answers{here}"
    click.echo(f"orders     {counts or 'none at work or waiting'}")
    for train in found.get("trains") or ():
        oldest = f", the oldest for {age(train['oldest'])}" if train["oldest"] else ""
        state = f"; stopped: {train['paused']}" if train["paused"] else ""
        state = state or (f"; delayed: {train['delayed']}" if train["delayed"] else "")
        helped = f"{train['back']} sent back, {train['asking']} asking, {train['landed']} landed"
        click.echo(f"train      {train['branch']}: {train['waiting']} waiting{oldest}, {helped}{state}")
    if found.get("problem"):
        click.echo(f"problem    {found['problem']}")


def _show_keeping(found: dict[str, Any]) -> None:
    if found["keeper"] is not None:
        pid = found["keeper"]["pid"]
        click.echo(
            f"keeper     {f'process {pid}' if pid else 'gone: a node here starts it again, or `treadle fleet up`'}"
        )
    for name, known in found["restarts"].items():
        what = name.replace("-", " ", 1)
        times = f"started again {known['total']} time{'s' if known['total'] != 1 else ''}"
        last = f", last {age(known['lately'][-1])} ago" if known["lately"] else ""
        click.echo(
            f"           {what} "
            + (f"has failed, `treadle fleet up` tries again: {known['failed']}" if known["failed"] else times + last)
        )


@click.command("node")
@click.option("--slots", default=4, show_default=True, metavar="N", help="Maximum number of parallel orders.")
@click.option("--label", "labels", multiple=True, metavar="L", help="A label, for orders with --label.")
@click.option("--agent", "agents", multiple=True, metavar="NAME", help="Accept only orders for these agents.")
@click.option("--limit", "limits", multiple=True, metavar="KIND=N", help="At most N at once: repo=1, agent:claude=2.")
@click.option("--name", default="", metavar="NAME", help="The node's name. Default: this machine's.")
def node(slots: int, labels: tuple[str, ...], agents: tuple[str, ...], limits: tuple[str, ...], name: str) -> None:
    """Run a node of the fleet until SIGTERM. Its runners continue without it; the next node adopts them.

    For service managers; `treadle fleet up` starts a node in the background. The manager must stop only this process
    (systemd: KillMode=process).
    """
    import logging

    from treadle.fleet import node as nodes
    from treadle.landing.train import Conductor

    most = {}
    for limit in limits:
        kind, _, number = limit.rpartition("=")
        if not kind or not number.isdigit():
            raise ConfigError(f"{limit!r} is not a limit", hint="write repo=1 or agent:claude=2")
        most[kind] = int(number)
    here = name or platform.node().partition(".")[0] or "node"
    users = places.load().users
    role = next((each for each in (f"node:{here}", f"worker:{here}") if each in users), "admin")
    settings = nodes.NodeSettings(
        name=here,
        slots=slots,
        labels=labels,
        agents=agents or None,
        limits=most,
        role=role,
        schedule=not role.startswith("worker:"),
    )
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(asctime)s %(name)s %(message)s")
    run_async(nodes.serve(settings, [Conductor()]))


def _show_nodes(found: list[Any]) -> None:
    rows = [["NODE", "STATE", "SLOTS", "LABELS", "VERSION", "SAYS"]]
    for each in found:
        state = "up" if each.alive else "gone"
        slots = f"{len(each.at_work)}/{each.slots}"
        heard = f", last heard {age(each.heard)} ago" if not each.alive and each.heard else ""
        labels = ",".join(each.labels) or "-"
        rows.append([each.name, state, slots, labels, each.version or "?", f"{each.says}{heard}"])
    table(rows)


@fleet_command("nodes", _show_nodes)
async def nodes(bus: Bus) -> Any:
    """List all nodes, also lost ones, and why each accepts no more orders."""
    return await client.nodes(bus)


@fleet_command("drain")
@click.argument("name", metavar="NODE")
@click.option("--undo", is_flag=True, help="Let the node accept orders again.")
@click.option("--why", default="", metavar="TEXT", help="Stored with it.")
@click.option("--wait", is_flag=True, help="Wait until its last order has ended.")
async def drain(bus: Bus, name: str, undo: bool, why: str, wait: bool) -> Any:
    """Let a node finish its orders and accept no more."""
    await client.drain(bus, name, why=why, undo=undo)
    while wait and not undo and any(each.at_work for each in await client.nodes(bus) if each.name == name):
        await asyncio.sleep(0.2)
    return {"node": name, "drained": not undo}


@click.command("add")
@click.argument("url", metavar="ssh://HOST")
@click.option("--name", default="", metavar="NAME", help="The node's name. Default: the machine's.")
@click.option("--slots", default=4, show_default=True, metavar="N", help="Maximum number of parallel orders.")
@click.option("--label", "labels", multiple=True, metavar="L", help="A label of the node, for orders with --label.")
@click.option("--ssh", default="ssh", metavar="CMD", help="The SSH command, such as 'ssh -i KEY'.")
@click.option(
    "--port",
    default=42220,
    show_default=True,
    metavar="N",
    help="The port on that machine that is forwarded to the engine.",
)
@may_option
@json_option
def add(url: str, as_json: bool, **options: Any) -> None:
    """Add another machine as a node over SSH.

    \b
    treadle fleet add ssh://ana@builder --label gpu

    Installs this version there if it is missing, joins the machine with a single-use code, and starts its node with the
    user's systemd, or in the background without systemd.
    """
    from treadle.fleet.join import machines as far

    options["labels"] = tuple(options["labels"])
    name = far.add(url, say=_progress(as_json), **options)
    show_json({"node": name}) if as_json else click.echo(name)


@click.command("remove")
@click.argument("name", metavar="NODE")
@json_option
def remove(name: str, as_json: bool) -> None:
    """Remove a machine that was added or invited, and revoke its credentials.

    Its orders move to other nodes. To let it finish them, drain it first.
    """
    from treadle.fleet.join import machines as far

    if not far.remove(name):
        raise NotFound(f"there are no credentials for a worker {name!r}", hint="`treadle fleet nodes` lists the nodes")
    if as_json:
        show_json({"node": name, "removed": True})


@click.command("invite")
@click.argument("name", metavar="NODE")
@click.option("--url", default="", metavar="URL", help="The engine's address as that machine sees it.")
@click.option("--valid", default="1h", show_default=True, metavar="TIME", help="How long the code is valid.")
@may_option
@json_option
def invite(name: str, url: str, valid: str, may: str, as_json: bool) -> None:
    """Print a single-use code for one machine to join as NODE."""
    from treadle.fleet.join import invitations

    seconds = duration(valid)
    code = invitations.invite(name, url=url, seconds=seconds, may=may)
    show_json({"node": name, "code": code, "until": time.time() + seconds}) if as_json else click.echo(code)


@click.command("join")
@click.argument("code")
@click.option(
    "--slots", default=4, show_default=True, metavar="N", help="Maximum number of parallel orders on this machine."
)
@click.option("--label", "labels", multiple=True, metavar="L", help="A label of this node, for orders with --label.")
@click.option("--service", is_flag=True, help="Run the node as a service of the user's systemd, if available.")
@click.option("--ca", default="", metavar="FILE", help="CA certificate of the server.")
@click.option("--patience", default=5.0, metavar="S", help="How long to wait for the engine to start, in seconds.")
@json_option
def join(code: str, labels: tuple[str, ...], as_json: bool, **options: Any) -> None:
    """Join a fleet as a node, with a code from `treadle fleet invite`; - reads it from standard input.

    A fleet's private engine listens on loopback only. Open a tunnel to it, such as `ssh -L 4222:127.0.0.1:PORT
    first-machine`, and invite with --url nats://127.0.0.1:4222. Or do all of this from the first machine: `treadle
    fleet add ssh://THIS`.
    """
    from treadle.fleet import up

    given = sys.stdin.readline() if code == "-" else code
    name, keeper = run_async(up.join(given, labels=tuple(labels), **options))
    if as_json:
        return show_json({"node": name, "kept_by": keeper})
    click.echo(f"{name} is a node of the fleet now, kept running by {keeper}", err=True)


COMMANDS = (up, down, status, node, nodes, drain, add, remove, invite, join, keep)
