"""What the program is doing: the best that can be said from all that is known, and why.

Four kinds of evidence, the better first: what the program reports (OSC 7501, or its hooks through the state file,
whichever is newer), its window title, known words on its screen, and the rhythm of its output. A classifier limits
what the wire may say; `detail` says all.
"""

from __future__ import annotations

from treadle.terminal.classify import classifier
from treadle.terminal.reports import Report, StateFile, by_title, parse
from treadle.terminal.settings import Settings
from treadle.wire.terminal.frames import ACTIVE, DEAD, IDLE, STATE_NAMES, STREAMING, THINKING, TOOL_USE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from treadle.terminal.marks import Marks
    from treadle.terminal.sequences import Modes, Whole

STALE = 30_000
"""An agent at work moves something on its screen every second or so. One that has been still this long is not at work,
or is no longer there to say so."""
FILE_PAUSE = 50
TASKS_MAX = 256
WORDS = frozenset(("claude", "codex"))


class Finding:
    """What is the case, who says so, and in which words."""

    __slots__ = ("done", "message", "said", "source", "state", "waiting_for")

    def __init__(self, state: int, source: str, said: str, waiting_for: str = "", message: str = "") -> None:
        self.state = state
        self.source = source
        self.said = said
        self.waiting_for = waiting_for
        self.message = message
        self.done = False


