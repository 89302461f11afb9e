"""`python -m evals`: run tasks, compare results, list the tasks."""

import argparse
import asyncio
import sys
from pathlib import Path

import msgspec

from evals import running, tables
from evals.results import Attempt, Configuration, Results, load
from evals.task import Task
from evals.tasks import ALL, select
from treadle.errors import ConfigError, TreadleError

OPTIONS = {
    "agent": "the agent: native, or any that `treadle agents` lists",
    "model": "the model, as for `treadle --model`",
    "brief": "give each task as a brief: verbatim (the whole plan) or delta (only what it needs)",
    "system": "a file whose text is the system prompt",
}


def main(arguments: list[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    try:
        code: int = options.do(options)
        return code
    except TreadleError as error:
        print(f"evals: {error}", file=sys.stderr)
        return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m evals", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    run = commands.add_parser("run", help="run tasks and print a table; results go to a JSON file")
    for name, words in OPTIONS.items():
        run.add_argument(f"--{name}", default="native" if name == "agent" else "", help=words)
    run.add_argument(
        "--tasks", default="tiny", metavar="SET", help="tiny, small, medium, all or names of tasks, with commas"
    )
    run.add_argument("--repeat", type=int, default=1, metavar="N", help="runs of each task")
    run.add_argument("--out", type=Path, default=Path("eval-results/results.json"), help="where results are written")
    run.add_argument(
        "--against",
        metavar="KEY=VALUE",
        action="append",
        default=[],
        help="alternate with a second configuration that differs in this; may be given again",
    )
    run.set_defaults(do=_run)
    compare = commands.add_parser("compare", help="two results side by side, in pairs")
    compare.add_argument("first", type=Path)
    compare.add_argument("second", type=Path)
    compare.set_defaults(do=lambda options: print(tables.comparison(load(options.first), load(options.second))) or 0)
    show = commands.add_parser("show", help="the table of kept results")
    show.add_argument("results", type=Path)
    show.set_defaults(do=lambda options: print(tables.table(load(options.results))) or 0)
    commands.add_parser("list", help="the tasks there are").set_defaults(do=_list)
    goals = commands.add_parser("goals", help="carry goals out in several ways, and say what each took")
    goals.add_argument("--model", default="", help="the model of all agents; without one, the scripted model")
    goals.add_argument("--goals", default="", metavar="NAMES", help="which goals, with commas. Default: all five")
    goals.add_argument("--ways", default="", help="delta, verbatim, planned, reviewed, one, with commas. Default: all")
    goals.add_argument("--at-once", type=int, default=1, metavar="N", help="how many goals at once")
    goals.add_argument("--slots", type=int, default=3, metavar="N", help="how many orders at once")
    goals.add_argument("--out", type=Path, default=Path("eval-results/goals.json"), help="where results are written")
    goals.set_defaults(do=_goals)
    return parser


def _list(options: argparse.Namespace) -> int:
    for task in ALL:
        print(f"{task.name:24} {task.size:7} {task.kind:10} {task.prompt[:100]}")
    return 0


def _goals(options: argparse.Namespace) -> int:
    from evals.goals import tables as goal_tables
    from evals.goals.repositories import GOALS
    from evals.goals.running import WAYS, GoalAttempt, attempts

    names, ways = [each for each in options.goals.split(",") if each], options.ways.split(",") if options.ways else WAYS
    chosen = [goal for goal in GOALS if not names or goal.name in names]
    if unknown := [*(set(names) - {goal.name for goal in GOALS}), *(set(ways) - set(WAYS))]:
        raise ConfigError(f"there is no {unknown[0]!r}", hint=f"goals: {', '.join(goal.name for goal in GOALS)}")

    async def work() -> list[GoalAttempt]:
        found = []
        async for each in attempts(chosen, ways, options.model, at_once=options.at_once, slots=options.slots):
            found.append(each)
            mark = "met" if each.met else "NOT MET"
            print(f"{mark} {each.goal} ({each.way}): {each.seconds:.0f} s, {each.tokens:,} tokens", file=sys.stderr)
        order = [(goal.name, way) for way in WAYS for goal in GOALS]
        return sorted(found, key=lambda each: order.index((each.goal, each.way)))

    found = asyncio.run(work())
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_bytes(msgspec.json.format(msgspec.json.encode(found), indent=1))
    print(f"{goal_tables.table(found)}\nwritten to {options.out}")
    return 0 if all(each.met for each in found) or options.model else 1


def _run(options: argparse.Namespace) -> int:
    base = Configuration(**{name: getattr(options, name) for name in OPTIONS})
    configurations = [base]
    if options.against:
        configurations.append(_changed(base, options.against))
    attempts = asyncio.run(_all(configurations, select(options.tasks), options.repeat, options.out))
    found = [Results.of(one, some) for one, some in zip(configurations, attempts, strict=True)]
    for number, results in enumerate(found):
        path = _path(options.out, number)
        results.save(path)
        print(f"\n{tables.table(results)}\nwritten to {path}")
    if len(found) > 1:
        print(f"\n{tables.comparison(*found)}")
    return 0


def _changed(base: Configuration, changes: list[str]) -> Configuration:
    pairs = [change.partition("=") for change in changes]
    for key, equals, _ in pairs:
        if key not in OPTIONS or not equals:
            raise ConfigError(f"--against {key} changes nothing", hint=f"KEY=VALUE, KEY one of {', '.join(OPTIONS)}")
    return msgspec.structs.replace(base, **{key: value for key, _, value in pairs})


def _path(out: Path, number: int) -> Path:
    return out if not number else out.with_stem(f"{out.stem}-against")


async def _all(
    configurations: list[Configuration], tasks: tuple[Task, ...], repeat: int, out: Path
) -> list[list[Attempt]]:
    """Task by task, with the configurations in turn: other load on the machine then affects both alike."""
    done: list[list[Attempt]] = [[] for _ in configurations]
    for number in range(1, repeat + 1):
        for task in tasks:
            for which, configuration in enumerate(configurations):
                transcript = _path(out, which).with_suffix("") / f"{task.name}-{number}.txt"
                made = await running.attempt(task, configuration, number, transcript)
                done[which].append(made)
                _tell(made, configuration if len(configurations) > 1 else None)
                # it survives an interruption
                Results.of(configuration, done[which]).save(_path(out, which))
    return done


def _tell(made: Attempt, configuration: Configuration | None) -> None:
    mark = "passed" if made.passed else "FAILED"
    which = f" ({configuration.label})" if configuration else ""
    tokens = f"{made.tokens:,} tokens"
    print(f"{mark} {made.task}{which}: {made.seconds:.0f} s, {made.steps} steps, {tokens}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
