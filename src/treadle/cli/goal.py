"""`treadle goal`: plans of goals, checked before anything runs, brought in from other tools, and carried out."""

import os
import sys
from typing import Any

import click

from treadle.cli import goal_running
from treadle.cli.as_json import json_option, show_json
from treadle.cli.goal_running import budget_words, markdown_in, text_of
from treadle.errors import ConfigError
from treadle.io.files import write_atomic
from treadle.io.process.loop import run_async

NAMES = ("checklist", "tasks", "beads", "taskmaster")


@click.group()
def goal() -> None:
    """Carry a goal out: a plan that people can read, done by agents, reviewed, landed and judged.

    \b
    treadle goal import TODO.md            a checklist becomes goal.toml
    treadle goal check goal.toml           waves, overlaps, briefs, tokens, and every mistake with its line
    treadle goal run goal.toml             carry it out; the fleet goes on also when this command ends
    treadle goal explain ID                what each of its orders does or waits for
    """


for _command in goal_running.COMMANDS:
    goal.add_command(_command)


@goal.command("check")
@click.argument("path", metavar="FILE", type=click.Path(exists=True, dir_okay=False))
@click.option("--root", default=".", metavar="DIR", help="The repository that the plan is for. Default: here.")
@click.option("--no-budget", is_flag=True, help="Do not require a budget.")
@click.option("--run", "run_", is_flag=True, help="Also run its commands on the branch as it is, confined.")
@json_option
def check(path: str, root: str, no_budget: bool, run_: bool, as_json: bool) -> None:
    """Explain the plan in FILE: its waves, overlapping claims, briefs and tokens. Finds every mistake, with its line.

    Nothing is written, and without --run nothing runs. With it, `verify`, `done` and each `accept` are tried in fresh
    directories: acceptance that passes already, and programs that are not there, are reported. Exits with 1 when the
    plan has mistakes.
    """
    from treadle.goals.check import check as checked

    text = text_of(path)
    found = checked(text, os.path.realpath(root), budget_required=not no_budget)
    if run_ and found.plan is not None and not found.mistakes:
        from msgspec.structs import replace

        from treadle.goals.trying import tried

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
    for name, cost in (("all briefs", found.delta), ("restating the plan to each", found.restated)):
        click.echo(f"  {name}: {cost.uncached}, or {cost.cached} where beginnings are cached at a tenth of the price")


@goal.command("import")
@click.argument("path", metavar="FILE|DIR", type=click.Path(exists=True))
@click.option("--from", "kind", type=click.Choice(NAMES), help="What it is. Default: seen from its contents.")
@click.option("--out", default="goal.toml", show_default=True, metavar="FILE", help="Where the plan goes; - prints it.")
@click.option("--force", is_flag=True, help="Replace FILE if it is there.")
def import_(path: str, kind: str | None, out: str, force: bool) -> None:
    """Make a plan of a checklist, a directory of Markdown tasks, beads' issues.jsonl or Task Master's tasks.json.

    Tasks that are done are left out. The plan names its source, so a person is always asked before it runs; what other
    tools do not have (done, budget, claims, accept) is yours to fill in, and `treadle goal check` says where.
    """
    from treadle.goals.imported import to_toml

    if out != "-" and os.path.lexists(out) and not force:
        raise ConfigError(f"{out} is there already", hint="name another file with --out, or give --force")
    plan = _imported(path, kind)
    text = to_toml(plan)
    if out == "-":
        click.echo(text, nl=False)
        return
    write_atomic(out, text.encode(), 0o644)
    click.echo(f"{out}: {len(plan.order)} orders from {path}; `treadle goal check {out}` says what to fill in")


def _imported(path: str, kind: str | None) -> Any:
    from treadle.goals import imported

    name = os.path.basename(os.path.normpath(path))
    if os.path.isdir(path):
        return imported.read_tasks(name, markdown_in(path))
    text = text_of(path)
    return imported.read_list(kind or imported.kind_of(path, text), name, text)  # type: ignore[arg-type]


@goal.command("export")
@click.argument("path", metavar="FILE", type=click.Path(exists=True, dir_okay=False))
@click.option("--to", "kind", type=click.Choice(("beads", "taskmaster")), required=True, help="For which tool.")
def export(path: str, kind: str) -> None:
    """Print the plan in FILE as beads' JSON lines or as Task Master's tasks.json."""
    from treadle.goals import imported
    from treadle.wire.goal.reading import read as read_plan

    plan, mistakes = read_plan(text_of(path), budget_required=False)
    if plan is None:
        raise ConfigError(
            f"{path}:{mistakes[0].line}: {mistakes[0].what}", hint=f"`treadle goal check {path}` says more"
        )
    click.echo((imported.to_beads if kind == "beads" else imported.to_taskmaster)(plan), nl=False)
