"""`treadle land` and `blame`: finished orders onto a branch that never breaks, and which order a line came from."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click
from msgspec.structs import replace

from treadle.cli.as_json import group_or, json_option, show_json
from treadle.cli.fleet.common import FAILED, age, money, table, with_bus, with_order
from treadle.cli.render import one_line, printable
from treadle.errors import ConfigError, LocalError, NotFound, TreadleError
from treadle.fleet import client
from treadle.fleet.client import connected, me, resolve
from treadle.goals import store
from treadle.io.process.loop import run_async
from treadle.landing import changes, queue, returned, views
from treadle.landing import train as trains
from treadle.landing.authorship import origin, place_of, with_fleet_records
from treadle.landing.sending import call_off
from treadle.verification.evidence import LEVELS
from treadle.wire.fleet.records import Note
from treadle.wire.fleet.train import LeftOut
from treadle.workspace import checkouts

if TYPE_CHECKING:
    from treadle.fleet.engine.bus import Bus
    from treadle.landing.authorship import AuthorClaim, LineOrigin
    from treadle.wire.fleet.train import TrainRecord


# `treadle land`: finished orders onto a branch, checked before it moves, in a train that never breaks it.


@click.group(cls=group_or("now"))
def land() -> None:
    """Merge finished work into a branch. Every change is checked before the branch moves.

    \b
    treadle land ORDER...        land these orders and print each result
    treadle land                 land everything that waits for the current branch
    treadle land ls              list trains and what waits in each

    Each branch has a train, its merge queue. Finished work is merged and checked in a sandbox beside the branch; the
    branch then moves to exactly the commit that was checked. Work that conflicts, or fails its check twice, goes back
    to its agent, then to a neutral one, then to you as a question. A killed train continues where it stopped.
    """


@land.command("now")
@click.argument("names", metavar="[ORDER]...", nargs=-1)
@click.option("--root", default=".", metavar="DIR", help="The repository; may be bare. Default: the current directory.")
@click.option("--branch", default="", metavar="NAME", help="The branch, or REMOTE:BRANCH. Default: the current branch.")
@click.option("--verify", default="", metavar="COMMAND", help="The check command. Stored for the branch.")
@click.option("--setup", default="", metavar="COMMAND", help="Setup command for the directory of each check.")
@click.option(
    "--forge",
    default="",
    metavar="FORGE",
    help="Land REMOTE:BRANCH through pull requests: github or an added forge, optionally with :OWNER/NAME[@API].",
)
@click.option(
    "--token",
    default="",
    metavar="VARIABLE",
    help="The environment variable with the forge's token. Default: GITHUB_TOKEN, or the forge's usual one.",
)
@click.option("--slots", default=0, metavar="N", help="Number of parallel checks. Default: the stored value, or 2.")
@click.option(
    "--reconciler",
    default="",
    metavar="AGENT",
    help="Agent for conflicts that the author could not resolve. Stored for the branch.",
)
@click.option(
    "--anyway",
    is_flag=True,
    help="Allow changes to their check's own files and to files that control other programs (CI, AGENTS.md).",
)
@click.option(
    "--no-help", is_flag=True, help="Leave out work that fails or conflicts, instead of sending it to an agent."
)
@json_option
def now(
    names: tuple[str, ...],
    root: str,
    as_json: bool,
    forge: str,
    token: str,
    reconciler: str,
    anyway: bool,
    no_help: bool,
    **options: Any,
) -> None:
    """Land these orders and everything before them in the train. Without ORDER: everything that waits.

    Exits with 0 if all of them landed, and with 3 if one was left out or sent back, or the train stopped. Work that was
    sent back lands automatically while the fleet is up: see `treadle land explain ORDER`.
    """

    async def work(bus: Bus) -> tuple[TrainRecord, dict[str, str], list[str]]:
        say: Callable[[str], None] = (lambda text: None) if as_json else click.echo
        wanted = [await resolve(bus, name) for name in names]
        train = await trains.ensure(bus, root, **options)
        if reconciler:
            await trains.change(bus, train, lambda found: replace(found, reconciler=reconciler))
        if forge or token:
            await trains.change(bus, train, lambda found: queue.by_forge(found, forge, token))
        idle = await trains.board(bus, train, wanted, anyway=anyway, no_help=no_help)
        record, _ = await trains.load(bus, train)
        chosen = [each for each in wanted if each not in idle] if wanted else [each.order for each in record.queue]
        if not chosen:
            return record, {}, idle  # what others have queued is not what was asked for

        made = trains.Train(bus, train, record, root=root, say=say)
        if queue.lacks_check(record) and not made.bench.project_check(made.bench.branch.tip())[0]:
            raise ConfigError(f"no check is set for {record.branch}", hint="give one: --verify 'make test'")

        def settled(record: TrainRecord) -> bool:
            return record.paused is not None or not any(each.order in chosen for each in record.queue)

        record = await made.run(settled)
        return record, {order: await views.fate(bus, train, record, order) for order in chosen}, idle

    record, fates, idle = with_bus(work)
    missed = [order for order, fate in fates.items() if not fate.startswith(("landed", "there"))]
    if as_json:
        left_out = [each for each in record.left_out if each.order in missed]
        landed = [order for order in fates if order not in missed]
        found = {"branch": record.branch, "tip": record.tip, "landed": landed, "left_out": left_out, "unchanged": idle}
        show_json(found | {"fates": fates})
    else:
        for order, fate in [*((order, "nothing: it changed nothing") for order in idle), *fates.items()]:
            click.echo(f"{order}  {fate}")
        if record.paused is not None:
            click.echo(f"the train of {record.branch} is stopped: {record.paused.what}")
    sys.exit(FAILED if missed or record.paused is not None else 0)


@land.command("ls")
@json_option
def ls(as_json: bool) -> None:
    """List trains: queued work, running checks, and the age of the oldest entry."""
    found = with_bus(trains.trains)
    if as_json:
        return show_json([{"name": name, **_facts(record)} for name, record in found.items()])
    rows = [["TRAIN", "BRANCH", "WAITING", "OLDEST", "CHECKING", "LANDED", "LEFT OUT", "REPOSITORY"]]
    for name, record in found.items():
        facts = _facts(record)
        oldest = age(facts["oldest"]) if facts["oldest"] else "-"
        state = "paused" if record.paused else "delayed" if record.delay else str(facts["checking"])
        counts = [str(record.landed), str(len(facts["left_out"]))]
        rows.append([name, record.branch, str(len(record.queue)), oldest, state, *counts, record.repository])
    table(rows)
    for name, record in found.items():
        if record.paused or record.delay:
            click.echo(f"{name}  {views.held_up(record)}")


def _facts(record: TrainRecord) -> dict[str, Any]:
    out = {each.order for each in changes.each(record) if each.state == "left out"}
    return {
        "repository": record.repository,
        "branch": record.branch,
        "verify": record.verify,
        "tip": record.tip,
        "waiting": [each.order for each in record.queue],
        "oldest": min((each.at for each in record.queue), default=None),
        "checking": sum(not car.verdict for car in (*record.row, *record.apart)),
        "landed": record.landed,
        "checks": record.checks,
        "flaky": record.flaky,
        "require": record.require,
        "slots": record.slots,
        "policy": record.policy,
        "checks_on": record.checks_on,
        "paused": record.paused,
        "delay": record.delay,
        "back": record.back,
        "reconciler": record.reconciler,
        "notes": record.notes,
        "left_out": [each for each in record.left_out if each.order in out],
    }


@land.command("show")
@click.argument("name", metavar="TRAIN|BRANCH")
@json_option
def show(name: str, as_json: bool) -> None:
    """Show a train: its merges, check results, and what was left out and why."""
    found, record = with_bus(lambda bus: _find(bus, name))
    if as_json:
        return show_json({"name": found, **_facts(record), "row": record.row, "apart": record.apart})
    click.echo(f"train    {found}: {record.branch} of {record.repository}, at {record.tip[:10] or 'unknown'}")
    click.echo(
        f"check    {record.verify or 'none'}, {record.slots} at once; {record.checks} so far, {record.flaky} flaky"
    )
    if record.require:
        click.echo(f"requires {record.require}")
    if note := queue.check_note(record):
        click.echo(f"         {note}")
    if state := views.held_up(record):
        click.echo(state)
    for title, cars in (("row", record.row), ("alone", record.apart)):
        for car in cars:
            click.echo(f"{title:8} {', '.join(car.orders)} on {car.on[:10]}: {car.verdict or 'not checked yet'}")
    for each in changes.each(record):
        if each.state != "landed":
            state = each.words if each.rides else each.why
            click.echo(f"{each.state:8} {each.order}  {one_line(each.title)}  for {age(each.at)}: {state}")
        for line in each.output.splitlines()[-5:] if each.state == "left out" else ():
            click.echo(f"           {line}")


async def _find(bus: Bus, name: str) -> tuple[str, TrainRecord]:
    found = await trains.trains(bus)
    fitting = [(each, record) for each, record in found.items() if each.startswith(name) or record.branch == name]
    here = [(each, record) for each, record in fitting if os.path.realpath(record.repository) == _here()]
    fitting = here or fitting
    if len(fitting) != 1:
        names = ", ".join(f"{each} ({record.branch})" for each, record in found.items()) or "none"
        raise NotFound(f"{len(fitting)} trains match {name!r}", hint=f"there are: {names}")
    return fitting[0]


def _here() -> str:
    """The checkout that this is typed in."""
    found = checkouts.find(os.getcwd())
    return os.path.realpath(found.top) if found is not None else ""


@land.command("explain")
@click.argument("order", metavar="ORDER")
@json_option
def explain(order: str, as_json: bool) -> None:
    """Show an order's progress towards the branch: why it waits, who is fixing it, or the landed commit."""

    async def work(bus: Bus, found: str) -> tuple[list[dict[str, Any]], str]:
        known = await views.explained(bus, found)
        return known, "" if known else await views.not_in_a_train(bus, found)

    explained, why = with_order(order, work)
    if as_json:
        return show_json(explained)
    for line in [why] if why else [line for each in explained for line in each["lines"]]:
        click.echo(line)


