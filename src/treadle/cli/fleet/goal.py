"""`treadle goal`: plans of goals, made by agents, checked before anything runs, and carried out."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from treadle.cli.as_json import json_option, show_json
from treadle.cli.fleet.common import FAILED, age, fleet_command, money, table, with_bus
from treadle.cli.render import printable
from treadle.errors import ConfigError, TreadleError
from treadle.fleet import client
from treadle.fleet.orders import PERSON
from treadle.goals import commands, planner, store
from treadle.goals.briefing import outcome_of
from treadle.goals.store import resolve
from treadle.goals.waves import waves
from treadle.io.files import read, write_atomic
from treadle.io.process.loop import run_async
from treadle.wire.fleet.records import Used
from treadle.wire.goal.plan import GoalBudget

if TYPE_CHECKING:
    from treadle.fleet.engine.bus import Bus
    from treadle.wire.goal.records import GoalRecord


# Goals that are carried out: `treadle goal plan|run|ls|show|explain|report|change|pause|resume|stop|say`.

ASKED_SECONDS = 1.0
fallback_option = click.option(
    "--fallback",
    multiple=True,
    metavar="AGENT",
    help="Agent that takes over when an order's agent cannot continue. Repeatable.",
)
BUDGET = ("tokens", "usd", "hours", "orders")


@click.command("run")
@click.argument("plan", metavar="FILE|ID")
@click.option("--root", default=".", metavar="DIR", help="The repository. Default: the current directory.")
@click.option("--no-budget", is_flag=True, help="Run without a budget.")
@fallback_option
@click.option("--detach", is_flag=True, help="Print the goal's id and return at once.")
@json_option
def run(plan: str, root: str, no_budget: bool, fallback: tuple[str, ...], detach: bool, as_json: bool) -> None:
    """Carry out the plan in FILE, or wait for the goal ID, and print its progress.

    The fleet does the work (start it with `treadle fleet up`); Ctrl-C stops only this command. A plan that is already
    running is not started twice. Exits with 0 if the goal is met, and with 3 if it was stopped.
    """

    record = with_bus(
        lambda bus: _begun(bus, plan, root, no_budget, None if as_json else click.echo, fallback=fallback)
    )
    if not detach:
        record = with_bus(lambda bus: _followed(bus, record.id, quiet=as_json))
    if as_json:
        show_json(record)
    elif not detach:
        click.echo(f"{record.state}: {record.why}")
    sys.exit(FAILED if record.state == "stopped" else 0)


async def _begun(
    bus: Bus, plan: str, root: str, no_budget: bool, say: Callable[[str], None] | None, **more: Any
) -> GoalRecord:
    name, new = "", False
    if os.path.isfile(plan):
        name, new = await commands.begin(bus, text_of(plan), root, budget_required=not no_budget, **more)
        if say is not None:
            say(f"goal {name} {'begins' if new else 'is already running'}")
    return (await store.load(bus, name or await store.resolve(bus, plan)))[0]


async def _followed(bus: Bus, name: str, *, quiet: bool) -> GoalRecord:
    news = _GoalNews()
    asking = asyncio.create_task(news.questions(bus, name)) if not quiet else None
    try:
        async for record in commands.follow(bus, name):
            if not quiet:
                news(record)
        return record
    finally:
        if asking is not None:
            asking.cancel()


class _GoalNews:
    """Says what changed since the record before."""

    def __init__(self) -> None:
        self.steps: dict[str, str] = {}
        self.asked: set[str] = set()
        self.state = "running"

    def __call__(self, record: GoalRecord) -> None:
        for name, step in record.steps.items():
            if self.steps.get(name, "waiting") != step.state:
                why = f": {step.why.splitlines()[0]}" if step.why else ""
                click.echo(f"  {name}: {step.state}{why}")
            self.steps[name] = step.state
        if record.state == "paused" != self.state:
            click.echo(f"paused: {record.why}; `treadle goal resume {record.id}`", err=True)
        self.state = record.state

    async def questions(self, bus: Bus, name: str) -> None:
        """Say what its agents ask, for as long as this runs."""
        while True:
            with contextlib.suppress(TreadleError):  # the engine is away: what is asked meanwhile is said later
                for ask in await client.approvals(bus):
                    key = f"{ask.order} {ask.number}"
                    if key in self.asked:
                        continue
                    spec = await client.get_spec(bus, ask.order)
                    if spec.project == name:
                        words = [ask.title, *ask.text.splitlines()] if spec.agent == PERSON else [ask.words]
                        click.echo(f"{ask.order} asks: " + "\n    ".join(map(printable, words)), err=True)
                        click.echo(f"    `treadle fleet answer {ask.order} allow|deny`", err=True)
                    self.asked.add(key)
            await asyncio.sleep(ASKED_SECONDS)


def _show_goals(found: list[GoalRecord]) -> None:
    rows = [["GOAL", "STATE", "LANDED", "ORDERS", "USED", "AGE", "WHAT"]]
    for each in found:
        counts = [sum(step.state in ("landed", "answered") for step in each.steps.values()), len(each.steps)]
        rows.append(
            [
                each.id,
                each.shown_state,
                f"{counts[0]} of {counts[1]}",
                str(each.placed),
                _used(each),
                age(each.began),
                each.goal,
            ]
        )
    table(rows)


@fleet_command("ls", _show_goals)
async def ls(bus: Bus) -> Any:
    """List the goals, the latest first."""
    return await commands.counted(bus, (await commands.goals(bus)).values())


def _used(record: GoalRecord) -> str:
    total = Used()
    for each in record.used.values():
        total = total.plus(each)
    return money(total)


@click.command("show")
@click.argument("name", metavar="ID")
@json_option
def show(name: str, as_json: bool) -> None:
    """Show a goal: its waves, the state of each order, open questions, and use of the budget."""

    async def work(bus: Bus) -> tuple[GoalRecord, Any]:
        found, plan = await commands.show(bus, name)
        return (await commands.counted(bus, [found]))[0], plan

    record, plan = with_bus(work)
    if as_json:
        return show_json({"goal": record, "plan": plan})
    click.echo(f"goal    {record.id}: {record.goal}")
    click.echo(f"state   {record.shown_state}{f': {record.why}' if record.why else ''}, for {age(record.began)}")
    click.echo(f"lands   on {record.branch} of {record.root}")
    click.echo(f"used    {_used(record)}, {record.placed} orders of {budget_words(plan.budget)}")
    width = max(len(each) for each in record.steps)
    for wave in waves(plan)[0]:
        click.echo(f"\nwave {wave.number}")
        for each in wave.orders:
            step = record.steps[each]
            click.echo(f"  {each:{width}}  {outcome_of(step).splitlines()[0]}{f'  {step.order}' if step.order else ''}")
    for about, order in record.asked_now.items() if not record.ended else ():
        click.echo(f"\nasks about {about}: `treadle fleet answer {order} allow|deny`")


def budget_words(budget: Any) -> str:
    if budget is None:
        return "none"
    units = (("tokens", "tokens"), ("usd", "USD"), ("hours", "h"), ("orders", "orders"))
    return ", ".join(f"{value:,.12g} {unit}" for name, unit in units if (value := getattr(budget, name)) is not None)


@click.command("report")
@click.argument("name", metavar="ID")
@click.option("--out", default="-", metavar="FILE", help="Write to this file. Default: standard output.")
@json_option
def report(name: str, out: str, as_json: bool) -> None:
    """Report on a goal: the request, what landed, who did it, tokens by role, and dropped orders.

    Prints Markdown, or the data with --json.
    """
    if as_json and out != "-":
        raise ConfigError("--json is printed", hint="leave out --out")
    found = with_bus(lambda bus: commands.report(bus, name))
    if as_json:
        return show_json(found)
    text = found.text
    if out == "-":
        click.echo(text, nl=False)
    else:
        write_atomic(out, text.encode(), 0o644)
        click.echo(out)


def _show_version(record: GoalRecord) -> None:
    click.echo(f"goal {record.id} has version {record.plan} of its plan, {len(record.steps)} orders")


@fleet_command("change", _show_version, of=resolve, metavar="ID")
@click.argument("path", metavar="FILE", type=click.Path(exists=True, dir_okay=False))
async def change(bus: Bus, goal: str, path: str) -> Any:
    """Replace a running goal's plan with FILE. Orders that have started must be unchanged."""
    return await commands.change(bus, goal, text_of(path))


