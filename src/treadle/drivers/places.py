"""Where agents keep their sessions, as their cards say (`Card.transcripts`)."""

import glob
import os
import re
from collections.abc import Mapping

from treadle.drivers.card import Card


def place_of(card: Card, environ: Mapping[str, str]) -> str:
    """The pattern of its files that counts with these variables; empty when its card names none."""
    for place in card.transcripts:
        first, _, rest = place.partition("/")
        if first == "~":
            return os.path.join(environ.get("HOME", "/"), rest)
        if environ.get(first[1:]):
            return os.path.join(environ[first[1:]], rest)
    return ""


def filled(pattern: str, session: str, cwd: str) -> str:
    """The files of this session of this directory, as a pattern for `glob`."""
    return pattern.replace("{id}", glob.escape(session)).replace("{cwd}", slug(cwd))


def slug(cwd: str) -> str:
    return re.sub(r"[^A-Za-z0-9]", "-", os.path.realpath(cwd))
