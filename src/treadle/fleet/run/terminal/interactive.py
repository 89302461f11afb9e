"""An order whose agent runs in a terminal, for a person to watch and type into. It ends when the program does."""

import asyncio
import os
import time
from collections.abc import Callable
from typing import Any

from treadle.errors import TreadleError
from treadle.fleet.run import reasons
from treadle.fleet.run.attempt import OUTPUT_MAX, Ended, RunningAttempt
from treadle.fleet.run.questions import Questions
from treadle.fleet.run.reasons import VERIFY
from treadle.fleet.run.terminal import forwarding
from treadle.fleet.run.terminal.questions import TerminalQuestions
from treadle.io.process.programs import run_program
from treadle.io.removing import remove_tree
from treadle.io.within import end_tasks
from treadle.receipts.trace import Check
from treadle.terminal.client import Client
from treadle.terminal.places import Place

READY_SECONDS = 60.0
LOOK_SECONDS = 0.5
Seen = Callable[[str, float], None]
"""Told what the program seems to do, and for how many seconds it has written nothing."""


def command(agent: str) -> list[str]:
    """The command that starts the agent for a person."""
    from treadle.agents import AGENTS, agent_settings, find_card
    from treadle.drivers.launch import launch_of

    if agent in AGENTS:
        return forwarding.treadle()
    settings = agent_settings()
    card, given = find_card(agent, settings)
    if card.name in ("worker", "acp", "sidecar") and given:
        return ["/bin/sh", "-c", given]
    return [launch_of(card, settings.get(card.name), given).program()]


async def run(attempt: RunningAttempt, words: str, seen: Seen, questions: Questions) -> Ended:
    """Start the agent in the worktree, type the task, and wait for its end."""
    spec = attempt.spec
    place = forwarding.place_of(spec.id, "agent")
    options = ["--foreground", "--id", place.id, "--workdir", attempt.root, "--linger", "0"]
    record = os.path.join(attempt.directory, "terminal.cast")
    argv = forwarding.treadle("run", *options, "--record", record, "--", *command(spec.agent))
    terminal = await forwarding.start(argv, place)
    try:
        await _type(place, words)
        watching = asyncio.create_task(_watch(seen, place.sock, TerminalQuestions(questions, place.sock)))
        stopping = asyncio.create_task(attempt.stopping.wait())
        ending = asyncio.create_task(terminal.wait())
        await asyncio.wait({stopping, ending}, return_when=asyncio.FIRST_COMPLETED)
        await end_tasks(watching, stopping, ending)
    finally:
        await terminal.stop()
    stopped = attempt.stopped
    check = await _check(attempt) if spec.verify and stopped is None else None
    result = {"verified": None if check is None else check.ok, "exit_code": terminal.exit_code, "terminal": True}
    if stopped is not None:
        outcome, why, reason = ("cancelled" if stopped.code == "cancelled" else "failed"), str(stopped), stopped.code
    elif check is not None and not check.ok:
        why = reasons.not_verified(spec.verify)
        output = check.output_tail[-OUTPUT_MAX:]
        return Ended(outcome="failed", why=why, reason=VERIFY, fault="verify", output=output, result=result)
    elif terminal.exit_code:
        outcome, why, reason = "failed", f"the program ended with code {terminal.exit_code}", "agent_failed"
    else:
        outcome, why, reason = "done", "", ""
    return Ended(outcome=outcome, why=why, reason=reason, result=result)


async def _check(attempt: RunningAttempt) -> Check:
    """The order's check of the result, in a directory that is written from it and not the agent's own."""
    from treadle.host.confine import confined_check

    spec, taker = attempt.spec, attempt.taker
    if taker is None:  # there is no repository, or the order is to work in place
        return await confined_check(spec.verify, attempt.root, network=spec.network)
    directory = os.path.join(attempt.directory, "verify")
    try:
        here = await asyncio.to_thread(taker.write_result, directory)
        for command in filter(None, (spec.setup, spec.verify)):
            done = await confined_check(
                command, here, shown=taker.shown(), setup=command != spec.verify, network=spec.network
            )
            if not done.ok:
                break
        return done
    finally:
        await asyncio.to_thread(remove_tree, directory)


async def _type(place: Place, words: str) -> None:
    """Type the task once the program has drawn itself and waits for input."""
    deadline = time.monotonic() + READY_SECONDS
    while time.monotonic() < deadline and not await asyncio.to_thread(_idle, place.sock):
        await asyncio.sleep(0.1)
    argv = forwarding.treadle("send", place.id, "--enter", "--anyway", "--file", "-")
    await asyncio.to_thread(run_program, argv, stdin=words.rstrip().encode(), timeout=60.0)


def _idle(path: str) -> bool:
    try:
        with Client(path, timeout=5.0) as client:
            status = client.status()
            return not status.alive or status.idle_ms > 700
    except TreadleError:
        return False


async def _watch(seen: Seen, path: str, asking: TerminalQuestions) -> None:
    """Report what the terminal's program seems to do, with each beat, and what it asks, at once."""
    try:
        while True:
            try:
                detail = await asyncio.to_thread(_detail, path)
                state = detail.get("state") or {}
                seen(str(state.get("name") or "?"), float(detail.get("idle_ms") or 0.0) / 1000)
                await asking.look(detail)
            except TreadleError:
                pass
            await asyncio.sleep(LOOK_SECONDS)
    finally:
        await asking.close()


def _detail(path: str) -> dict[str, Any]:
    with Client(path, timeout=5.0) as client:
        return client.detail()