@click.command("plan")
@click.argument("goal", metavar="TEXT", required=False)
@click.option(
    "--from",
    "source",
    default="",
    metavar="FILE|DIR|ISSUE",
    help="Read the goal from a file, a directory of Markdown tasks or an issue: github#12 (of the remote origin), "
    "github:OWNER/NAME#12, or its address. Forges from extensions work the same way.",
)
@click.option(
    "--token",
    default="",
    metavar="NAME",
    help="The environment variable with the forge's token. Default: GITHUB_TOKEN, or the forge's usual one.",
)
@click.option(
    "--agent", default="", metavar="NAME", help="The planning agent. Default: the one in your settings, or native."
)
@click.option("--model", default="", metavar="NAME", help="Its model.")
@click.option("--root", default=".", metavar="DIR", help="The repository. Default: the current directory.")
@fallback_option
@click.option("--tokens", type=int, metavar="N", help="The budget of the goal.")
@click.option("--usd", type=float, metavar="USD", help="The budget of the goal.")
@click.option("--hours", type=float, metavar="H", help="The budget of the goal.")
@click.option("--orders", type=int, metavar="N", help="The budget of the goal.")
@click.option("--out", default="goal.toml", show_default=True, metavar="FILE", help="The plan file to write.")
@click.option("--force", is_flag=True, help="Overwrite FILE if it exists.")
@click.option("--go", is_flag=True, help="Start the goal at once. A plan from a file still waits at its gate.")
@json_option
def plan_(
    goal: str | None, source: str, token: str, go: bool, out: str, force: bool, as_json: bool, **options: Any
) -> None:
    """Let an agent write a plan for TEXT. It reads the repository in a read-only sandbox.

    Several planners share a large goal. The agent corrects mistakes found in the plan before it is written to FILE. On
    a terminal, $EDITOR then opens it.
    """
    if bool(goal) == bool(source):
        raise ConfigError(
            "describe the goal, in words or with --from FILE", hint='as in treadle goal plan "Export CSV"'
        )
    if os.path.lexists(out) and not force:
        raise ConfigError(f"{out} already exists", hint="name another file with --out, or give --force")
    if go and not any(options[name] for name in BUDGET):
        raise ConfigError("a goal that runs at once needs a budget", hint="give --tokens, --usd, --hours or --orders")
    name, words = _source(source, options["root"], token) if source else ("", goal or "")
    made = with_bus(lambda bus: _planned(bus, words, name, options))
    write_atomic(out, made.text.encode(), 0o644)
    if as_json and not go:
        from msgspec import structs

        return show_json({"file": out, **structs.asdict(made)})
    say = (lambda line: click.echo(line, err=True)) if as_json else click.echo
    say(f"{out}: planned by {made.order}, {made.used.tokens} tokens, {made.tries} tries")
    if sys.stdin.isatty() and sys.stdout.isatty() and not as_json:
        click.edit(filename=out)
    if go:
        record = with_bus(lambda bus: _begun(bus, out, options["root"], False, say, planner=made.used))
        record = with_bus(lambda bus: _followed(bus, record.id, quiet=as_json))
        if as_json:
            show_json(record)
        else:
            click.echo(f"{record.state}: {record.why}")
        sys.exit(FAILED if record.state == "stopped" else 0)
    click.echo(f"`treadle goal check {out}` explains it, `treadle goal run {out}` carries it out")