@land.command("set")
@click.argument("name", metavar="TRAIN|BRANCH")
@click.option("--verify", default="", metavar="COMMAND", help="The check.")
@click.option("--setup", default="", metavar="COMMAND", help="Setup command for the directory of each check.")
@click.option("--slots", default=0, metavar="N", help="Number of parallel checks.")
@click.option("--policy", type=click.Choice(["auto", "serial"]), help="serial: one at a time.")
@click.option(
    "--require",
    type=click.Choice(["passed", "tested", "proven"]),
    help="Evidence required to land; a person is asked about anything weaker. Default: passed.",
)
@click.option("--checks", type=click.Choice(["here", "nodes"]), help="Run checks here, or as orders on any node.")
@click.option(
    "--reconciler",
    metavar="AGENT",
    help="Agent for conflicts that the author could not resolve (default: the author's agent).",
)
@click.option("--notes/--no-notes", default=None, help="Write git-ai notes and Agent Trace records for landed work.")
def set_train(name: str, verify: str, setup: str, slots: int, checks: str | None, **options: Any) -> None:
    """Change a train's checks and its helping agent. Work checked with other settings is checked again."""

    async def work(bus: Bus) -> None:
        train, _ = await _find(bus, name)
        given = {"checks_on": checks, **options}
        fields = {key: value for key, value in given.items() if value is not None}
        if fields.get("require") == LEVELS[0]:
            fields["require"] = ""

        def changed(record: TrainRecord) -> TrainRecord:
            made = replace(queue.configured(record, verify, setup, slots), **fields)
            return made if made.require == record.require else replace(made, row=(), apart=())

        await trains.change(bus, train, changed)

    with_bus(work)


