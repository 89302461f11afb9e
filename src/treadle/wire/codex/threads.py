"""Lists that Codex gives: its threads and its models. Pure."""

from collections.abc import Iterator
from typing import Any

from treadle.session import OfferedModel, StoredSession


def kept_thread(told: dict[str, Any]) -> StoredSession:
    updated = told.get("updatedAt")
    return StoredSession(
        id=str(told.get("id")),
        cwd=str(told.get("cwd") or ""),
        title=str(told.get("name") or told.get("preview") or ""),
        updated=float(updated) if isinstance(updated, int | float) else 0.0,
    )


def offered_models(told: Any) -> Iterator[OfferedModel]:
    """The models that it shows to people."""
    for one in told if isinstance(told, list) else []:
        if isinstance(one, dict) and isinstance(one.get("model"), str) and not one.get("hidden"):
            name, about = str(one.get("displayName") or ""), str(one.get("description") or "")
            yield OfferedModel(id=one["model"], name=name, description=about)
