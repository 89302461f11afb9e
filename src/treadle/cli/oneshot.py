"""`treadle -p PROMPT`: run one prompt, print the answer, exit."""

from __future__ import annotations

import sys
from typing import Any

import click

from treadle.agents import find_agent
from treadle.cli.failing import run
from treadle.cli.options import RunOptions, run_options, take
from treadle.work.fold import Fold
from treadle.work.session import run_turn


@click.command("treadle -p")
@click.option("-p", "--print", "flag", is_flag=True, help="Run one prompt and print the answer.")
@click.argument("prompt", required=False)
@run_options
def oneshot(prompt: str | None, **values: Any) -> None:
    """Run one prompt and print the final answer.

    Tools that would need somebody's permission are refused, and the answer goes on without them: allow them with
    --allowed-tools or --permission-mode.
    """
    values.pop("flag")
    sys.exit(run(_answer(prompt or sys.stdin.read(), take(values))))


async def _answer(prompt: str, options: RunOptions) -> int:
    session = await find_agent(options.agent).open(options.spec(answers=False, default_mode="suggest"))
    folded = Fold()
    try:
        async for event in run_turn(session, prompt):
            folded.add(event)
    finally:
        await session.close()
    summary = folded.summary()
    if summary.error is not None and summary.outcome != "interrupted":
        print(f"treadle: {summary.error.message}", file=sys.stderr)
        return 1
    print(summary.text)
    return 0
