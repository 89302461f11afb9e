"""The network access of programs that may reach only a few hosts: a proxy outside, on a socket bound into the sandbox.

Inside, `relay.py` offers it as http://127.0.0.1:3128 in `http_proxy` and similar variables. Names are resolved here.
None leads to this machine unless it is `localhost`, and only one that a person has listed leads into the local network,
as a mirror there does: not one that a program gave, or that a pattern covers. Programs that ignore these variables
(ssh, databases, ping, `fetch` of older Node versions) reach nothing.
"""

import asyncio
import contextlib
import functools
import glob
import os
import re
import socket
import sys
import threading
import tomllib
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias
from urllib.parse import urlsplit

import msgspec

from treadle.confinement import PortGrant
from treadle.errors import NotFound, TreadleError
from treadle.io import scratch
from treadle.io.process.programs import run_program
from treadle.policy import network
from treadle.policy.network import GROUPS, host_of, permitted, refusal

# A socket of ours that a sandbox shows: what confined programs may reach outside goes through one.


class Passage:
    def __init__(self, place: str, kind: str, *, limit: int = 64 * 1024) -> None:
        """`place`: its path inside. `limit`: bytes that a connection may hold unread."""
        self.place = place
        self._limit = limit
        self._directory = scratch.make(kind)
        self.path = os.path.join(self._directory, "s")
        self._server: asyncio.Server | None = None
        self._visits: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        self._server = await asyncio.start_unix_server(self._visit, self.path, limit=self._limit)
        os.chmod(self.path, 0o600)

    def close(self) -> None:
        if self._server is not None:
            self._server.close()
        for visit in list(self._visits):
            visit.cancel()
        scratch.remove(self._directory)

    async def _visit(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._visits.add(task)
        try:
            await self.serve(reader, writer)
        except asyncio.CancelledError:
            pass  # the program is gone
        finally:
            self._visits.discard(task)
            writer.close()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection; what fails in it is reported there."""
        raise NotImplementedError


class Granted(Passage):
    """A Unix socket outside that may be reached: for each connection one is made to it, by its name at that moment.

    Only bytes go through, not descriptors.
    """

    def __init__(self, place: str) -> None:
        super().__init__(place, "granted")

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):  # nothing listens there: the connection ends
            there = await asyncio.open_unix_connection(self.place)
            try:
                await asyncio.gather(pump(reader, there[1]), pump(there[0], writer))
            finally:
                there[1].close()


async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Pass on everything, and the end."""
    try:
        while data := await reader.read(64 * 1024):
            writer.write(data)
            await writer.drain()
        if writer.can_write_eof():
            writer.write_eof()
    except OSError:
        pass  # one end is gone, and the other notices


# The hosts of the package registries that a group of `--network` stands for, as the tools on this machine say them.
#
# They are asked outside of any workspace, so what a project's files name is not among them: that would let a project,
# or an agent that writes such a file, choose what can be reached.

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


def registry_hosts(listed: Iterable[str]) -> FoundHosts:
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

PLACE = "/run/treadle-proxy"
"""The path of the socket inside."""
PORT = 3128
"""The usual port of HTTP proxies."""
HEAD_CAP = 64 * 1024
VARIABLES = ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "all_proxy")
JAVA = ("GRADLE_OPTS", "MAVEN_OPTS", "SBT_OPTS")
LOCAL = ("localhost", "127.0.0.1", "::1")
Reaching: TypeAlias = Callable[[str, int], Awaitable[bool]]
"""Whether a host and port may be reached although they are not in the list."""


FORBIDDEN = b"HTTP/1.1 403 Forbidden\r\nContent-Length: %d\r\nConnection: close\r\n\r\n"


class Refused(Exception):
    """A refusal, sent to the program as the answer to its request."""


FAILURES = (Refused, OSError, ValueError, asyncio.IncompleteReadError, asyncio.LimitOverrunError)


def leads_outside(hosts: Iterable[str]) -> bool:
    """Whether this list names the machine itself: what programs send to its addresses then goes through the proxy."""
    return any(host.partition(":")[0] in LOCAL for host in hosts)


def relayed(argv: list[str], ports: Sequence[PortGrant]) -> list[str]:
    """The command with the relay as its parent. `ports`: with the paths of their sockets inside."""
    relay = os.path.join(os.path.dirname(__file__), "relay.py")
    return [sys.executable, "-I", "-S", relay, ",".join(f"{host}:{port}={place}" for port, place, host in ports), *argv]


