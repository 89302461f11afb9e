"""The ledger's records as MCP resources: the claims of the moment, the symbols, and each capsule."""

import os

from treadle.coordination.capsules import Capsules
from treadle.coordination.claims import Claims
from treadle.coordination.table import Symbols
from treadle.errors import ConfigError, NotFound
from treadle.light import Any
from treadle.wire.common.jsonrpc import INVALID_PARAMS, Fault
from treadle.wire.common.jsontext import dumps

CLAIMS, SYMBOLS, CAPSULE = "heimdall://claims", "heimdall://symbols", "heimdall://capsules/"
NOT_FOUND = -32002
PAGE = 100
_JSON, _MARKDOWN = "application/json", "text/markdown"


class Resources:
    def __init__(self, claims: Claims, *, live: bool) -> None:
        """`live`: only what is not in the worktree."""
        self._claims = claims
        self._live = live
        self._symbols = Symbols(claims.planning)
        self._capsules = Capsules(claims.planning)

    def listed(self, cursor: Any) -> dict[str, Any]:
        """A page of resources; `cursor` is the `nextCursor` of the page before."""
        found = [_entry(CLAIMS, "claims", "Who is changing what", _JSON)]
        if not self._live:
            found.append(_entry(SYMBOLS, "symbols", "What short ids stand for", _JSON))
            found += [_entry(f"{CAPSULE}{one}", one, f"Capsule {one}", _MARKDOWN) for one in self._capsules.ids()]
        names = [entry["uri"] for entry in found]
        if cursor is not None and cursor not in names:
            raise Fault(INVALID_PARAMS, "there is no such page: list from the beginning")
        start = names.index(cursor) if cursor is not None else 0
        more = {"nextCursor": names[start + PAGE]} if start + PAGE < len(names) else {}
        return {"resources": found[start : start + PAGE], **more}

    def templates(self) -> dict[str, Any]:
        capsule = {"uriTemplate": f"{CAPSULE}{{id}}", "name": "capsule", "title": "One capsule", "mimeType": _MARKDOWN}
        return {"resourceTemplates": [] if self._live else [capsule]}

    def read(self, uri: Any) -> dict[str, Any]:
        if uri == CLAIMS:
            both = (*self._claims.active(), *self._claims.leases.active())
            return _contents(uri, _JSON, dumps([claim.as_json() for claim in both], 2))
        if uri == SYMBOLS and not self._live:
            return _contents(uri, _JSON, dumps(self._symbols.all(), 2))
        if isinstance(uri, str) and uri.startswith(CAPSULE) and not self._live:
            try:
                return _contents(uri, _MARKDOWN, self._capsules.show(uri.removeprefix(CAPSULE)))
            except (NotFound, ConfigError):
                pass
        raise Fault(NOT_FOUND, "resource not found", {"uri": uri})

    def state(self, uri: str) -> tuple[int, ...]:
        """What is different after the resource was changed. A claim that ends by itself changes nothing here."""
        if uri == CLAIMS:
            places = (self._claims.directory, self._claims.leases.directory)
            # Two changes can have the same date.
            return tuple(number for place in places for number in (_changed(place), _entries(place)))
        document, capsule = self._symbols.document, self._capsules.path(uri.removeprefix(CAPSULE))
        return tuple(map(_changed, [document.path, document.copy] if uri == SYMBOLS else [capsule]))


def _entry(uri: str, name: str, title: str, kind: str) -> dict[str, Any]:
    return {"uri": uri, "name": name, "title": title, "mimeType": kind}


def _contents(uri: str, kind: str, text: str) -> dict[str, Any]:
    return {"contents": [{"uri": uri, "mimeType": kind, "text": text}]}


def _entries(path: str) -> int:
    try:
        return len(os.listdir(path))
    except OSError:
        return 0


def _changed(path: str) -> int:
    try:
        return os.stat(path).st_mtime_ns
    except OSError:
        return 0