@land.command("revert")
@click.argument("names", metavar="[ORDER]...", nargs=-1)
@click.option("--goal", default="", metavar="GOAL", help="Revert everything that this goal landed.")
@click.option("--branch", default="", metavar="NAME", help="The branch, if they landed on several.")
@click.option("--agent", default="", metavar="AGENT", help="Agent for reverts that conflict.")
@json_option
def revert(names: tuple[str, ...], goal: str, branch: str, agent: str, as_json: bool) -> None:
    """Revert what these orders or a goal landed, latest first. The revert is an order and lands like any other.

    Exits with 0 if the revert landed.
    """

    async def work(bus: Bus) -> tuple[str, str]:
        say: Callable[[str], None] = (lambda text: None) if as_json else click.echo
        wanted = [await client.resolve(bus, name) for name in names] or await _landed_of_goal(bus, goal, branch)
        train, made = await trains.revert(bus, wanted, branch=branch, agent=agent)
        say(f"reverts  as {made}")
        order = await client.wait(bus, made)
        if order.state != "done":
            hint = "it cannot be taken back simply: --agent NAME lets an agent do it" if not agent else ""
            raise LocalError(f"the order {made} {order.state}: {order.why}", hint=hint)
        await trains.board(bus, train, [made])
        record, _ = await trains.load(bus, train)
        done = await trains.Train(bus, train, record, say=say).run(lambda found: _is_out(found, made))
        return made, await views.fate(bus, train, done, made)

    if bool(names) == bool(goal):
        raise click.UsageError("Name the orders, or a goal with --goal.")
    made, fate = with_bus(work)
    show_json({"order": made, "fate": fate}) if as_json else click.echo(f"{made}  {fate}")
    sys.exit(0 if fate.startswith("landed") else FAILED)


async def _landed_of_goal(bus: Bus, name: str, branch: str) -> list[str]:
    record, _ = await store.load(bus, await store.resolve(bus, name))
    orders = [order for step in record.steps.values() for order in step.orders]
    found = await trains.landed_of(bus, orders, branch or record.branch)
    if not found:
        where = branch or record.branch
        raise NotFound(f"the goal {record.id} has landed nothing on {where}", hint=f"`treadle goal show {record.id}`")
    return found


def _is_out(record: TrainRecord, order: str) -> bool:
    return record.paused is not None or all(each.order != order for each in record.queue)