def variables(hosts: tuple[str, ...], env: Mapping[str, str], direct: Sequence[str] = ()) -> dict[str, str]:
    """What makes programs use it, beside what is in `env`. Servers inside are reached directly, unless the list means
    those of this machine; but always what is at one of the addresses `direct`. Java reads none of these variables: its
    builders are told by options of theirs."""
    outside = leads_outside(hosts)
    local = ",".join(dict.fromkeys((*(() if outside else LOCAL), *direct)))
    used = dict.fromkeys(VARIABLES, f"http://127.0.0.1:{PORT}")
    options = [f"-D{kind}.proxy{what}" for kind in ("http", "https") for what in ("Host=127.0.0.1", f"Port={PORT}")]
    options += ["-Dhttp.nonProxyHosts="] if outside else []
    java = {name: " ".join(filter(None, (env.get(name), *options))) for name in JAVA}
    return {**used, **java, "NODE_USE_ENV_PROXY": "1", "no_proxy": local, "NO_PROXY": local}


class Proxy(Passage):
    def __init__(
        self, hosts: tuple[str, ...], reaching: Reaching | None = None, *, public: tuple[str, ...] = ()
    ) -> None:
        super().__init__(PLACE, "proxy", limit=HEAD_CAP)
        self.hosts = hosts
        self._listed = tuple(host for host in hosts if "*" not in host and host not in public)
        self._reaching = reaching

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await self._serve(reader, writer)
        except FAILURES as why:
            with contextlib.suppress(OSError):
                body = f"treadle: {str(why) or 'no answer in time'}\n".encode()
                writer.write(FORBIDDEN % len(body) + body)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async with asyncio.timeout(SECONDS):
            head = await reader.readuntil(b"\r\n\r\n")
            method, target, first = _first_line(head)
            if method == "CONNECT":
                host, _, given = target.rpartition(":")
                host, port, hello = host.strip("[]"), int(given), b""
            else:
                parts = urlsplit(target)
                if parts.scheme != "http" or not parts.hostname:
                    raise Refused(f"this proxy accepts CONNECT and http:// addresses, not {target[:200]}")
                host, port = parts.hostname, parts.port or 80
                path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
                hello = _origin_form(head, method, path, first)
        listed = await self._is_listed(host, port)
        async with asyncio.timeout(SECONDS):
            there = await self._connect(host, port, network.is_elsewhere if listed else network.is_public)
        if hello:
            there[1].write(hello)
        else:
            writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        try:
            await asyncio.gather(pump(reader, there[1]), pump(there[0], writer))
        finally:
            there[1].close()

    async def _is_listed(self, host: str, port: int) -> bool:
        """Whether a person has listed it; False when it may be reached for another reason. Raises Refused if it may
        not."""
        if permitted(self._listed, host, port):
            return True
        if permitted(self.hosts, host, port):
            return False
        missing = ""
        if any(group in self.hosts for group in GROUPS):
            found = await asyncio.to_thread(registry_hosts, self.hosts)
            if permitted(found.hosts, host, port):
                return True
            missing = found.missing
        if self._reaching is not None and await self._reaching(host, port):
            return False
        raise Refused(refusal(self.hosts, host) + (f". {missing}" if missing else ""))

    async def _connect(
        self, host: str, port: int, usual: Callable[[network.Address], bool]
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
        # A person who lists an address, or this machine, means it; a name must not lead there unexpectedly.
        named = host == "localhost" or _is_address(host)
        there = dict.fromkeys(str(one[4][0]) for one in found)
        usable = [one for one in there if named or usual(network.parse(one))]
        if not usable:
            raise Refused(f"{host} resolves to a private address: only names on the list itself may do that")
        for address in usable[:-1]:
            with contextlib.suppress(OSError):  # includes TimeoutError
                async with asyncio.timeout(SECONDS / len(usable)):
                    return await asyncio.open_connection(address, port)
        return await asyncio.open_connection(usable[-1], port)


def _is_address(host: str) -> bool:
    try:
        network.parse(host)
    except ValueError:
        return False
    return True


def _first_line(head: bytes) -> tuple[str, str, bytes]:
    first = head.split(b"\r\n", 1)[0]
    words = first.decode("latin-1").split(" ")
    if len(words) != 3:
        raise Refused("that is not an HTTP request")
    return words[0], words[1], first


def _origin_form(head: bytes, method: str, path: str, first: bytes) -> bytes:
    """The head of a request as the server expects it, for one request only: the next might be for another host."""
    lines = head[len(first) + 2 :].split(b"\r\n")
    headers = [
        line for line in lines if line and not line.lower().startswith((b"proxy-", b"connection:", b"keep-alive:"))
    ]
    return b"\r\n".join([f"{method} {path} HTTP/1.1".encode("latin-1"), *headers, b"Connection: close", b"", b""])
