"""Lists the terminals and what each of them does, as plain data."""

from treadle.errors import PeerStalled, TreadleError
from treadle.io.files import is_locked
from treadle.light import Any
from treadle.terminal import history
from treadle.terminal.client import Client
from treadle.terminal.history import exit_record
from treadle.terminal.loop import now_ms
from treadle.terminal.places import Place, ids
from treadle.terminal.states import WAITING


def rows(where: str) -> list[dict[str, Any]]:
    """One row for each terminal in this directory, including those that have ended."""
    return [row(Place(where, name)) for name in ids(where)]


def in_line(found: dict[str, Any]) -> tuple[bool, int, str]:
    """A row's place in the line of those who wait for a person, the first to ask in front; then those who do not wait.

    By the moment at which the state began, which is the same whenever it is read: rows are read one after the other.
    """
    asks = found["state"] in WAITING
    return not asks, found.get("began", 0) if asks else 0, found["id"]


def row(place: Place) -> dict[str, Any]:
    if found := history.read(place):
        return found
    try:
        with Client(place.sock, timeout=2) as client:
            detail = detail_of(place, client)
            if detail["alive"]:
                return _living(place, detail)
    except PeerStalled:
        return _silent(place, "its supervisor does not answer")
    except TreadleError:
        if is_locked(place.pid):  # the lock is better evidence than a socket file, which someone may have removed
            return _silent(place, "its socket was removed and is being recreated")
    try:
        record = exit_record(place.exit)
    except TreadleError:
        record = {"code": None, "reason": "its supervisor wrote no exit record"}
    return {
        "id": place.id,
        "alive": False,
        "state": "dead",
        **{key: record.get(key) for key in ("code", "reason", "ended")},
    }


def _silent(place: Place, why: str) -> dict[str, Any]:
    pid = place.pids()[1] or None
    return {"id": place.id, "alive": True, "pid": pid, "state": "unknown", "idle_ms": None, "reason": why}


def detail_of(place: Place, client: Client) -> dict[str, Any]:
    """Everything that is known; from a supervisor with only the basic protocol, what STATUS says."""
    try:
        return client.detail()
    except PeerStalled:
        if place.is_ours:  # it is only slow, and what STATUS says may be over
            raise
    status = client.status()
    return {
        "id": place.id,
        "supervisor": place.pids()[0] or None,
        "pid": status.pid,
        "alive": bool(status.alive),
        "idle_ms": status.idle_ms,
        "state": {"name": status.state_name, "wire": status.state_name, "since_ms": status.state_ms},
    }


def _living(place: Place, detail: dict[str, Any]) -> dict[str, Any]:
    state = detail["state"]
    return {
        "id": place.id,
        "alive": True,
        "pid": detail["pid"],
        "state": state["name"],
        "state_ms": state["since_ms"],
        "began": state.get("began", now_ms() - state["since_ms"]),
        "idle_ms": detail["idle_ms"],
        **{key: state.get(key) for key in ("agent", "message", "dialog", "hint")},
        **{key: detail.get(key) for key in ("command", "workdir", "started", "last_line", "prompts")},
    }
