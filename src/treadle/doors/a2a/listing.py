"""The page of tasks that a client asks for: the latest change first."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from treadle.doors.a2a.task import ServedTask
from treadle.wire.a2a.versions import Malformed, plain, read_length

PAGE, LARGEST = 50, 100


def listed(tasks: Sequence[ServedTask], params: dict[str, Any]) -> dict[str, Any]:
    size, cursor, history = _size(params), _word(params, "pageToken"), read_length(params)
    context, state, after = _word(params, "contextId"), _word(params, "status"), _moment(params)
    if state in ("", "TASK_STATE_UNSPECIFIED"):
        state = ""
    elif not state.startswith("TASK_STATE_"):
        raise Malformed(f"status is {state[:80]!r}")
    wanted = state.removeprefix("TASK_STATE_").lower().replace("_", "-")
    matching = [
        task
        for task in tasks
        if context in ("", task.context)
        and wanted in ("", task.status.state)
        and (after is None or datetime.fromisoformat(task.status.timestamp) >= after)
    ]
    ordered = sorted(matching, key=_place, reverse=True)
    left = [task for task in ordered if not cursor or _place(task) < _read_cursor(cursor)]
    page = left[:size]
    more = "|".join(_place(page[-1])) if len(left) > size else ""
    artifacts = params.get("includeArtifacts") is True
    shown = [plain(task.snapshot(history, artifacts=artifacts), "1.0") for task in page]
    found = [{"artifacts": [], **task} if artifacts else task for task in shown]
    return {"tasks": found, "nextPageToken": more, "pageSize": size, "totalSize": len(matching)}


def _place(task: ServedTask) -> tuple[str, str]:
    """Of two changes in one millisecond, the younger task counts as the later."""
    return task.status.timestamp, f"{task.number:012d}"


def _read_cursor(text: str) -> tuple[str, str]:
    when, bar, name = text.partition("|")
    if not bar:
        raise Malformed("pageToken is none of ours")
    return when, name


def _moment(params: dict[str, Any]) -> datetime | None:
    given = _word(params, "statusTimestampAfter")
    try:
        found = datetime.fromisoformat(given) if given else None
    except ValueError:
        raise Malformed("statusTimestampAfter is no time in ISO 8601") from None
    return found.replace(tzinfo=UTC) if found is not None and found.tzinfo is None else found


def _size(params: dict[str, Any]) -> int:
    given = params.get("pageSize", PAGE)
    if type(given) is not int or not 1 <= given <= LARGEST:
        raise Malformed(f"pageSize is no whole number from 1 to {LARGEST}")
    return given


def _word(params: dict[str, Any], name: str) -> str:
    given = params.get(name, "")
    if not isinstance(given, str):
        raise Malformed(f"{name} is no text")
    return given
