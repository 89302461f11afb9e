"""Receipts as rows of a list, and the filter that selects them."""

import re
import time
from datetime import UTC, datetime

import msgspec

from treadle.errors import ConfigError, TreadleError
from treadle.host.store import ChainLink, ReceiptStore
from treadle.wire.sidecar.receipts import Receipt

_SPAN = re.compile(r"(\d+)\s*([smhdw])")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}


class ListedRun(msgspec.Struct, frozen=True, kw_only=True):
    """If the receipt cannot be read, `outcome` is `?` and `backend` says why."""

    sequence: int
    run_id: str
    outcome: str
    backend: str
    started_at: str
    sha256: str
    agent: str | None = None
    task: str | None = None
    source: str | None = None


def row_of(store: ReceiptStore, link: ChainLink) -> ListedRun:
    try:
        found = store.get(link.run_id)
    except TreadleError as error:
        return ListedRun(
            sequence=link.sequence,
            run_id=link.run_id,
            outcome="?",
            backend=str(error),
            started_at="",
            sha256=link.sha256,
        )
    more = _more(found)
    order, place = more.get("order") or {}, more.get("workspace") or {}
    return ListedRun(
        sequence=link.sequence,
        run_id=link.run_id,
        outcome=found.outcome,
        backend=found.backend.id,
        started_at=found.meta.started_at,
        sha256=link.sha256,
        agent=order.get("agent"),
        task=order.get("task"),
        source=place.get("source"),
    )


def _more(receipt: Receipt) -> dict[str, dict[str, str]]:
    raw = receipt.usage_raw
    more = raw.get("treadle") if isinstance(raw, dict) else None
    return more if isinstance(more, dict) else {}


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """What a receipt must match to be listed. A field that is None matches everything."""

    agent: str | None = None
    outcome: str | None = None
    since: float | None = None
    repository: str | None = None
    task: str | None = None

    def fits(self, row: ListedRun) -> bool:
        if self.agent is not None and self.agent.lower() not in f"{row.backend} {row.agent or ''}".lower():
            return False
        if self.outcome is not None and row.outcome != self.outcome:
            return False
        if self.since is not None and not _is_after(row.started_at, self.since):
            return False
        if self.repository is not None and not _is_in(row.source, self.repository):
            return False
        return self.task is None or self.task.lower() in (row.task or "").lower()


def _is_in(place: str | None, directory: str) -> bool:
    return place is not None and f"{place}/".startswith(f"{directory.rstrip('/')}/")


def _is_after(started_at: str, since: float) -> bool:
    try:
        return datetime.fromisoformat(started_at).timestamp() >= since
    except ValueError:
        return False


def moment(text: str, now: float | None = None) -> float:
    """`12h` means twelve hours ago; a date, or a date and time, is that moment, in UTC unless it says otherwise."""
    if found := _SPAN.fullmatch(text.strip()):
        return (time.time() if now is None else now) - int(found[1]) * _SECONDS[found[2]]
    try:
        at = datetime.fromisoformat(text.strip())
    except ValueError as error:
        raise ConfigError(f"{text!r} is no time", hint="such as 90m, 12h, 7d, or 2026-01-31") from error
    return (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()
