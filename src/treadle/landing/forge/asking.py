"""One repository's part of a forge's HTTP API. The token is read from the environment, by its name."""

import os
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

import msgspec

from treadle.errors import ConfigError, WorkspaceError
from treadle.landing.forge.interface import ForgeRefused

ANSWER_MAX = 16 << 20
PAGES_MAX = 20


class ForgeApi:
    """`place` is the address that all paths begin with, `token` the name of the variable that holds the token, and
    `sign` the header that it is sent in: its name, and what stands before the token there."""

    def __init__(self, place: str, token: str, sign: tuple[str, str], headers: Mapping[str, str]) -> None:
        if urlsplit(place).scheme != "https" and urlsplit(place).hostname not in ("127.0.0.1", "localhost"):
            raise ConfigError(f"{place} is not an https address: a token would be sent for all to read")
        self.place = place
        self.host = urlsplit(place).hostname or ""
        self.token = token
        self._sign, self._more = sign, dict(headers)

    async def get(self, path: str, kind: Any) -> Any:
        return await self.ask("GET", path, None, kind)

    async def pages(self, path: str, kind: type[Any], size: int) -> list[Any]:
        """All of a list that comes in pages of this size."""
        found: list[Any] = []
        for number in range(1, PAGES_MAX + 1):
            page = await self.get(f"{path}{'&' if '?' in path else '?'}page={number}", list[kind])  # type: ignore[valid-type]
            found += page
            if len(page) < size:
                return found
        raise WorkspaceError(f"{self.host} has more than {PAGES_MAX} pages of {path.partition('?')[0]}")

    async def ask(self, method: str, path: str, body: Mapping[str, Any] | None, kind: Any) -> Any:
        """The answer. With no `kind`, it is not looked at."""
        from treadle.io.http import HttpClient, HttpError  # a node of a fleet without a forge does without it

        client = HttpClient(self._headers(), connect_seconds=20, idle_seconds=60)
        data = msgspec.json.encode(body) if body is not None else b""
        try:
            async with client.request(method, self.place + path, data) as response:
                answer = b""
                async for chunk in response.chunks():
                    answer += chunk
                    if len(answer) > ANSWER_MAX:
                        raise WorkspaceError("the forge's answer is too long")
                status = response.status
        except HttpError as error:
            raise WorkspaceError(f"{self.host} cannot be asked: {error}") from error
        finally:
            await client.aclose()
        if not 200 <= status < 300:
            raise ForgeRefused(f"{self.host} answers {status} to {method}: {_reason(answer)}")
        try:
            return msgspec.json.decode(answer, type=kind) if kind is not None else None
        except msgspec.MsgspecError as error:
            raise WorkspaceError(f"{self.host} answers something else: {error}") from error

    def _headers(self) -> dict[str, str]:
        value = os.environ.get(self.token, "").strip()
        if not value:
            raise ConfigError(f"there is no token in the variable {self.token}", hint="set it, or name another")
        name, before = self._sign
        return {name: f"{before}{value}", "user-agent": "treadle", "content-type": "application/json", **self._more}


def repository_of(address: str) -> tuple[str, str]:
    """The host and OWNER/NAME of a remote's address, over HTTPS or SSH. GitLab's groups may lie in groups."""
    if match := re.fullmatch(r"(?:[\w.-]+@)?([\w.-]+):([\w.-]+(?:/[\w.-]+)+)/?", address):
        return match[1], match[2].removesuffix(".git")
    parts = urlsplit(address)
    path = parts.path.strip("/").removesuffix(".git")
    if parts.hostname and re.fullmatch(r"[\w.-]+(?:/[\w.-]+)+", path):
        return parts.hostname, path
    raise ConfigError("the remote's address names no OWNER/NAME of a forge", hint="give them: --forge KIND:OWNER/NAME")


def _reason(answer: bytes) -> str:
    """The forge's own words, with those of its details."""
    try:
        tree = msgspec.json.decode(answer)
        more = [str(each.get("message", "")) for each in tree.get("errors") or () if isinstance(each, dict)]
        message = tree.get("message") or tree["error"]
        return "; ".join(filter(None, [message if isinstance(message, str) else str(message), *more]))[:500]
    except (msgspec.MsgspecError, KeyError, AttributeError, TypeError):
        return answer[:200].decode("utf-8", "replace")
