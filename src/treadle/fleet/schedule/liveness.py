"""Judges whether an order at work is working, waiting or stuck by its runner's last report, and gives the evidence."""

import time
from typing import Any

STALLED_SECONDS = 300.0
"""So long without an event, an open tool, a question or CPU use is a stall."""
LOOPS = 6
"""The same tool call so many times in a row is a loop."""


def stuck(activity: dict[str, Any], stall: float = STALLED_SECONDS, now: float | None = None) -> str:
    """Why a running order counts as stalled or looping at a time, or now; empty when it does not."""
    repeats = int(activity.get("repeats") or 0)
    if repeats >= LOOPS:
        return f"looping: the same call {repeats} times in a row: {activity.get('doing', '?')}"
    if not activity.get("last_event") or activity.get("asks"):
        return ""
    seen = max(float(activity["last_event"]), float(activity.get("busy") or 0.0))
    quiet = (time.time() if now is None else now) - seen
    if quiet <= stall:
        return ""
    tools = activity.get("open_tools") or []
    what = f"the tool {tools[0]} is open and its processes do nothing" if tools else "nothing came from the agent"
    return f"stalled: {what} for {quiet:.0f} s"


def judged(found: dict[str, Any], now: float | None = None) -> dict[str, Any]:
    """What the scheduler knows, with a verdict at a time, or now, its evidence and what happens next."""
    if "activity" not in found:
        return found
    now = time.time() if now is None else now
    activity, heard = found["activity"], float(found.get("heard_seconds_ago", 0.0))
    lease = float(found.get("lease", 5.0))
    tools = activity.get("open_tools") or []
    problem = stuck(activity, float(found.get("stall") or STALLED_SECONDS), now)
    if heard > lease:
        verdict, then = "lost", "another runner takes over"
    elif found.get("over_budget"):
        verdict, then = "waiting for a budget", "it goes on when that is raised: `treadle fleet budget`"
    elif found["state"] == "asking" or activity.get("asks"):
        verdict, then = "waiting for a person", "the deadline answers if nobody does: `treadle fleet approvals`"
    elif not activity:
        verdict, then = "starting", "another node takes over when this one is gone"
    elif activity.get("held"):
        verdict, then = f"held: {activity['held']}", "it goes on when that is over"
    elif problem:
        verdict, then = problem.partition(":")[0], "what --on-stall said; or cancel it, say something, or wait"
    elif tools:
        verdict, then = "waiting for a tool", "it goes on when the tool ends"
    elif activity.get("doing") == "model":
        verdict, then = "waiting for the provider", "it goes on with the model's answer"
    else:
        verdict, then = "working", "it goes on"
    return {**found, "verdict": verdict, "evidence": _evidence(found, heard, problem, now), "next": then}


def _evidence(found: dict[str, Any], heard: float, problem: str, now: float) -> list[str]:
    activity = found["activity"]
    if not activity:
        return []
    quiet = now - float(activity.get("last_event", now))
    told = [f"heard {heard:.1f} s ago", f"last event {quiet:.1f} s ago"]
    if tools := activity.get("open_tools"):
        told.append(f"open tool: {tools[0]}")
    if tree := activity.get("tree"):
        told.append(f"{tree['processes']} processes, {tree['cpu']:.1f} s of CPU, {tree['sockets']} sockets")
    if activity.get("busy"):
        told.append(f"its processes worked {now - float(activity['busy']):.0f} s ago")
    told += [problem] if problem else []
    told += [f"{', '.join(files[:3])} is changed by order {other} too" for other, files in _collisions(found)]
    return [*told, found["over_budget"]] if found.get("over_budget") else told


def _collisions(found: dict[str, Any]) -> list[tuple[str, list[str]]]:
    return list((found.get("collisions") or {}).items())


def told(found: dict[str, Any]) -> list[str]:
    """The same for a person, one line for each fact."""
    lines = [f"state     {found.get('state', 'unknown')}" + (f": {found['why']}" if found.get("why") else "")]
    if waits := found.get("waits"):
        lines.append(f"waits     {waits['text']} ({waits['kind']})")
    if found.get("place"):
        lines.append(f"place     {found['place']} in line")
    lines += [f"node      {text}" for text in found.get("nodes", ())]
    if "verdict" in found:
        lines.append(f"doing     {found['verdict']}: {found['activity'].get('doing', '?')}, on {found['node']}")
        lines.append(f"evidence  {'; '.join(found['evidence']) or 'none yet'}")
        lines.append(f"next      {found['next']}")
    return lines
