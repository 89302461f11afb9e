"""The hosts of the package registries that a group of `--network` stands for, as the tools on this machine say them.

They are asked outside of any workspace, so what a project's files name is not among them: that would let a project, or
an agent that writes such a file, choose what can be reached.
"""

import functools
import glob
import os
import re
import threading
import tomllib
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import msgspec

from treadle.errors import NotFound, TreadleError
from treadle.io.process.programs import run_program
from treadle.policy.network import GROUPS, host_of

SECONDS = 30.0
UV = ("UV_DEFAULT_INDEX", "UV_INDEX", "UV_INDEX_URL")
_once = threading.Lock()
"""`functools.cache` alone would let two threads ask the same tool at once, for seconds each."""
_URL = re.compile(r"https?://[^\s'\"<>]+")
_LINK = re.compile(r"^ *(?:Found link|Getting page|Fetching project page and analyzing links:) (https?://\S+)", re.M)
"""As pip writes where it looks and what it finds there; what else it prints is a package's own."""


class FoundHosts(NamedTuple):
    hosts: tuple[str, ...]
    missing: str
    """Why a tool named none, and what a person can do; empty when it did."""


def found(listed: Iterable[str]) -> FoundHosts:
    """Those of the groups in this list. Blocks while the tools are asked, once in this process."""
    with _once:
        asked = [_asked(group) for group in GROUPS if group in listed]
    hosts = dict.fromkeys(host for one in asked for host in one.hosts)
    return FoundHosts(tuple(hosts), "; ".join(one.missing for one in asked if one.missing))


@functools.cache
def _asked(group: str) -> FoundHosts:
    tool, urls = _TOOLS[group]
    try:
        hosts = tuple(dict.fromkeys(filter(None, map(host_of, urls()))))
        why = "says no registry"
    except (TreadleError, OSError, ValueError) as error:
        hosts, why = (), f"cannot be asked ({error})"
    if hosts:
        return FoundHosts(hosts, "")
    return FoundHosts((), f"{group} is in the list, but {tool} {why}: name the hosts of its registry instead")


def _output(*argv: str) -> str:
    """What a tool of the person's prints, started where no project's settings apply."""
    return run_program(argv, cwd="/", timeout=SECONDS).stdout.decode(errors="replace")


def _npm() -> list[str]:
    """Its registry, and those of scopes."""
    output = _output("npm", "config", "list", "--json", "--loglevel=silent", "--no-update-notifier")
    settings = msgspec.json.decode(output, type=dict[str, Any])
    return [str(value) for name, value in settings.items() if name == "registry" or name.endswith(":registry")]


def _pypi() -> list[str]:
    """The indexes of pip and the places of files that their pages link to, here for the package pip; those of uv."""
    urls = _uv()
    try:
        output = _output("pip", "--no-input", "--disable-pip-version-check", "index", "versions", "pip", "-vv")
    except NotFound:
        if not urls:
            raise
        return urls
    return [*urls, *_LINK.findall(output)]


def _uv() -> list[str]:
    variables = map(os.environ.get, UV)
    urls = [url for value in variables if value for url in value.split()]
    settings = _table(os.path.join(os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config"), "uv/uv.toml"))
    listed = [str(index.get("url", "")) for index in settings.get("index", [])]
    listed.append(str(settings.get("index-url", "")))
    return [*(url.rpartition("=")[2] for url in urls), *filter(None, listed)]


def _go() -> list[str]:
    proxies, _, sums = _output("go", "env", "GOPROXY", "GOSUMDB").partition("\n")
    words = sums.split()
    return [*re.split("[,|]", proxies.strip()), *words[1:], *(f"https://{word}" for word in words[:1] if word != "off")]


def _crates() -> list[str]:
    """What its settings name, and what the indexes that it has used say about themselves."""
    home = os.environ.get("CARGO_HOME") or os.path.expanduser("~/.cargo")
    urls: list[str] = []
    for name in ("config.toml", "config"):
        settings = _table(os.path.join(home, name))
        tables = [table for part in ("source", "registries") for table in settings.get(part, {}).values()]
        named = [str(table.get(key, "")) for table in tables for key in ("registry", "index")]
        urls += [url.removeprefix("sparse+") for url in named]
    for path in glob.glob(os.path.join(glob.escape(home), "registry", "index", "*", "config.json")):
        urls.append("https://" + os.path.basename(os.path.dirname(path)).rpartition("-")[0])
        with open(path, "rb") as file:
            urls += _URL.findall(file.read().decode(errors="replace"))
    return urls


def _table(path: str) -> dict[str, Any]:
    """The settings in this file; none when there is no such file."""
    if not os.path.isfile(path):
        return {}
    with open(path, "rb") as file:
        return tomllib.load(file)


_TOOLS: dict[str, tuple[str, Callable[[], list[str]]]] = {
    "npm": ("npm", _npm),
    "pypi": ("pip", _pypi),
    "crates": ("cargo", _crates),
    "go": ("go", _go),
}
