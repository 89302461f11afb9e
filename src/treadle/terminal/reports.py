"""What programs report about themselves: OSC 7501 status reports, and the state file that hooks write."""

import os

from treadle.io.files import read_at_most
from treadle.light import Any

STATES = ("idle", "working", "done", "blocked", "error")
FILE_MAX = 4096
TASKS_MAX = 256


class Report:
    """A program's report on what it is doing."""

    __slots__ = ("app", "at", "kind", "message", "words", "source", "state")

    def __init__(self, source: str, state: str, words: str, at: int) -> None:
        self.source = source
        self.state = state
        self.words = words
        self.at = at
        self.app = ""
        self.kind = ""
        self.message = ""


def parse(body: str, source: str, now: int) -> tuple[str, Report | None]:
    """Parses `state=...:key=value` into the id of a child record or "", and the report, or None when it is cleared.

    Raises ValueError when it is not a report.
    """
    fields = dict(part.partition("=")[::2] for part in body.split(":"))
    state = fields.get("state", "")
    if state == "clear":
        return fields.get("id", ""), None
    if state not in STATES:
        raise ValueError(f"{state!r} is not a state")
    report = Report(source, state, body[:200], now)
    report.app = fields.get("app", "")
    report.kind = fields.get("kind", "")
    report.message = _text(fields.get("msg", ""))
    return fields.get("id", ""), report


def compose(state: str, *, app: str, kind: str = "", message: str = "") -> str:
    """The body of a report that `parse` understands."""
    from binascii import b2a_base64

    fields = {
        "state": state,
        "app": app,
        "kind": kind,
        "msg": b2a_base64(message.encode("utf-8", "replace"), newline=False).decode(),
    }
    return ":".join(f"{name}={value}" for name, value in fields.items() if value)


def _text(encoded: str) -> str:
    from binascii import Error, a2b_base64

    try:
        return a2b_base64(encoded).decode("utf-8", "replace")
    except (Error, ValueError):
        return encoded


class StateFile:
    """A file that a program's hooks write: one word, or the fields of a report. Only the newest content counts."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._seen = 0

    def look(self, now: int) -> Report | None:
        """A report if the file has changed since the last look."""
        try:
            found = os.stat(self.path)
            if found.st_mtime_ns == self._seen:
                return None
            self._seen = found.st_mtime_ns
            text = read_at_most(self.path, FILE_MAX).decode("utf-8", "replace").strip()
        except OSError:
            return None
        return _read(text, now)


def _read(text: str, now: int) -> Report | None:
    if text.startswith("{"):
        return _read_json(text, now)
    word, _, rest = text.partition(" ")
    if "=" in word:
        try:
            return parse(text, "state file", now)[1]
        except ValueError:
            return None
    return _report(word, "", rest, text, now)


def _read_json(text: str, now: int) -> Report | None:
    import json

    try:
        body: dict[str, Any] = json.loads(text)
        return _report(str(body["state"]), str(body.get("kind") or ""), str(body.get("msg") or ""), text, now)
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


def _report(state: str, kind: str, message: str, words: str, now: int) -> Report | None:
    if state in ("permission", "question", "auth"):
        state, kind = "blocked", state
    if state not in STATES:
        return None
    report = Report("state file", state, words[:200], now)
    report.kind, report.message = kind, message
    return report


class Announcements:
    """What a program has announced about itself: its title, its progress, its state, and its subtasks' states."""

    def __init__(self, state_file: str, now: int) -> None:
        self.title = ""
        self.progress = ""
        self.report: Report | None = None
        self.tasks: dict[str, Report] = {}
        self._file = StateFile(state_file)
        self._looked = now

    def reported(self, body: str, now: int) -> bool:
        """Take an OSC 7501 report. Returns whether it says that a turn has begun."""
        try:
            child, report = parse(body, "osc 7501", now)
        except ValueError:
            return False
        if child:
            self.tasks.pop(child, None)
            if report and len(self.tasks) < TASKS_MAX:
                self.tasks[child] = report
            return False
        before = self.report.state if self.report else ""
        self.report = report
        if report is None:
            self.tasks.clear()
            return False
        if report.state == "working":
            return before != "working"
        return report.state in ("done", "error") and before in ("", "idle")  # over before it could be reported

    def look_at_file(self, now: int, pause: int = 0) -> bool:
        """Whether the state file has something new; it is looked at only if the last look was `pause` ago."""
        if now - self._looked < pause:
            return False
        self._looked = now
        found = self._file.look(now)
        self.report = found or self.report
        return found is not None
