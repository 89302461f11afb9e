"""How a command fails: one line on stderr that says what happened and what to do, and exit code 1."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Coroutine
from typing import Any

from treadle.errors import TreadleError


def run(work: Coroutine[Any, Any, int]) -> int:
    """Run a command's coroutine; its exit code, or 1 with one line on stderr when it failed in a way we know."""
    try:
        return asyncio.run(work)
    except TreadleError as error:
        print(f"treadle: {error}", file=sys.stderr)
        return 1
