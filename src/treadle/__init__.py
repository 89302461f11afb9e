"""Treadle drives, supervises and coordinates coding agents: any agent, over any wire, to the end.

The names below are the whole public Python API. They load on first use, so importing treadle costs nothing.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:  # importing typing would cost every small command half an interpreter start
    from typing import Any

__version__ = "0.1.0"

_WHERE = {
    "find_agent": "treadle.agents",
    "run_turn": "treadle.sessions.session",
    "totals": "treadle.sessions.totals",
    "create_headless_runner": "treadle.doors.oneshot.headless",
    "create_headless_transport": "treadle.doors.oneshot.headless",
    "Agent": "treadle.session",
    "Session": "treadle.session",
    "SessionSpec": "treadle.session",
    "Prompt": "treadle.session",
    "Answer": "treadle.session",
    "Limits": "treadle.session",
    "TreadleError": "treadle.errors",
}

__all__ = ["__version__", *_WHERE]

if TYPE_CHECKING:
    from treadle.agents import find_agent as find_agent
    from treadle.doors.oneshot.headless import create_headless_runner as create_headless_runner
    from treadle.doors.oneshot.headless import create_headless_transport as create_headless_transport
    from treadle.errors import TreadleError as TreadleError
    from treadle.session import Agent as Agent
    from treadle.session import Answer as Answer
    from treadle.session import Limits as Limits
    from treadle.session import Prompt as Prompt
    from treadle.session import Session as Session
    from treadle.session import SessionSpec as SessionSpec
    from treadle.sessions.session import run_turn as run_turn
    from treadle.sessions.totals import totals as totals


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module 'treadle' has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(_WHERE[name]), name)