class Watch:
    def __init__(self, settings: Settings, now: int, state_file: str) -> None:
        self.classifier = settings.classifier
        self._rhythm = classifier(settings.classifier, now, settings.idle_threshold_ms, settings.debounce_ms)
        self._file = StateFile(state_file)
        self._file_looked = now
        self._report: Report | None = None
        self._children: dict[str, Report] = {}
        self._title: Report | None = None
        self._mark: Report | None = None
        self._kind = THINKING
        self._marks: Marks | None = None
        self._agent = ""
        self._whole: Whole | None = None
        self._modes: Modes | None = None
        self._last_output = now
        self._died: int | None = None
        self._wire = IDLE
        self._since = now

    # What happens...

    def output(self, data: bytes, now: int, answered: bool, size: tuple[int, int] = (80, 24)) -> bytes:
        """Take note of output. Gives what to type in answer to the program's questions to its terminal.

        `answered` says that a person's terminal answers; only the status query is then ours.
        """
        self._last_output = now
        self._rhythm.output(len(data), now)
        found = b""
        if self._whole or b"\x1b" in data:
            found = self._scan(data, now, answered, size)
        if now - self._file_looked >= FILE_PAUSE:
            self._look_at_file(now)
        self._settle(now)
        return found

    def died(self, now: int) -> None:
        self._died = self._since = now
        self._wire = DEAD

    def _scan(self, data: bytes, now: int, answered: bool, size: tuple[int, int]) -> bytes:
        from treadle.terminal import sequences

        if self._whole is None or self._modes is None:
            self._whole, self._modes = sequences.Whole(), sequences.Modes()
        data = self._whole.feed(data)
        if not sequences.NOTABLE.search(data):
            self._look_for_marks(data, now)
            return b""
        self._modes.feed(data)
        at = 0
        for match in sequences.REPORT.finditer(data):
            self._look_for_marks(data[at : match.start()], now)
            at = match.end()
            self._reported(match[1], match[2].decode("utf-8", "replace"), now)
            if self._marks:
                self._marks.segment()
        self._look_for_marks(data[at:], now)
        return sequences.answers(data, size, everything=not answered)

    def _reported(self, number: bytes, body: str, now: int) -> None:
        if number == b"7501":
            if body == "?":
                return
            try:
                child, report = parse(body, "osc 7501", now)
            except ValueError:
                return
            if child:
                self._children.pop(child, None)
                if report and len(self._children) < TASKS_MAX:
                    self._children[child] = report
                return
            self._report = report
            self._kind = THINKING
            if report is None:
                self._children.clear()
            elif report.state == "working" and report.message:
                self._kind = TOOL_USE
            self._recognise(report.app if report else "")
        else:
            title = by_title(body, now)
            if title is None and self._title is not None and body:
                # The bare name after a spinner: at rest.
                title = Report("title", "idle", body, now)
                title.app = self._title.app
            self._title = title
            if title:
                self._recognise(title.app)
                if title.state == "working" and self._mark and self._mark.state == "blocked":
                    self._mark = None

    def _recognise(self, app: str) -> None:
        agent = app.removesuffix("-code")
        if self._marks is None and agent in WORDS:
            from treadle.terminal.marks import Marks

            self._marks = Marks(agent)
            self._agent = agent

    def _look_for_marks(self, data: bytes, now: int) -> None:
        if self._marks is None or not data:
            return
        from treadle.terminal import marks, sequences

        for meaning, words in self._marks.feed(data, sequences.SEQUENCE):
            if meaning in (marks.PERMISSION, marks.QUESTION):
                self._mark = Report("screen", "blocked", words, now)
                self._mark.kind = "permission" if meaning == marks.PERMISSION else "question"
            elif meaning == marks.IDLE:
                self._mark = Report("screen", "idle", words, now)
            elif meaning == marks.WORKING:
                self._mark = Report("screen", "working", words, now)
                self._kind = TOOL_USE if self._kind == TOOL_USE else THINKING
            elif meaning == marks.TOOL:
                self._kind = TOOL_USE
            elif meaning == marks.THINKING:
                self._kind = THINKING
            elif meaning == marks.TOOL_ENDED:
                self._kind = STREAMING
            elif meaning == marks.STREAMING and (self._kind != TOOL_USE or self._agent == "codex"):
                self._kind = STREAMING

    def _look_at_file(self, now: int) -> None:
        self._file_looked = now
        if report := self._file.look(now):
            self._report = report

    # What is the case...

    def _find(self, now: int) -> Finding:
        quiet = now - self._last_output
        for report in (self._report, self._title, self._mark):
            if report is None:
                continue
            if report.state == "working" and quiet >= STALE:
                continue
            if report is self._title and report.state == "idle" and self._blocked_since(report):
                continue
            return self._finding(report)
        state = self._rhythm.state(now)
        return Finding(state, "rhythm", f"{quiet} ms since the last output")

    def _blocked_since(self, title: Report) -> bool:
        """Claude's title looks the same at rest and when it asks for a permission; its screen does not."""
        return self._mark is not None and self._mark.state == "blocked" and self._mark.at >= title.at

    def _finding(self, report: Report) -> Finding:
        if report.state == "working":
            return Finding(self._kind, report.source, report.said, message=report.message)
        if report.state == "blocked":
            return Finding(IDLE, report.source, report.said, report.kind or "permission", report.message)
        found = Finding(IDLE, report.source, report.said, message=report.message)
        found.done = report.state == "done"
        return found

    def _settle(self, now: int) -> None:
        """Note when the state on the wire changes."""
        if self._died is not None:
            return
        finding = self._find(now)
        state = finding.state
        if self.classifier == "none":
            state = IDLE
        elif self.classifier == "simple" and state != IDLE:
            state = ACTIVE
        if state != self._wire:
            self._wire = state
            self._since = self._rhythm.since if finding.source == "rhythm" else now

    def state(self, now: int) -> tuple[int, int]:
        """The byte for the wire, and since when."""
        if self._died is None:
            self._look_at_file(now)
            self._settle(now)
        return self._wire, self._since

    def detail(self, now: int) -> dict[str, Any]:
        wire, since = self.state(now)
        if self._died is not None:
            return {"name": "dead", "wire": "dead", "since_ms": now - since}
        finding = self._find(now)
        return {
            "name": STATE_NAMES[finding.state],
            "wire": STATE_NAMES[wire],
            "since_ms": now - since,
            "waiting_for": finding.waiting_for or None,
            "message": finding.message or None,
            "done": finding.done,
            "why": {"source": finding.source, "said": finding.said},
            "tasks": len(self._children),
        }

    def next_change(self, now: int) -> int | None:
        """When to look again if nothing happens; None when nothing can change by itself."""
        if self._died is not None:
            return None
        times = [time for time in (self._rhythm.next_change(now), now + FILE_PAUSE * 4) if time is not None]
        return min(times)

    # The terminal's modes...

    @property
    def full_screen(self) -> bool:
        return self._modes is not None and self._modes.alternate

    def modes(self) -> dict[str, Any]:
        if self._modes is None:
            return {"alternate": False, "set": ""}
        return {"alternate": self._modes.alternate, "set": self._modes.set().decode("ascii")}
