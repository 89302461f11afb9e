"""The network access of programs that may reach only a few hosts: a proxy outside, on a socket bound into the sandbox.

Inside, `relay.py` offers it as http://127.0.0.1:3128 in `http_proxy` and similar variables. Names are resolved here.
None leads to this machine unless it is `localhost`, and only one that a person has listed leads into the local network,
as a mirror there does: not one that a program gave, or that a pattern covers. Programs that ignore these variables
(ssh, databases, ping, `fetch` of older Node versions) reach nothing.
"""

import asyncio
import contextlib
import os
import socket
import sys
from collections.abc import Awaitable, Callable, Mapping
from typing import TypeAlias
from urllib.parse import urlsplit

from treadle.io.sandbox.passage import Passage, pump
from treadle.policy import addresses
from treadle.policy.network import GROUPS, permitted, refusal

PLACE = "/run/treadle-proxy"
"""The path of the socket inside."""
PORT = 3128
HEAD_CAP = 64 * 1024
SECONDS = 30.0
VARIABLES = ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "all_proxy")
JAVA = ("GRADLE_OPTS", "MAVEN_OPTS", "SBT_OPTS")
LOCAL = ("localhost", "127.0.0.1", "::1")
Reaching: TypeAlias = Callable[[str, int], Awaitable[bool]]
"""Whether a host and port may be reached although they are not in the list."""


FORBIDDEN = b"HTTP/1.1 403 Forbidden\r\nContent-Length: %d\r\nConnection: close\r\n\r\n"


class Refused(Exception):
    """A refusal, sent to the program as the answer to its request."""


FAILURES = (Refused, OSError, ValueError, asyncio.IncompleteReadError, asyncio.LimitOverrunError)


def relayed(argv: list[str]) -> list[str]:
    """The command with the relay as its parent."""
    relay = os.path.join(os.path.dirname(__file__), "relay.py")
    return [sys.executable, "-I", "-S", relay, PLACE, str(PORT), *argv]


def variables(hosts: tuple[str, ...], env: Mapping[str, str]) -> dict[str, str]:
    """What makes programs use it, beside what is in `env`. Servers inside are reached directly, unless the list means
    those of this machine. Java reads none of these variables: its builders are told by options of theirs."""
    outside = any(host.partition(":")[0] in LOCAL for host in hosts)
    local = "" if outside else ",".join(LOCAL)
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
                    raise Refused(f"this proxy takes CONNECT and http:// addresses, not {target[:200]}")
                host, port = parts.hostname, parts.port or 80
                path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
                hello = _origin_form(head, method, path, first)
        listed = await self._is_listed(host, port)
        async with asyncio.timeout(SECONDS):
            there = await self._connect(host, port, addresses.is_elsewhere if listed else addresses.is_public)
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
            from treadle.io.sandbox import registries  # imported here because few lists name a group

            found = await asyncio.to_thread(registries.found, self.hosts)
            if permitted(found.hosts, host, port):
                return True
            missing = found.missing
        if self._reaching is not None and await self._reaching(host, port):
            return False
        raise Refused(refusal(self.hosts, host) + (f". {missing}" if missing else ""))

    async def _connect(
        self, host: str, port: int, usual: Callable[[addresses.Address], bool]
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
        # A person who lists an address, or this machine, means it; a name must not lead there unexpectedly.
        named = host == "localhost" or _is_address(host)
        there = dict.fromkeys(str(one[4][0]) for one in found)
        usable = [one for one in there if named or usual(addresses.parse(one))]
        if not usable:
            raise Refused(f"{host} leads to a private address: only a name that is itself in the list may do that")
        for address in usable[:-1]:
            with contextlib.suppress(OSError):  # includes TimeoutError
                async with asyncio.timeout(SECONDS / len(usable)):
                    return await asyncio.open_connection(address, port)
        return await asyncio.open_connection(usable[-1], port)


def _is_address(host: str) -> bool:
    try:
        addresses.parse(host)
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
