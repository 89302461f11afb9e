"""Whether an order at work is working, waiting or stuck: judged from what its runner told last, with the evidence."""

from __future__ import annotations

import time
from typing import Any

STALLED_SECONDS = 300.0
"""Without an event, an open tool or a question, this long is a stall."""


def judged(found: dict[str, Any]) -> dict[str, Any]:
    """What the scheduler knows, with a verdict, its evidence and what happens next."""
    if "activity" not in found:
        return found
    activity, heard = found["activity"], float(found.get("heard_seconds_ago", 0.0))
    lease = float(found.get("lease", 5.0))
    quiet = time.time() - float(activity.get("last_event", time.time()))
    doing = str(activity.get("doing", ""))
    tools = activity.get("open_tools") or []
    if heard > lease:
        verdict, then = "lost", "another runner takes over"
    elif found["state"] == "asking" or activity.get("asks"):
        verdict, then = "waiting for a person", "the deadline answers if nobody does: `treadle fleet approvals`"
    elif not activity:
        verdict, then = "starting", "another node takes over when this one is gone"
    elif tools:
        verdict, then = "waiting for a tool", "it goes on when the tool ends"
    elif quiet > STALLED_SECONDS:
        verdict, then = "stalled", "cancel it, say something to it, or wait"
    elif doing == "model":
        verdict, then = "waiting for the provider", "it goes on with the model's answer"
    else:
        verdict, then = "working", "it goes on"
    evidence = [f"heard {heard:.1f} s ago", f"last event {quiet:.1f} s ago"] if activity else []
    if tools:
        evidence.append(f"open tool: {tools[0]}")
    return {**found, "verdict": verdict, "evidence": evidence, "next": then}


def told(found: dict[str, Any]) -> list[str]:
    """The same for a person, a line for each thing."""
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