def _source(source: str, root: str, token: str) -> tuple[str, str]:
    """What the plan calls its source, and what that asks for."""
    if planner.is_issue(source):
        return source, run_async(planner.issue(source, root, token))
    name = os.path.basename(os.path.normpath(source))
    return name, planner.tasks(name, markdown_in(source)) if os.path.isdir(source) else text_of(source)


async def _planned(bus: Bus, goal: str, source: str, options: Any) -> Any:
    limits = {name: options[name] for name in BUDGET if options[name] is not None}
    budget = GoalBudget(**limits) if limits else None
    given = {name: options[name] for name in ("root", "agent", "model", "fallback")}
    return await planner.plan(bus, goal, **given, budget=budget, source=source)


def _show_steps(found: dict[str, str]) -> None:
    for step, what in found.items():
        click.echo(f"  {step}: {what}" if step else what)


@fleet_command("explain", _show_steps, of=resolve, metavar="ID")
async def explain(bus: Bus, goal: str) -> Any:
    """Show what a goal and each of its orders does or waits for."""
    return await commands.explain(bus, goal)


@fleet_command("pause", of=resolve, metavar="ID")
@click.option("--why", default="", metavar="TEXT", help="The reason to show to others.")
@click.option("--now", is_flag=True, help="Also pause running agents at their next step.")
async def pause(bus: Bus, goal: str, why: str, now: bool) -> Any:
    """Start no more orders of a goal until `resume`. Paused time does not count towards the budget."""
    return await commands.pause(bus, goal, why=why, now=now)


