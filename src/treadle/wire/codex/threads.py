"""Lists that Codex gives: its threads and its models. Pure."""

from collections.abc import Iterator
from typing import Any

from treadle.session import OfferedModel, StoredSession


def listed_thread(fields: dict[str, Any]) -> StoredSession:
    updated = fields.get("updatedAt")
    return StoredSession(
        id=str(fields.get("id")),
        cwd=str(fields.get("cwd") or ""),
        title=str(fields.get("name") or fields.get("preview") or ""),
        updated=float(updated) if isinstance(updated, int | float) else 0.0,
    )


def offered_models(listed: Any) -> Iterator[OfferedModel]:
    """The models that it shows to people."""
    for one in listed if isinstance(listed, list) else []:
        if isinstance(one, dict) and isinstance(one.get("model"), str) and not one.get("hidden"):
            name, about = str(one.get("displayName") or ""), str(one.get("description") or "")
            yield OfferedModel(id=one["model"], name=name, description=about)
