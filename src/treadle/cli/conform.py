"""`treadle conform`: does a program keep its protocol?"""

import importlib
import os
import shlex
import shutil
import sys
from collections.abc import Callable, Sequence

import click

from treadle.cli.as_json import json_option, show_json
from treadle.conform.kit import Candidate, Kit, Ruling, as_data, counts, judge, junit, summary, table
from treadle.io.files import write_atomic
from treadle.io.process.loop import run_async

KITS = {
    "worker": "treadle.conform.worker",
    "sidecar": "treadle.conform.sidecar",
    "oneshot": "treadle.conform.oneshot",
    "acp": "treadle.conform.acp",
    "mcp": "treadle.conform.mcp",
    "ledger": "treadle.conform.ledger",
    "terminal": "treadle.conform.terminal",
}
MARKS = {"kept": ("ok", "green"), "broken": ("NO", "red"), "untried": ("--", "yellow")}


@click.command(context_settings={"help_option_names": ["-h", "--help"], "ignore_unknown_options": True})
@click.argument("protocol", type=click.Choice(tuple(KITS)))
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
@click.option("--against", metavar="COMMAND", help="Test this program too, and show both side by side.")
@click.option("--only", default="", metavar="TEXT", help="Test only clauses that contain this text.")
@click.option("--model", default="conform/model", metavar="NAME", help="The model name given to the program.")
@click.option("--env", multiple=True, metavar="NAME=VALUE", help="Set a variable for the program. Repeatable.")
@click.option("--timeout", default=30.0, metavar="SECONDS", help="Timeout for each response (default: 30).")
@click.option("--junit", "junit_file", metavar="FILE", help="Write a JUnit report, for CI.")
@json_option
def conform(
    protocol: str,
    command: tuple[str, ...],
    *,
    against: str | None,
    only: str,
    model: str,
    env: tuple[str, ...],
    timeout: float,
    junit_file: str | None,
    as_json: bool,
) -> None:
    """Test a program's conformance to a protocol, clause by clause.

    \b
      treadle conform worker -- treadle-worker
      treadle conform worker -- ./my-worker --flag
      treadle conform worker --against "heddle-headless" --junit out.xml -- ./my-worker

    Each clause starts the program in an empty directory and points it at a scripted model through the usual variables
    (OPENAI_BASE_URL, ANTHROPIC_BASE_URL, HEDDLE_BASE_URL, ...), so it needs no key and costs nothing. The program is
    not sandboxed. Exit code 0: all tested clauses pass; 1: some fail.
    """
    kit: Kit = importlib.import_module(KITS[protocol]).KIT
    variables = _variables(env)
    found: dict[str, list[Ruling]] = {}
    for words in (command, *([tuple(shlex.split(against))] if against else [])):
        candidate = Candidate(command=_absolute(words), env=variables, model=model, patience=timeout)
        found[shlex.join(words)] = run_async(judge(kit, candidate, only=only, tell=None if as_json else _teller()))
    if not next(iter(found.values())):
        raise click.UsageError(f"no clause of {protocol} has {only!r} in it: leave out --only to see all")
    if junit_file:
        write_atomic(junit_file, junit(kit, *next(iter(found.items()))))
    _show(kit, found, as_json=as_json)
    sys.exit(1 if counts(next(iter(found.values())))[1] else 0)


def _show(kit: Kit, found: dict[str, list[Ruling]], *, as_json: bool) -> None:
    if as_json:
        reports = [as_data(kit, name, rulings) for name, rulings in found.items()]
        show_json(reports[0] if len(reports) == 1 else reports)
        return
    click.echo()
    if len(found) > 1:
        click.echo(table(kit, dict(found)))
    for name, rulings in found.items():
        click.echo(f"{name}: {summary(kit, rulings)}")


def _teller() -> Callable[[Ruling], None]:
    """Shows each ruling, and each reason once."""
    shown: set[str] = set()

    def tell(ruling: Ruling) -> None:
        mark, colour = MARKS[ruling.outcome]
        click.echo(f"{click.style(mark, fg=colour)} {ruling.section}: {ruling.sentence}")
        if ruling.outcome != "kept" and ruling.seen not in shown:
            shown.add(ruling.seen)
            click.echo(f"     {ruling.seen}")

    return tell


def _variables(given: Sequence[str]) -> dict[str, str]:
    for one in given:
        if "=" not in one:
            raise click.UsageError(f"--env {one} has no =: write --env NAME=VALUE")
    return dict(one.split("=", 1) for one in given)


def _absolute(words: Sequence[str]) -> tuple[str, ...]:
    """The program is started in another directory: a path to it, or to its script, is made absolute."""
    if shutil.which(words[0]) is None:
        raise click.UsageError(f"there is no program {words[0]}: is it installed and on PATH?")
    return tuple(os.path.abspath(word) if os.sep in word and os.path.exists(word) else word for word in words)
