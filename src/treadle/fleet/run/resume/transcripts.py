"""Finds the files in which an agent keeps a session, and puts them where the agent looks for them on another machine.

Where they are is on the agent's card (`Card.transcripts`); our own agent keeps them in the state directory. All
functions block.
"""

import glob
import os
from collections.abc import Mapping

from treadle.drivers.card import cards
from treadle.drivers.places import filled, place_of, slug
from treadle.io.files import write_atomic
from treadle.io.paths import private_dir, state_dir
from treadle.io.reading import read
from treadle.redact import MARK, SHORTEST, is_secret_name

MOST = 16 * 1024 * 1024
"""The most bytes of a session that are moved; a longer one continues only on its own machine."""


def collect(agent: str, session: str, cwd: str, environ: Mapping[str, str]) -> dict[str, bytes]:
    """The files of a session, by their path below the agent's directory; empty when it cannot be moved."""
    found: dict[str, bytes] = {}
    size = 0
    pattern = _pattern(agent, environ)
    if not pattern or not session:
        return found
    for path in sorted(glob.glob(filled(pattern, session, cwd), include_hidden=True)):
        size += os.path.getsize(path)
        if size > MOST:
            return {}
        found[os.path.relpath(path, _start(pattern, cwd))] = _without_keys(read(path), environ)
    return found


def _without_keys(data: bytes, environ: Mapping[str, str]) -> bytes:
    """The text without this machine's keys. Nothing else is removed: the agent needs the rest unchanged."""
    for name, value in environ.items():
        if is_secret_name(name) and len(value) >= SHORTEST:
            data = data.replace(value.encode(), MARK.encode())
    return data


def put_back(files: Mapping[str, bytes], agent: str, cwd: str, environ: Mapping[str, str]) -> bool:
    """Put the files of a session in place. Whether the agent will find it here, for this directory."""
    pattern = _pattern(agent, environ)
    if not pattern or not files:
        return False
    start = _start(pattern, cwd)
    for name, data in files.items():
        path = os.path.normpath(os.path.join(start, name))
        if not path.startswith(start + "/"):
            return False  # the path leads outside: the one who made it wants to write elsewhere
        private_dir(os.path.dirname(path))
        write_atomic(path, data)
    return True


def _pattern(agent: str, environ: Mapping[str, str]) -> str:
    if agent == "native":
        return os.path.join(state_dir(), "sessions", "{id}", "history.jsonl")
    card = cards().get(agent.partition(":")[0])
    return place_of(card, environ) if card is not None else ""


def _start(pattern: str, cwd: str) -> str:
    """The directory below which a session's files have the same names everywhere."""
    fixed = pattern.replace("{cwd}", slug(cwd)).split("/")
    at = next(number for number, part in enumerate(fixed) if "*" in part or "{" in part)
    return "/".join(fixed[:at])
