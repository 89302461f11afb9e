"""Where an outside agent's model is: the base URLs in its environment, and in its own settings as a person left them.

In its sandbox an agent can write its own settings. So what they name counts from the first time that it runs confined;
a host that appears there later counts only after a person has named it, with `--network` or `agents.NAME.hosts`.
"""

import hashlib
import os
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from treadle.io.files import read_at_most, write_atomic
from treadle.io.paths import private_dir, state_dir
from treadle.io.reading import read_if_there
from treadle.policy.network import host_of, permitted

VARIABLES = ("_BASE_URL", "_API_BASE", "_ENDPOINT")
"""How the names of variables end that say where a model is."""
_KEY = re.compile(r"base_?url$", re.I)
MOST = 1 << 20


class NamedHosts(NamedTuple):
    counted: tuple[str, ...]
    new: tuple[str, ...]
    """Those that its settings did not name before, so that it may have written them."""


def in_environment(env: Mapping[str, str]) -> list[str]:
    return _hosts(value for variable, value in env.items() if variable.endswith(VARIABLES))


def in_settings(files: Sequence[str], chosen: Sequence[str]) -> NamedHosts:
    """`chosen`: what a person lists now."""
    counted: list[str] = []
    new: list[str] = []
    for path in files:
        there = _hosts(_urls(_read(path)))
        record = os.path.join(private_dir(os.path.join(state_dir(), "driven", "base-urls")), _key(path))
        before = read_if_there(record)
        known = there if before is None else msgspec.json.decode(before, type=list[str])
        known = [*known, *(host for host in there if host not in known and permitted(tuple(chosen), *_pair(host)))]
        write_atomic(record, msgspec.json.encode(known))
        counted += [host for host in there if host in known]
        new += [host for host in there if host not in known]
    return NamedHosts(tuple(dict.fromkeys(counted)), tuple(dict.fromkeys(new)))


def _pair(host: str) -> tuple[str, int]:
    name, _, port = host.partition(":")
    return name, int(port or 443)


def _hosts(addresses: Iterable[str]) -> list[str]:
    return [*dict.fromkeys(filter(None, map(host_of, addresses)))]


def _key(path: str) -> str:
    return hashlib.sha256(os.fsencode(path)).hexdigest()[:16] + ".json"


def _read(path: str) -> Any:
    """What the file says; nothing when it cannot be read, since then it does not count."""
    try:
        data = read_at_most(path, MOST)
        return tomllib.loads(data.decode()) if path.endswith(".toml") else msgspec.json.decode(data)
    except (OSError, ValueError, RecursionError):
        return None


def _urls(settings: Any, depth: int = 0) -> Iterator[str]:
    if isinstance(settings, dict) and depth < 10:
        for key, value in settings.items():
            if isinstance(value, str) and _KEY.search(str(key)):
                yield value
            else:
                yield from _urls(value, depth + 1)
