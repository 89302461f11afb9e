"""Fetch a page of the public web as text: HTML becomes Markdown.

Every redirect is resolved and its addresses are checked, and the connection goes to a checked address under the name
that was asked for: neither DNS nor a redirect leads into a private network. No proxy, no cookies, no credentials.
"""

from __future__ import annotations

import asyncio
import re
import socket
import ssl
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Annotated
from urllib.parse import SplitResult, quote, urljoin, urlsplit

import msgspec
from msgspec import Meta

from treadle import __version__
from treadle.agent.tools import files
from treadle.agent.tools.base import ALLOW_PRIVATE, Resolve, Tool, ToolContext
from treadle.errors import ToolError
from treadle.events import ToolKind
from treadle.session import Access

if TYPE_CHECKING:
    from treadle.policy.network import Address


# HTML as Markdown for a model to read: headings, lists, links, tables and preformatted text survive.
#
# A library does the work whose time stays proportional to the page's size even on hostile pages, unlike that of
# Python's own parser. It is a reader, not a sanitiser.

DEEPEST = 400
"""How deeply elements may be nested; what is deeper is left out."""
NO_TEXT = ["script", "style", "noscript", "template", "svg", "iframe", "textarea", "object", "canvas"]
_TITLE = re.compile(r"<title[^<>]{0,200}>([^<]{1,500})", re.I)
_HEAD = 16 << 10
"""How many characters are searched for a title."""


def to_text(page: str, base: str = "") -> str:
    """Links are made absolute with `base`. A page that cannot be read gives an empty text."""
    import html

    from html_to_markdown import ConversionOptions, convert

    options = ConversionOptions(
        base_url=base or None,
        skip_images=True,
        extract_metadata=False,
        max_depth=DEEPEST,
        exclude_selectors=NO_TEXT,
    )
    text = (convert(page.encode("utf-8", "replace").decode(), options).content or "").strip()
    title = _TITLE.search(page[:_HEAD])
    return f"{' '.join(html.unescape(title[1]).split())}\n\n{text}".strip() if title else text


MAX_BYTES = 5 << 20
MAX_SECONDS = 30.0
MAX_REDIRECTS = 5
HEADERS = {
    "User-Agent": f"treadle/{__version__}",
    "Accept": "text/html,text/*;q=0.9,*/*;q=0.5",
    "Accept-Encoding": "identity",
}
_SENT = "%/:?#[]@!$&'()*+,;=|~"
"""What stands in a path or query as it is: what is reserved, and the sign of what is encoded already."""
_TEXTUAL = r"(?i)text/|.*[/+](json|xml|javascript|yaml|x-ndjson|toml|sql|x-sh)$|^$"

Lookup = Callable[[str, int], Awaitable[list[str]]]