@fleet_command("resume", of=resolve, metavar="ID")
async def resume(bus: Bus, goal: str) -> Any:
    """Resume a paused goal."""
    return await commands.resume(bus, goal)


@fleet_command("stop", of=resolve, metavar="ID")
@click.option("--why", default="", metavar="TEXT", help="The reason to show to others.")
async def stop(bus: Bus, goal: str, why: str) -> Any:
    """Stop a goal and cancel its running orders. Landed work stays on the branch."""
    return await commands.stop(bus, goal, why=why)


def _show_outcomes(outcomes: dict[str, str]) -> None:
    for step, outcome in outcomes.items():
        click.echo(f"{step}: {outcome}")


@fleet_command("say", _show_outcomes, of=resolve, metavar="ID")
@click.argument("text", metavar="TEXT")
async def say(bus: Bus, goal: str, text: str) -> Any:
    """Send a message to all agents of a goal, also those that start later."""
    return await commands.say(bus, goal, text)


def markdown_in(path: str) -> dict[str, str]:
    """The Markdown files of a directory: each is one task."""
    files = sorted(each for each in os.listdir(path) if each.endswith(".md"))
    if not files:
        raise ConfigError(f"{path} has no Markdown files", hint="each .md file in it is one task")
    return {each: text_of(os.path.join(path, each)) for each in files}


def text_of(path: str) -> str:
    try:
        return read(path).decode("utf-8")
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is not UTF-8: {error}") from None


COMMANDS = (plan_, run, ls, show, explain, report, change, pause, resume, stop, say)


# The group itself, and plans before they run.


@click.group()
def goal() -> None:
    """Carry out a goal: agents plan it, do the work, review it and land it.

    \b
    treadle goal plan --from TODO.md       an agent writes the plan, goal.toml
    treadle goal check goal.toml           check the plan; show its waves, overlaps and token estimates
    treadle goal run goal.toml             carry it out; the fleet continues if you stop this command
    treadle goal explain ID                show what each order does or waits for
    """


for _command in COMMANDS:
    goal.add_command(_command)


