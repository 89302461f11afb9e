"""The answer to a plain init, before anything heavy is imported: a client that starts a worker per task waits for it.

Only an init that cannot fail is answered here: of a version and with settings that need no thought, for the native
agent, with a model whose key or address is there. In any doubt there is no quick answer, and the door gives its own.
The two agree to the byte, which the tests hold them to. A light module.
"""

from __future__ import annotations

import os

from treadle.errors import StorageError
from treadle.io import paths

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

LONGEST = 1024 * 1024
HARMLESS = {"TREADLE_HOME", "TREADLE_AGENT", "TREADLE_BASE_URL", "TREADLE_API_KEY"}
"""Of our variables, those that cannot turn an init into an error."""
KNOWN = {"model", "system_prompt", "tools", "task_id", "worker_id", "max_iterations", "app_attribution"}
"""What a plain init may have in its config; anything else is looked at by the door."""


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
    line, newline, _ = data.partition(b"\n")
    if not newline or environ.get("HEDDLE_PROTOCOL_VERSION") or environ.get("HEDDLE_APPROVAL_MODE"):
        return None
    request = _parsed(line)
    version = _version(request)
    if version is None or not _plain(request) or not _reachable(request["config"]["model"], environ):
        return None
    if not settled(environ) or not _can_keep_sessions():
        return None
    number = os.urandom(16).hex()
    session = f"{number[:8]}-{number[8:12]}-4{number[13:16]}-a{number[17:20]}-{number[20:]}"
    answer = f'{{"type":"init_ok","id":"{request["id"]}","session_id":"{session}","protocol_version":"{version}"}}\n'
    return Promise(session, answer.encode())


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


def _version(request: Any) -> str | None:
    if not isinstance(request, dict) or request.get("type") != "init":
        return None
    match request.get("protocol_version"):
        case None | "0.2.0":
            return "0.2.0"
        case "0.3.0" | "0.4.0" as same:
            return str(same)
    return None


def _plain(request: dict[str, Any]) -> bool:
    id, config = request.get("id"), request.get("config")
    if not isinstance(id, str) or not isinstance(config, dict) or not config.keys() <= KNOWN:
        return False
    if not (id.isascii() and id.isprintable()) or '"' in id or "\\" in id:
        return False
    most = config.get("max_iterations")
    return (
        isinstance(config.get("model"), str)
        and isinstance(config.get("system_prompt"), str)
        and isinstance(config.get("tools"), list)
        and all(isinstance(tool, str) and not tool.startswith("mcp__") for tool in config["tools"])
        and all(config.get(name) is None or isinstance(config[name], str) for name in ("task_id", "worker_id"))
        and (most is None or (type(most) is int and most > 0))
    )


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
