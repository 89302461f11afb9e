"""Which version of the worker protocol two ends speak, and what a client may ask for beyond it. A light module.

Versions with the same major number are compatible; a client is sent nothing newer than the version it declared.
"""

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from treadle.errors import VersionMismatch

if TYPE_CHECKING:
    from treadle.wire.worker.messages import InitConfig

PROTOCOL_VERSION = "0.2.0"
"""Equals the file PROTOCOL_VERSION beside this one, which is for programs that do not import us."""

Version = tuple[int, int]
BASE: Version = (0, 2)
NEWEST: Version = (0, 5)

EXTENSIONS = ("answers", "steer", "approval_mode", "permissions", "budget", "cwd", "resume", "warnings")


def parse_version(text: str) -> Version | None:
    match = re.fullmatch(r"(\d{1,9})(?:\.(\d{1,9})(?:\.\d{1,9})?)?(?:[-+][0-9A-Za-z.+-]*)?", text, re.ASCII)
    return (int(match[1]), int(match[2] or 0)) if match else None


def negotiate(requested: str | None, pinned: str | None = None) -> tuple[str, Version]:
    """The version that both ends agree on: the text for `init_ok`, and the version that decides what may be sent.

    `pinned` is our version when the environment fixes one; without it we go as far up as the client does.
    Raises VersionMismatch when the major versions differ or the client's cannot be read.
    """
    ours = pinned or PROTOCOL_VERSION
    if requested is None:
        return ours, BASE
    theirs, mine = parse_version(requested), parse_version(ours) or BASE
    if theirs is None or theirs[0] != mine[0]:
        raise VersionMismatch(f"Client requested {requested}, server is {ours}")
    if pinned:
        return ours, max(BASE, min(theirs, mine))
    version = max(BASE, min(theirs, NEWEST))
    return ours if version == BASE else f"{version[0]}.{version[1]}.0", version


def capabilities(tools: Iterable[str], asked: Iterable[str], version: Version) -> dict[str, Any] | None:
    """The capabilities for init_ok, for a client that knows the field (0.5) or asked for extensions; else None."""
    offered: dict[str, Any] = {}
    if version >= (0, 5):
        offered = {
            "enabled_tools": sorted(tools),
            "explicit_tool_allowlist": True,
            "runtime_modes": ["default"],
            "transcript_placement": False,
            "failure_details_version": "v2",
            "routing_request_metadata": False,
            "effective_routing_metadata": False,
            "cache_usage_metrics": True,
            "cancellation": True,
            "turn_state_events": True,
        }
    if asked:
        offered["extensions"] = [name for name in asked if name in EXTENSIONS]
    return offered or None


def profile(config: "InitConfig", tools: Iterable[str], version: Version) -> dict[str, Any] | None:
    """What the session is set up with, and a fingerprint by which two that are set up alike are known as such."""
    if version < (0, 5):
        return None
    from hashlib import sha256

    from treadle.wire.common.jsontext import dumps

    made_of = {
        "model": config.model,
        "tools": sorted(tools),
        "runtime": config.runtime.mode if config.runtime else "default",
        "max_iterations": config.max_iterations,
        "permissions": config.asked("permissions") and config.permissions is not None,
    }
    digest = sha256(dumps(made_of, sort_keys=True).encode()).hexdigest()
    return {"fingerprint": f"sha256:{digest}", "model": config.model}
