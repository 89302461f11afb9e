"""Judges whether an order at work is working, waiting or stuck by its runner's last report, and gives the evidence."""

import time

from msgspec.structs import replace

from treadle.wire.fleet.messages import RunActivity, Why

STALLED_SECONDS = 300.0
"""Seconds without an event, an open tool, a question or CPU use after which an order counts as stuck."""
BUSY_LEASES = 12
"""How many leases a runner may be silent whose process its node sees alive."""
LOOPS = 6
"""The same tool call so many times in a row is a loop."""


def silent(now: float, heard: float, seen: float, lease: float) -> bool:
    """Whether a runner was not heard for too long. One whose process its node sees may only be slow, as on a machine
    with too much to do, and gets more time."""
    return now - heard > (BUSY_LEASES if now - seen <= lease else 1) * lease


def stuck(activity: RunActivity, stall: float = STALLED_SECONDS, now: float | None = None) -> str:
    """Why a running order counts as stalled or looping at a time, or now; empty when it does not."""
    if activity.repeats >= LOOPS:
        return f"looping: the same call {activity.repeats} times in a row: {activity.doing or '?'}"
    if not activity.last_event or activity.asks:
        return ""
    quiet = (time.time() if now is None else now) - max(activity.last_event, activity.busy)
    if quiet <= stall:
        return ""
    tools = activity.open_tools
    what = f"the tool {tools[0]} is open and its processes do nothing" if tools else "nothing came from the agent"
    return f"stalled: {what} for {quiet:.0f} s"


def judged(found: Why, now: float | None = None) -> Why:
    """What the scheduler knows, with a verdict at a time, or now, its evidence and what happens next."""
    activity = found.activity
    if activity is None:
        return found
    now = time.time() if now is None else now
    problem = stuck(activity, found.stall or STALLED_SECONDS, now)
    verdict, then = _verdict(found, activity, problem)
    return replace(found, verdict=verdict, evidence=_evidence(found, activity, problem, now), next=then)


def _verdict(found: Why, activity: RunActivity, problem: str) -> tuple[str, str]:
    """What it does, and what happens next."""
    if (found.heard_seconds_ago or 0.0) > found.lease:
        return "lost", "another runner takes over"
    if found.over_budget:
        return "waiting for a budget", "it continues when that is raised: `treadle fleet budget`"
    if found.state == "asking" or activity.asks:
        return "waiting for a person", "the deadline answers if no one does: `treadle fleet approvals`"
    if activity == RunActivity():
        return "starting", "another node takes over when this one is gone"
    if activity.held:
        return f"held: {activity.held}", "it continues when that is over"
    if problem:
        return problem.partition(":")[0], "what --on-stall said; or cancel it, say something, or wait"
    if activity.open_tools:
        return "waiting for a tool", "it continues when the tool ends"
    if activity.doing == "model":
        return "waiting for the provider", "it continues with the model's answer"
    return "working", "it goes on"


def _evidence(found: Why, activity: RunActivity, problem: str, now: float) -> list[str]:
    if activity == RunActivity():
        return []
    quiet = now - (activity.last_event or now)
    facts = [f"heard {found.heard_seconds_ago or 0.0:.1f} s ago", f"last event {quiet:.1f} s ago"]
    if activity.open_tools:
        facts.append(f"open tool: {activity.open_tools[0]}")
    if (tree := activity.tree).processes:
        facts.append(f"{tree.processes} processes, {tree.cpu:.1f} s of CPU, {tree.sockets} sockets")
    if activity.busy:
        facts.append(f"its processes worked {now - activity.busy:.0f} s ago")
    facts += [problem] if problem else []
    return [*facts, found.over_budget] if found.over_budget else facts


def as_lines(found: Why) -> list[str]:
    """The same for a person, one line for each fact."""
    lines = [f"state     {found.state}" + (f": {found.why}" if found.why else "")]
    if found.waits:
        lines.append(f"waits     {found.waits.text} ({found.waits.kind})")
    if found.place:
        lines.append(f"place     {found.place} in line")
    lines += [f"node      {text}" for text in found.nodes]
    if found.verdict:
        doing = found.activity.doing if found.activity else ""
        lines.append(f"doing     {found.verdict}: {doing or '?'}, on {found.node}")
        lines.append(f"evidence  {'; '.join(found.evidence) or 'none yet'}")
        lines.append(f"next      {found.next}")
    return lines