@land.command("pause")
@click.argument("name", metavar="TRAIN|BRANCH")
@click.option("--why", default="", metavar="TEXT", help="The reason to show to others.")
def pause(name: str, why: str) -> None:
    """Pause a train: it merges, checks and lands nothing until `resume`. A landing in progress is finished."""
    _set_pause(name, why or "paused")


@land.command("resume")
@click.argument("name", metavar="TRAIN|BRANCH")
def resume(name: str) -> None:
    """Resume a paused or stopped train. `treadle land` then continues it."""
    _set_pause(name, "")


def _set_pause(name: str, why: str) -> None:
    async def work(bus: Bus) -> None:
        train, _ = await _find(bus, name)
        note = Note(at=time.time(), by=me(), what=why) if why else None
        await trains.steer(bus, train, note)

    with_bus(work)


@land.command("eject")
@click.argument("order", metavar="ORDER")
def eject(order: str) -> None:
    """Remove an order's change from its train. The work itself is not deleted."""

    async def work(bus: Bus, found: str) -> None:
        out = LeftOut(order=found, kind="person", why="taken out by a person", at=time.time())
        train = await _holding(bus, found)
        helping = returned.of((await trains.load(bus, train))[0], found)
        await trains.change(bus, train, lambda record: queue.left_out(returned.without(record, found), out))
        await call_off(bus, helping)

    with_order(order, work)


async def _holding(bus: Bus, order: str) -> str:
    """The train that has this order in its queue or has sent it back."""
    for name, record in (await trains.trains(bus)).items():
        if any(each.order == order for each in record.queue) or returned.of(record, order):
            return name
    raise NotFound(f"{order} is in no train", hint="`treadle land ls` and `treadle land show BRANCH`")


# `treadle blame FILE:LINE`: which order a line came from, why, and for how much.


@click.command("blame")
@click.argument("place", metavar="FILE:LINE")
@click.option(
    "--at",
    "revision",
    default="",
    metavar="COMMIT",
    help="Read the line at this commit or branch. Default: as it is now.",
)
@json_option
def blame(place: str, revision: str, as_json: bool) -> None:
    """Show which order wrote a line, what was asked, and its cost.

    The order is named in the commit, so every clone can show it. The request and the cost are shown while the fleet
    still stores the order. A line that no order wrote is shown with its commit.
    """
    path, line = place_of(place)
    found, asked = origin(path, line, revision), ""
    if found.order:
        found, asked = run_async(_with_fleet(found))
    if as_json:
        return show_json(found)
    click.echo(f"{found.file}:{found.line}  {printable(found.text)}")
    day = time.strftime("%Y-%m-%d %H:%M", time.localtime(found.at))
    if not found.order:
        click.echo(f"no order: commit {found.commit[:12]} of {day} by {found.author}: {one_line(found.subject)}")
    for name, value in _origin_facts(found, day).items() if found.order else ():
        if value:
            click.echo(f"{name:9} {value}")
    if asked:
        click.echo(f"          {asked}")
    for claim in found.claims:
        click.echo(f"claimed   {one_line(_claim(claim))}")


def _origin_facts(found: LineOrigin, day: str) -> dict[str, str]:
    proofs = {
        True: "the fleet recorded this landing",
        False: "none: someone else made this commit; it is not the landing that the fleet recorded, or not of its tree",
        None: "not here: order, goal, agent and receipt are claimed by the commit",
    }
    cost = "not known here" if found.used is None else "nothing was measured" if not found.used.tokens else ""
    return {
        "order": found.order + (f", for {found.first}, which had been sent back" if found.first else ""),
        "goal": one_line(found.goal),
        "why": one_line(found.task or found.title)[:400],
        "agent": one_line(found.agent),
        "cost": cost or money(found.used),
        "landed": f"{found.commit[:12]} of {day}",
        "proof": proofs[found.proved],
        "checked": f"{one_line(found.verify) or 'yes'}, tree {found.tree[:12]}" if found.tree else "",
        "receipt": f"sha256 {found.receipt}" if found.receipt else "",
    }


def _claim(claim: AuthorClaim) -> str:
    model = f" ({claim.model})" if claim.model else ""
    session = f", {claim.session}" if claim.session else ""
    copied = f", as recorded of {claim.commit[:12]}" if claim.commit else ""
    return f"by {claim.source}: {claim.kind} {claim.author}{model}{session}{copied}"


async def _with_fleet(found: LineOrigin) -> tuple[LineOrigin, str]:
    """With what the fleet knows, and why it could not be asked, if so."""
    try:
        async with connected() as bus:
            return await with_fleet_records(bus, found), ""
    except TreadleError as error:
        return found, f"the fleet was not asked: {error}"
