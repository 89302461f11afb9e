"""`treadle demo`: a fleet of agents, or one, at work on a temporary repository. No key, no network."""

import os
import shutil
import sys
from pathlib import Path

import click

from treadle.agents import find_agent
from treadle.cli.chat.page import Page
from treadle.cli.render import colourful
from treadle.installation import adding, has
from treadle.io import scratch
from treadle.io.process.consulted import consult
from treadle.io.process.loop import ended_by_signals, run_async
from treadle.io.reading import read
from treadle.io.sandbox.methods import wanted
from treadle.io.sandbox.start import start
from treadle.policy.environment import reduced
from treadle.session import Confinement, Limits, SessionSpec, Start
from treadle.sessions.session import run_turn
from treadle.sessions.totals import TurnTotals
from treadle.workspace import checkouts, uncommitted
from treadle.workspace.first_commit import first_commit

PROJECT = Path(__file__).parent / "demo_project"
CHECK = "check_prices.py"
PROMPT = f"The test in {CHECK} fails. Find out why and fix prices.py; the test is right."


@click.command("demo")
@click.option("--one", is_flag=True, help="The small one: one agent, one failing test.")
@click.option("--model", metavar="NAME", help="A real model does the small one; local needs no key, but its weights.")
def demo(one: bool, model: str | None) -> None:
    """Watch agents fix a failing shop in a temporary repository. Needs no key and no network.

    Four orders run at once, with claims. One waits for another's files, one asks and is answered, one has its runner
    killed and is taken over; then all is merged and tested. Without the optional part for fleets, and with --one, a
    single agent fixes a single test. With --model, a model that you name does that: after `treadle models pull`,
    --model local is a real agent without a key.
    """
    if not one and model is None:
        if has("fleet"):
            from treadle.cli.fleet.demo import run

            sys.exit(run())
        click.echo(f"This is the small demo. For the fleet's, with four agents at once: {adding('fleet')}\n", err=True)
    with scratch.directory("demo") as place:
        sys.exit(run_async(ended_by_signals(_demo(Path(place), model), "the demo")))


async def _demo(place: Path, model: str | None) -> int:
    page = Page(lambda: shutil.get_terminal_size().columns, colour=colourful(sys.stdout), flowing=True)

    def show(text: str) -> None:
        sys.stdout.write(text)
        sys.stdout.flush()

    repository = _repository(place)
    spec = SessionSpec(
        cwd=str(repository),
        model=model or f"scripted:{PROJECT / 'script.toml'}",
        mode="full-auto",
        env={"PATH": f"{os.path.dirname(sys.executable)}{os.pathsep}{os.environ.get('PATH', os.defpath)}"},
        limits=Limits(max_iterations=10, max_seconds=50 if model is None else 1200),
        start=Start(persist=False),
    )
    show(page.note("bold", f"A repository with a failing test: {repository}"))
    show(page.note("bold", f"> {PROMPT}"))
    session = await find_agent("native").open(spec)
    totals = TurnTotals()
    try:
        async for event in run_turn(session, PROMPT):
            totals.add(event)
            show(page.feed(event))
    finally:
        await session.close()
    summary = totals.summary()
    show(page.total(summary))
    show(page.note("bold", "What changed (git diff):"))
    show(page.diff(uncommitted.patch(checkouts.around(str(repository)))[0].decode()))
    passes = await _passes(repository)
    show(
        page.note("bold", f"The test as it was at the start {'passes' if passes else 'still FAILS'} with this change.")
    )
    real = "all of it was real" if model else "scripted; the loop, the tools, the edit and the test were real"
    show(page.note("bold", f"The model's words: {real}."))
    return 0 if summary.outcome == "completed" and passes else 1


async def _passes(repository: Path) -> bool:
    """Judge the work by our copy of the test (an agent can change its own), in a sandbox if there is one."""
    asked = Confinement(network="off", write=(str(repository),))
    confinement = asked if wanted(asked, "full-auto") else None
    argv = [sys.executable, str(PROJECT / f"{CHECK}.txt")]
    env = {**reduced(os.environ), "PYTHONPATH": str(repository)}
    async with await start(confinement, argv, cwd=str(repository), env=env, stdin="pipe") as child:
        return (await consult(child, b"", timeout=60)).exit_code == 0


def _repository(place: Path) -> Path:
    repository = place / "shop"
    files = {name: read(str(PROJECT / f"{name}.txt")) for name in ("prices.py", CHECK)}
    first_commit(str(repository), files, "A shop with a wrong discount")
    return repository
