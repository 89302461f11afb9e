"""The files in which an agent keeps a session: found, and put where the agent looks for them on another machine.

Where they are is on the agent's card (`Card.transcripts`); our own agent keeps them in the state directory. All
functions block.
"""

import glob
import os
import re
from collections.abc import Mapping

from treadle.drivers.card import cards
from treadle.io.files import write_atomic
from treadle.io.paths import private_dir, state_dir
from treadle.io.reading import read
from treadle.redact import MARK, SHORTEST, is_secret_name

MOST = 16 * 1024 * 1024
"""Bytes of a session that travel; a longer one goes on only where it was."""


def collect(agent: str, session: str, cwd: str, environ: Mapping[str, str]) -> dict[str, bytes]:
    """The files of a session, by their place below where such files are; nothing when it cannot travel."""
    found: dict[str, bytes] = {}
    size = 0
    pattern = _pattern(agent, environ)
    if not pattern or not session:
        return found
    for path in sorted(glob.glob(_filled(pattern, session, cwd), include_hidden=True)):
        size += os.path.getsize(path)
        if size > MOST:
            return {}
        found[os.path.relpath(path, _start(pattern, cwd))] = _without(read(path), environ)
    return found


def _without(data: bytes, environ: Mapping[str, str]) -> bytes:
    """The keys of this machine stay here. Nothing else is taken out: the agent needs the rest as it was."""
    for name, value in environ.items():
        if is_secret_name(name) and len(value) >= SHORTEST:
            data = data.replace(value.encode(), MARK.encode())
    return data


def put_back(files: Mapping[str, bytes], agent: str, cwd: str, environ: Mapping[str, str]) -> bool:
    """Whether the agent will find the session here, for this directory."""
    pattern = _pattern(agent, environ)
    if not pattern or not files:
        return False
    start = _start(pattern, cwd)
    for name, data in files.items():
        path = os.path.normpath(os.path.join(start, name))
        if not path.startswith(start + "/"):
            return False  # whoever wrote that wants to write elsewhere
        private_dir(os.path.dirname(path))
        write_atomic(path, data)
    return True


def _pattern(agent: str, environ: Mapping[str, str]) -> str:
    if agent == "native":
        return os.path.join(state_dir(), "sessions", "{id}", "history.jsonl")
    card = cards().get(agent.partition(":")[0])
    for place in card.transcripts if card is not None else ():
        first, _, rest = place.partition("/")
        if first == "~":
            return os.path.join(environ.get("HOME", "/"), rest)
        if environ.get(first[1:]):
            return os.path.join(environ[first[1:]], rest)
    return ""


def _filled(pattern: str, session: str, cwd: str) -> str:
    return pattern.replace("{id}", glob.escape(session)).replace("{cwd}", _slug(cwd))


def _start(pattern: str, cwd: str) -> str:
    """The directory below which a session's files have the same names everywhere."""
    fixed = pattern.replace("{cwd}", _slug(cwd)).split("/")
    at = next(number for number, part in enumerate(fixed) if "*" in part or "{" in part)
    return "/".join(fixed[:at])


def _slug(cwd: str) -> str:
    return re.sub(r"[^A-Za-z0-9]", "-", os.path.realpath(cwd))
