"""Runs tasks: a fresh repository, a fresh session, one prompt, then the check."""

import os
import sys
import time
from pathlib import Path

from evals.briefs import told
from evals.checking import check, shell, workspace
from evals.results import Attempt, Configuration
from evals.task import Task
from treadle.agents import find_agent
from treadle.errors import TreadleError
from treadle.events import AnyEvent
from treadle.session import Instructions, Limits, SessionSpec, Start
from treadle.sessions.totals import TurnSummary, TurnTotals, run_turn


async def attempt(task: Task, configuration: Configuration, number: int, transcript: Path | None = None) -> Attempt:
    """One run of a task, however it ends. With `transcript`, its events are written there."""
    with workspace(task) as repository:
        if task.setup:
            await shell(task.setup, repository)
        began = time.monotonic()
        kept: list[AnyEvent] = []
        summary, failure = await _work(task, configuration, repository, kept)
        seconds = time.monotonic() - began
        verdict = await check(task, repository, summary.text)
        if transcript is not None:
            keep(transcript, task, kept)
    errors = [use for use in summary.tools if use.ended is not None and not use.ended.ok]
    return Attempt(
        task=task.name,
        size=task.size,
        kind=task.kind,
        number=number,
        passed=verdict.passed,
        why=verdict.why,
        outcome=summary.outcome or "failed",
        error=failure or (summary.error.message if summary.error else ""),
        steps=summary.iterations,
        input_tokens=summary.usage.input_tokens + summary.usage.cache_write_tokens,
        output_tokens=summary.usage.output_tokens,
        cached_tokens=summary.usage.cache_read_tokens,
        estimated=summary.usage.estimated,
        cost_usd=summary.usage.cost_usd,
        seconds=round(seconds, 1),
        tool_calls=len(summary.tools),
        tool_errors=len(errors) + len(summary.denials),
        load=round(os.getloadavg()[0], 2),
    )


async def _work(
    task: Task, configuration: Configuration, repository: Path, kept: list[AnyEvent]
) -> tuple[TurnSummary, str]:
    totals = TurnTotals()
    try:
        session = await find_agent(configuration.agent).open(spec(task, configuration, repository))
        try:
            async for event in run_turn(session, told(task, configuration.brief, repository)):
                totals.add(event)
                kept.append(event)
        finally:
            await session.close()
    except TreadleError as error:  # an agent that cannot be opened has failed the task, and the others go on
        return totals.summary(), str(error)
    return totals.summary(), ""


def spec(task: Task, configuration: Configuration, repository: Path) -> SessionSpec:
    system = Path(configuration.system).read_text() if configuration.system else None
    return SessionSpec(
        cwd=str(repository),
        model=configuration.model or None,
        instructions=Instructions(system=system),
        mode="full-auto",
        env={
            "PATH": f"{os.path.dirname(sys.executable)}{os.pathsep}{os.environ.get('PATH', os.defpath)}",
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",  # other installed plugins are not part of the task
        },
        limits=Limits(max_iterations=task.iterations, max_seconds=task.seconds),
        start=Start(persist=False),
        trusted=True,
    )


def keep(path: Path, task: Task, events: list[AnyEvent]) -> None:
    """Write the conversation for a person to read."""
    from evals.transcripts import written

    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"# {task.name}\n\n{task.prompt}\n\n{written(events)}\n")