class WebFetchArgs(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    url: Annotated[str, Meta(description="An http or https address.")]


async def system_lookup(host: str, port: int) -> list[str]:
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [str(entry[4][0]) for entry in found]


class WebFetch:
    name = "web_fetch"
    description = (
        f"Fetch a web page or text file by http(s) GET and return it as text; HTML becomes plain text with links. At "
        f"most {MAX_BYTES >> 20} MiB and {MAX_SECONDS:g} s. Addresses in private networks are refused."
    )
    kind: ToolKind = "network"
    Args = WebFetchArgs

    def __init__(
        self,
        allowed: Callable[[Address], bool] | None = None,
        lookup: Lookup = system_lookup,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._allowed = allowed
        self._lookup = lookup
        self._tls = tls

    def access(self, args: WebFetchArgs, resolve: Resolve) -> Access:
        return Access(tool=self.name, kind=self.kind, url=args.url, args=args)

    async def run(self, args: WebFetchArgs, context: ToolContext) -> str:
        from treadle.policy.network import is_public

        any_address = bool(context.state.get(ALLOW_PRIVATE))
        fetch = Fetch((lambda _: True) if any_address else self._allowed or is_public, self._lookup, self._tls)
        try:
            async with asyncio.timeout(min(MAX_SECONDS, context.timeout)):
                page = await fetch.page(args.url, context.refused)
        except TimeoutError:
            raise ToolError(f"{args.url} did not answer within {min(MAX_SECONDS, context.timeout):g} s") from None
        return await asyncio.to_thread(page.render)


WEB_FETCH: Tool[WebFetchArgs] = WebFetch()


class FetchedPage(msgspec.Struct):
    url: str
    asked: str
    status: int
    content_type: str
    body: bytes
    cut: bool

    def render(self) -> str:
        kind = self.content_type.partition(";")[0].strip().lower()
        what = files.binary(self.body[: files.SNIFF])
        if what or not re.match(_TEXTUAL, kind):
            raise ToolError(f"{self.url} is {what or kind}, of {len(self.body):,} bytes or more; only text can be read")
        content = self._decoded()
        if kind in ("text/html", "application/xhtml+xml") or (not kind and content.lstrip()[:1] == "<"):
            content = to_text(content, self.url)
        notes = [f"[{self.url}]"] if self.url != self.asked else []
        if self.status >= 400:
            notes.append(f"[the server answered {self.status}]")
        end = [f"[cut after {MAX_BYTES:,} bytes]"] if self.cut else []
        return "\n".join([*notes, content.strip("\n") or "[the page has no text]", *end])

    def _decoded(self) -> str:
        """Decoded by the header, the page's own declaration or its first bytes; UTF-8 when none of them says."""
        found = re.search(r"charset\s*=\s*[\"']?([\w.:-]+)", self.content_type, re.I)
        meta = re.search(rb"<meta[^>]{0,200}charset\s*=\s*[\"']?([\w.:-]+)", self.body[:4096], re.I)
        encoding = found[1] if found else meta[1].decode() if meta else files.bom(self.body) or "utf-8"
        try:
            return self.body.decode(encoding, "replace").removeprefix("\ufeff")
        except LookupError:
            return self.body.decode("utf-8", "replace")


class Fetch:
    def __init__(self, allowed: Callable[[Address], bool], lookup: Lookup, tls: ssl.SSLContext | None) -> None:
        self._allowed = allowed
        self._lookup = lookup
        self._tls = tls

    async def page(self, url: str, refused: Callable[[str], str]) -> FetchedPage:
        from treadle.io.http import HttpError

        asked = url
        for _ in range(MAX_REDIRECTS + 1):
            try:
                answer = await self._get(url)
            except (HttpError, UnicodeError) as error:
                raise ToolError(f"cannot fetch {url}: {error}") from error
            if isinstance(answer, FetchedPage):
                answer.asked = asked
                return answer
            url = urljoin(url, answer)
            if why := refused(url):
                raise ToolError(f"{asked} redirects to {url}: {why}")
        raise ToolError(f"{asked} redirects more than {MAX_REDIRECTS} times")

    async def _get(self, url: str) -> FetchedPage | str:
        """The page, or the address that it redirects to."""
        from treadle.io.http import CannotConnect, HttpClient

        parts = check_url(url)
        host = parts.hostname or ""
        name = host.encode("idna").decode() if not host.isascii() else host
        last: CannotConnect | None = None
        for address in await self._addresses(name, parts.port or (443 if parts.scheme == "https" else 80)):
            client = HttpClient(
                HEADERS,
                connect_seconds=MAX_SECONDS,
                idle_seconds=MAX_SECONDS,
                pinned=str(address),
                tls=self._tls,
            )
            try:
                async with client.request("GET", _target(parts, name)) as response:
                    if response.moved_to:
                        return response.moved_to
                    body = await response.beginning(MAX_BYTES + 1)
                    kind = response.headers.get("content-type", "")
                    return FetchedPage(url, url, response.status, kind, body[:MAX_BYTES], len(body) > MAX_BYTES)
            except CannotConnect as error:
                last = error
            finally:
                await client.aclose()
        raise last or ToolError(f"{host} has no address")

    async def _addresses(self, host: str, port: int) -> list[Address]:
        """All addresses of the host. If one is not allowed, none is used, because it might be the next one chosen."""
        from treadle.policy.network import parse

        try:
            found = [parse(address) for address in await self._lookup(host.strip("[]"), port)]
        except (OSError, ValueError, UnicodeError) as error:
            raise ToolError(f"cannot resolve {host}: {error}") from None
        for address in found:
            if not self._allowed(address):
                raise ToolError(f"{host} is at {address}, which is not a public address")
        return list(dict.fromkeys(found))


def check_url(url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise ToolError(f"{url!r} is not a valid address: {error}") from None
    if parts.scheme not in ("http", "https"):
        raise ToolError(f"only http and https can be fetched, not {parts.scheme or url!r}")
    if not parts.hostname or port == 0:
        raise ToolError(f"{url!r} names no host")
    if parts.username is not None or parts.password is not None:
        raise ToolError("the address contains credentials; remove them")
    return parts


def _target(parts: SplitResult, name: str) -> str:
    """The address with the host's name and all characters as they are sent."""
    host = f"[{name}]" if ":" in name else name
    netloc = host if parts.port is None else f"{host}:{parts.port}"
    path, query = quote(parts.path, safe=_SENT), quote(parts.query, safe=_SENT)
    return SplitResult(parts.scheme, netloc, path, query, "").geturl()