@goal.command("check")
@click.argument("path", metavar="FILE", type=click.Path(exists=True, dir_okay=False))
@click.option("--root", default=".", metavar="DIR", help="The plan's repository. Default: the current directory.")
@click.option("--no-budget", is_flag=True, help="Do not require a budget.")
@click.option("--run", "run_", is_flag=True, help="Also run the plan's commands on the branch, in the sandbox.")
@json_option
def check(path: str, root: str, no_budget: bool, run_: bool, as_json: bool) -> None:
    """Check the plan in FILE and show its waves, overlapping claims, briefs and tokens.

    Nothing is written. With --run, `verify`, `done` and each `accept` run in fresh directories, to find acceptance
    checks that already pass and missing programs. Each mistake is shown with its line, and then the exit code is 1.
    """
    from treadle.goals.check import check as checked

    text = text_of(path)
    found = checked(text, os.path.realpath(root), budget_required=not no_budget)
    if run_ and found.plan is not None and not found.mistakes:
        from msgspec.structs import replace

        from treadle.goals.check import tried

        notes = run_async(tried(text, found.plan, os.path.realpath(root)))
        found = replace(found, notes=tuple(sorted((*found.notes, *notes))))
    if as_json:
        show_json(found)
    else:
        _show(found, path)
    sys.exit(1 if found.mistakes else 0)


def _show(found: Any, path: str) -> None:
    for mistake in found.mistakes:
        _show_mistake(path, mistake)
    if found.mistakes:
        count = len(found.mistakes)
        click.echo(f"{count} mistake{'s' if count > 1 else ''}; a plan with mistakes does not run")
        return
    plan = found.plan
    click.echo(f"goal    {plan.goal}")
    click.echo(f"done    {plan.done}")
    click.echo(f"lands   on {plan.branch}{f', checked by {plan.verify}' if plan.verify else ''}")
    click.echo(f"budget  {budget_words(plan.budget)}")
    click.echo(f"asks    {', '.join(plan.gated) if plan.gated != ('none',) else 'no one'}")
    _show_waves(found)
    if found.overlaps:
        click.echo("\noverlapping claims, so the second goes a wave later")
    for overlap in found.overlaps:
        click.echo(f"  {overlap.first} and {overlap.second}: {' and '.join(dict.fromkeys(overlap.claims))}")
    _show_cost(found)
    for note in found.notes:
        _show_mistake(path, note, "note: ")


def _show_mistake(path: str, mistake: Any, kind: str = "") -> None:
    where = f"{mistake.place}: " if mistake.place else ""
    click.echo(f"{path}:{mistake.line}: {kind}{where}{mistake.what}{f' ({mistake.hint})' if mistake.hint else ''}")


def _show_waves(found: Any) -> None:
    orders = {order.id: order for order in found.plan.order}
    width = max(map(len, orders))
    for wave in found.waves:
        click.echo(f"\nwave {wave.number}")
        for name in wave.orders:
            order = orders[name]
            title = order.title or order.task.strip().split("\n", 1)[0]
            click.echo(f"  {name:{width}}  {title[:90]}")
            more = [f"after {', '.join(order.after)}"] if order.after else []
            more += [f"claims {', '.join(order.claims)}"] if order.claims else []
            more += [] if order.land else ["does not land"]
            if more:
                click.echo(f"  {'':{width}}  {'; '.join(more)}")


def _show_cost(found: Any) -> None:
    click.echo("\nbriefs, in tokens (estimated)")
    width = max(len(brief.order) for brief in found.briefs)
    for brief in found.briefs:
        capsules = f" + at most {brief.capsules} of capsules" if brief.capsules else ""
        click.echo(f"  {brief.order:{width}}  {brief.shared} shared by its wave + {brief.own} of its own{capsules}")
    click.echo(f"  all briefs: {sum(each.shared + each.own + each.capsules for each in found.briefs)}")
