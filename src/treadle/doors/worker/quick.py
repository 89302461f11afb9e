"""The answer to a plain init, before anything heavy is imported: a client that starts a worker per task waits for it.

Only an init that cannot fail is answered here: of a version that needs no thought, for the native agent, with a model
whose key or address is there. In any doubt there is no quick answer, and the door gives its own.
The two agree to the byte, which the tests hold them to. A light module.
"""

from __future__ import annotations

import os

from treadle.agent.tools import BUILTIN
from treadle.errors import StorageError, VersionMismatch
from treadle.io import paths
from treadle.wire.worker.versions import capabilities, negotiate, parse_version

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

LONGEST = 1024 * 1024
HARMLESS = {"TREADLE_HOME", "TREADLE_AGENT", "TREADLE_BASE_URL", "TREADLE_API_KEY"}
"""Of our variables, those that cannot turn an init into an error."""
THOUGHT = {"permissions", "budget", "cwd", "resume"}
"""What in a config is for the door to look at. Fields that nobody knows do nothing."""
MODES = {"suggest", "auto-edit", "full-auto", "plan", "yolo"}


class Promise:
    """A line that was written in answer to an init, and the id of the session that it promised."""

    def __init__(self, session_id: str, line: bytes) -> None:
        self.session_id = session_id
        self.line = line


def first_line(fd: int) -> bytes:
    """What comes first from the client: at least a line, unless it ends or is not plain."""
    data = b""
    while b"\n" not in data and len(data) < LONGEST:
        more = os.read(fd, 65536)
        if not more:
            break
        data += more
    return data


def promise(data: bytes, environ: Mapping[str, str]) -> Promise | None:
    """For when the settings cannot fail an init either: there are none (`settled`), or they have been looked at."""
    line, newline, _ = data.partition(b"\n")
    mode, pinned = environ.get("HEDDLE_APPROVAL_MODE", "").strip(), environ.get("HEDDLE_PROTOCOL_VERSION", "").strip()
    if not newline or (mode and mode not in MODES) or (pinned and not parse_version(pinned)):
        return None
    request = _parsed(line)
    if not _plain(request) or not _reachable(request["config"]["model"], environ) or not _can_keep_sessions():
        return None
    number = os.urandom(16).hex()
    session = f"{number[:8]}-{number[8:12]}-4{number[13:16]}-a{number[17:20]}-{number[20:]}"
    try:
        return Promise(session, _answer(request, session, pinned or None))
    except VersionMismatch:
        return None


def _answer(request: dict[str, Any], session: str, pinned: str | None) -> bytes:
    import json

    text, version = negotiate(request.get("protocol_version"), pinned)
    config = request["config"]
    answer = {"type": "init_ok", "id": request["id"], "session_id": session, "protocol_version": text}
    if told := capabilities(set(BUILTIN).intersection(config["tools"]), config.get("capabilities", ()), version):
        answer["capabilities"] = told
    return json.dumps(answer, separators=(",", ":")).encode() + b"\n"


def _parsed(line: bytes) -> Any:
    import json

    def refuse(constant: str) -> None:
        raise ValueError(constant)

    try:
        text = line.decode()
        # What is not valid Unicode when unescaped is for the stricter reader to judge.
        return None if "\\u" in text else json.loads(text, parse_constant=refuse)
    except (ValueError, RecursionError):
        return None


def _plain(request: Any) -> bool:
    if not isinstance(request, dict) or request.get("type") != "init":
        return False
    id, config, version = request.get("id"), request.get("config"), request.get("protocol_version")
    return (
        isinstance(id, str)
        and id.isascii()
        and id.isprintable()
        and (version is None or isinstance(version, str))
        and isinstance(config, dict)
        and not config.keys() & THOUGHT
        and _plain_config(config)
    )


def _plain_config(config: dict[str, Any]) -> bool:
    most, mode = config.get("max_iterations"), config.get("approval_mode")
    return (
        isinstance(config.get("model"), str)
        and isinstance(config.get("system_prompt"), str)
        and _strings(config.get("tools"))
        and not any(tool.startswith("mcp__") for tool in config["tools"])
        and _strings(config.get("capabilities", []))
        and all(config.get(name) is None or isinstance(config[name], str) for name in ("task_id", "worker_id"))
        and (most is None or (type(most) is int and most > 0))
        and (mode is None or (isinstance(mode, str) and mode in MODES))
    )


def _strings(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def _reachable(model: str, environ: Mapping[str, str]) -> bool:
    if ":" in model or model.strip() != model or not model:
        return False
    for name in ("HEDDLE_BASE_URL", "TREADLE_BASE_URL"):
        if base := environ.get(name):
            return base.startswith(("http://", "https://"))
    key = environ.get("OPENROUTER_API_KEY", "").strip()
    return "/" in model and bool(key) and key.isascii() and key.isprintable()


def settled(environ: Mapping[str, str]) -> bool:
    """Whether there are no settings that would have to be read: no file of the user's or the project's, no variable."""
    if any(name.startswith("TREADLE_") and name not in HARMLESS for name in environ):
        return False
    if os.path.exists(paths.config_file()):
        return False
    place, parent = "", paths.here()
    while place != parent:
        place, parent = parent, os.path.dirname(parent)
        if os.path.exists(os.path.join(place, ".treadle")):
            return False
    return True


def _can_keep_sessions() -> bool:
    try:
        paths.private_dir(os.path.join(paths.state_dir(), "sessions"))
    except StorageError:
        return False
    return True
