"""What the program is doing, as well as all the evidence can tell, and why.

An agent that `detectors` describes is judged by its screen, its title and its reports. A program that sends its own
reports (OSC 7501, or its hooks through the state file) is believed. For any other, only a visible prompt is a sign:
without one its state is unknown, with the rhythm of its output as a hint. The classifier limits which states the wire
reports; `detail` reports everything.
"""

from __future__ import annotations

import re

from treadle.terminal.classify import FIRST_SCREEN, STALE, classifier
from treadle.terminal.reports import Report, StateFile, parse
from treadle.terminal.settings import TerminalSettings
from treadle.wire.terminal.frames import ACTIVE, DEAD, IDLE, STATE_NAMES, STREAMING, THINKING, TOOL_USE

TYPE_CHECKING = False  # `typing` would cost every supervisor a megabyte
if TYPE_CHECKING:
    from typing import Any

    from treadle.terminal.detectors import Detector
    from treadle.terminal.grid import Grid
    from treadle.terminal.judge import Verdict
    from treadle.terminal.sequences import Modes, Whole

FILE_PAUSE = 50
LOOK_PAUSE = 60
"""Milliseconds between two looks at the screen of an agent that keeps writing."""
HOLD = 150
"""A new state counts after this many milliseconds, because a screen may have been read during a redraw."""
FIRST_IDLE = 600
"""The same for the very first input box, because agents may draw it and then a dialog over it."""
ANSWERING = 3000
"""For this many milliseconds, a program may be reacting to a key that answers its dialog."""
LOOK_LONGEST = 1000
STILL = 700
"""After this many milliseconds without output a screen stands still. A spinner is faster, a clock slower."""
RESTLESS = 1500
"""For this many milliseconds a screen may move without typing or a sign of work and still count as idle."""
QUIET = 300
"""After this many milliseconds of silence, a program that is not a known agent is checked for a prompt."""
UNREAD_MAX = 64 * 1024
"""How much output is kept for the next look at the screen, more than any screen holds."""
TASKS_MAX = 256
BRACKETED_PASTE = 2004
MOVING = "movement"

WIRE = {"thinking": THINKING, "streaming": STREAMING, "tool_use": TOOL_USE, "working": ACTIVE}
AT_REST = frozenset(("idle", "permission", "question", "error"))
WAITING = ("permission", "question")

PROMPT = re.compile(r"(?:^|.*[\w\])~/@:.\-=\s])(?:[$#%❯»›λ➜]|>{1,3}|[=\-*]?[>#]|\(\w+\))\s?$")
NO_PROMPT = re.compile(r"\?|\[[^\]]*/[^\]]*\]|\([^)]*/[^)]*\)|[Pp]ass(word|phrase)|\d\s*[-%]|\.\.\.")


class Watch:
    def __init__(self, settings: TerminalSettings, now: int, state_file: str) -> None:
        self.classifier = settings.classifier
        self.size = (settings.cols, settings.rows)
        self._command = list(settings.command)
        self._rhythm = classifier(settings.classifier, now, settings.idle_threshold_ms, settings.debounce_ms)
        self._file = StateFile(state_file)
        self._file_looked = now
        self._report: Report | None = None
        self._children: dict[str, Report] = {}
        self._turns = 0  # how often it was seen starting to work
        self._title = ""
        self._progress = ""
        self._whole: Whole | None = None
        self._modes: Modes | None = None
        self._started = self._last_output = now
        self._died: int | None = None
        self._typed: int | None = None
        self._moving_since = now  # since when there has been constant output that nothing known explains
        self._wire = IDLE
        self._wire_since = now
        # The screen, and the output that has not been applied to it yet
        self._grid: Grid | None = None
        self._grid_whole: Whole | None = None
        self._unread: list[bytes] = []
        self._unread_size = 0
        # The agent, how it was recognised, and its last judged state
        self._detector: Detector | None = None
        self._known_by = ""
        self._box_seen = False
        self._verdict: Verdict | None = None
        self._verdict_since = now
        self._candidate: tuple[Verdict, int] | None = None  # a new verdict, and since when it has been seen
        self._looked = now - LOOK_PAUSE
        self._stale = True  # whether something has happened since the last look
        self._recognise_command()

    # What happens...

    def output(self, data: bytes, now: int, answered: bool, size: tuple[int, int] | None = None) -> bytes:
        """Handle output. Returns what to type in answer to the program's queries to its terminal.

        `answered`: a person's terminal answers them; then only the status query is ours to answer.
        """
        if size and size != self.size:
            self.resized(*size)
        if now - self._last_output > STILL:
            self._moving_since = now
        self._last_output = now
        self._stale = True
        self._rhythm.output(len(data), now)
        self._unread.append(data)
        self._unread_size += len(data)
        found = b""
        if self._whole or b"\x1b" in data:
            found = self._scan(data, now, answered)
        if self._unread_size > UNREAD_MAX:
            self._apply_unread()
        if now - self._file_looked >= FILE_PAUSE:
            self._look_at_file(now)
        if self._detector and now - self._looked >= LOOK_PAUSE:
            self.look(now)
        self._settle(now)
        return found

    @property
    def stale(self) -> bool:
        """Whether something has happened since the last look."""
        return self._stale

    def resized(self, cols: int, rows: int) -> None:
        if self._grid:
            self._draw()
            self._grid.resize(cols, rows)
        self.size = (cols, rows)
        self._stale = True

    def typed(self, now: int) -> None:
        """Something was typed. If a dialog waits, that is its answer, and the screen is about to change."""
        self._typed = self._moving_since = now

    def _answering(self, verdict: Verdict, now: int) -> bool:
        return verdict.state in WAITING and self._typed is not None and now - self._typed < ANSWERING

    def died(self, now: int) -> None:
        self._died = self._wire_since = now
        self._wire = DEAD

    def _scan(self, data: bytes, now: int, answered: bool) -> bytes:
        from treadle.terminal import sequences

        if self._whole is None or self._modes is None:
            self._whole, self._modes = sequences.Whole(), sequences.Modes()
        data = self._whole.feed(data)
        if not sequences.NOTABLE.search(data):
            return b""
        self._modes.feed(data)
        for match in sequences.REPORT.finditer(data):
            self._reported(match[1], match[2].decode("utf-8", "replace"), now)
        return sequences.answers(data, self.size, everything=not answered)

    def _reported(self, number: bytes, body: str, now: int) -> None:
        if number == b"9;4":
            self._progress = body.partition(";")[0]
        elif number != b"7501":
            if self._works_by_title(body) and not self._works_by_title(self._title):
                self._turns += 1
            self._title = body.strip()
            if not body and self._known_by == "sight":
                self._forget()  # its title belongs to an agent that has just returned to the shell
        elif body != "?":
            try:
                child, report = parse(body, "osc 7501", now)
            except ValueError:
                return
            if child:
                self._children.pop(child, None)
                if report and len(self._children) < TASKS_MAX:
                    self._children[child] = report
                return
            before = self._report.state if self._report else ""
            if report and report.state == "working" and before != "working":
                self._turns += 1
            elif report and report.state in ("done", "error") and before in ("", "idle"):
                self._turns += 1  # the turn was over before it could be reported
            self._report = report
            if report is None:
                self._children.clear()

    def _works_by_title(self, title: str) -> bool:
        from treadle.terminal.judge import says

        return self._detector is not None and says(self._detector, "title", title.strip(), "working")

    def _look_at_file(self, now: int) -> None:
        self._file_looked = now
        if report := self._file.look(now):
            self._report = report
            self._stale = True

    # The screen...

    def _apply_unread(self) -> None:
        """Too much output is waiting: apply it to an agent's screen; for another program only the end matters."""
        if self._detector:
            self._draw()
            return
        self._grid = None
        while self._unread_size > UNREAD_MAX and len(self._unread) > 1:
            self._unread_size -= len(self._unread.pop(0))

    @property
    def _drawn(self) -> bool:
        """Whether there is anything on the screen: a blank one need not be kept."""
        return self._grid is not None or self._unread_size > 0

    def _draw(self) -> Grid:
        from treadle.terminal.grid import Grid
        from treadle.terminal.sequences import Whole

        if self._grid is None or self._grid_whole is None:
            self._grid, self._grid_whole = Grid(*self.size), Whole()
        data, self._unread, self._unread_size = b"".join(self._unread), [], 0
        if data:
            self._grid.feed(self._grid_whole.feed(data))
        return self._grid

    # Which agent it is...

    def _recognise_command(self) -> None:
        from treadle.terminal import detectors

        if name := detectors.by_command(self._command):
            self._detector, self._known_by = detectors.named(name), "command"

    def _recognise(self, lines: list[str]) -> None:
        from treadle.terminal import detectors

        name = detectors.by_app(self._report.app) if self._report else ""
        name = name or detectors.by_sight(self._title, "\n".join(lines))
        if name:
            self._detector, self._known_by = detectors.named(name), "sight"

    def _forget(self) -> None:
        self._detector, self._known_by, self._box_seen = None, "", False

    # The judgement...

    def look(self, now: int) -> None:
        """Look at the screen, and accept what it shows once it has been seen long enough."""
        if self._died is not None:
            return
        self._looked, self._stale = now, False
        verdict = self._judge(now)
        if self._verdict is None or verdict.state == self._verdict.state:
            if self._verdict is None:
                self._verdict_since = self._started
            self._verdict, self._candidate = verdict, None
            return
        if self._candidate is None or self._candidate[0].state != verdict.state:
            self._candidate = (verdict, now)
        else:
            self._candidate = (verdict, self._candidate[1])
        since = self._candidate[1]
        seen = max(now - since, now - self._last_output)  # a screen without output has not changed
        if seen >= self._hold(verdict):
            if verdict.state in WIRE and self._verdict.state not in WIRE and verdict.source == "screen":
                self._turns += 1
            self._verdict, self._verdict_since, self._candidate = verdict, since, None

    def _hold(self, verdict: Verdict) -> int:
        """How long a new state must be seen. Reported states, and work that has begun, count at once."""
        if verdict.source in ("osc 7501", "state file") or verdict.state in WIRE:
            return 0
        if verdict.source == "title" and verdict.state in WAITING:
            return 0
        settle = self._detector.settle_ms if self._detector and not verdict.sure else 0
        starting = self._verdict is not None and self._verdict.state == "starting" and self._known_by == "command"
        if verdict.state == "idle" and starting:
            settle = max(settle, FIRST_IDLE)
        return max(settle, HOLD)

    def _judge(self, now: int) -> Verdict:
        from treadle.terminal import judge

        grid = self._draw() if self._drawn else None
        lines = grid.lines() if grid else []
        quiet = now - self._last_output
        if self._detector is None:
            self._recognise(lines)
        if self._detector:
            evidence = judge.Evidence(
                lines,
                self._title,
                self._report,
                self._progress,
                box_seen=self._box_seen,
                quiet=quiet,
                age=now - self._started,
            )
            verdict = judge.judge(self._detector, evidence)
            if verdict.state in WIRE:
                self._moving_since = now
            elif verdict.state == "idle" and not verdict.sure and self._restless(now):
                verdict = judge.Verdict(judge.UNKNOWN, MOVING, "an input box, but the screen moves on by itself")
            if verdict.state == judge.UNKNOWN and self._known_by == "sight":
                verdict = (grid and self._prompt(grid, lines)) or verdict
            self._box_seen = self._box_seen or judge.find_box(self._detector.box, lines) is not None
            return verdict
        if self._report:
            return judge.by_report(self._report, quiet)
        return (grid and self._prompt(grid, lines)) or self._unknown(lines, now)

    def _restless(self, now: int) -> bool:
        """Whether it seems to work in a way that its table does not know, as a later version may."""
        return now - self._last_output <= STILL and self._last_output - self._moving_since >= RESTLESS

    def _prompt(self, grid: Grid, lines: list[str]) -> Verdict | None:
        """A prompt at the cursor, with nothing after it, means a shell or an interpreter."""
        from treadle.terminal.judge import Verdict

        line = lines[grid.y]
        before = "".join(grid.buffer.rows[grid.y][: grid.x])
        if line.strip() and line == before.rstrip() and PROMPT.match(before) and not NO_PROMPT.search(before):
            return Verdict("idle", "prompt", line.strip()[-80:])
        return None

    def _unknown(self, lines: list[str], now: int) -> Verdict:
        from treadle.terminal import judge

        if not any(lines) and now - self._started < FIRST_SCREEN:
            return judge.Verdict("starting", "screen", "nothing is drawn yet")
        return judge.Verdict(judge.UNKNOWN, "rhythm", "this program is not one of those that are known")

    def _current(self, now: int) -> Verdict:
        if self._stale or self._candidate or self._verdict is None or now - self._looked >= LOOK_PAUSE:
            self.look(now)
        assert self._verdict
        return self._verdict

    def _settle(self, now: int) -> None:
        """Record when the state on the wire changes."""
        if self._died is not None:
            return
        wire, since = self._rhythm.state(now), self._rhythm.since
        if self._verdict and self._verdict.state in AT_REST:
            wire, since = IDLE, self._verdict_since
        elif self._verdict and self._verdict.state in WIRE:
            wire, since = WIRE[self._verdict.state], self._verdict_since
        if self.classifier == "none":
            wire = IDLE
        elif self.classifier == "simple" and wire != IDLE:
            wire = ACTIVE
        if wire != self._wire:
            self._wire, self._wire_since = wire, since

    def state(self, now: int) -> tuple[int, int]:
        """The state's byte on the wire, and since when."""
        if self._died is None:
            self._look_at_file(now)
            self._current(now)
            self._settle(now)
        return self._wire, self._wire_since

    def detail(self, now: int) -> dict[str, Any]:
        wire, since = self.state(now)
        if self._died is not None:
            return {"name": "dead", "wire": "dead", "since_ms": now - since}
        verdict = self._current(now)
        return {
            "name": verdict.state,
            "wire": STATE_NAMES[wire],
            "since_ms": now - self._verdict_since,
            "agent": self._detector.name if self._detector else None,
            "waiting_for": verdict.state if verdict.state in WAITING else None,
            "message": verdict.message or None,
            "done": bool(verdict.state == "idle" and self._report and self._report.state == "done"),
            "settling": self._candidate is not None or self._answering(verdict, now),
            "hint": STATE_NAMES[self._rhythm.state(now)] if verdict.state == "unknown" else None,
            "why": {"source": verdict.source, "said": verdict.said},
            "tasks": len(self._children),
            "turns": self._turns,
        }

    def explain(self, now: int) -> dict[str, Any]:
        """Everything that the judgement is based on."""
        from treadle.terminal import judge

        verdict = self._current(now)
        found: dict[str, Any] = {
            "state": verdict.state,
            "why": {"source": verdict.source, "said": verdict.said},
            "agent": self._detector.name if self._detector else None,
            "known_by": self._known_by or None,
            "title": self._title,
            "report": self._report.said if self._report else None,
            "progress": self._progress or None,
            "quiet_ms": now - self._last_output,
            "rhythm": STATE_NAMES[self._rhythm.state(now)],
        }
        if self._detector:
            evidence = judge.Evidence(self._draw().lines(), self._title, self._report, self._progress)
            found |= judge.explain(self._detector, evidence)
        return found

    def last_line(self) -> str:
        """The last line that an agent said, above its input box; for another program, the last line of its screen."""
        from treadle.terminal import judge

        lines = self._draw().lines() if self._drawn else []
        if self._detector:
            lines = judge.Regions(self._detector, judge.Evidence(lines)).text["last"].split("\n")
        said = (line.strip()[:200] for line in reversed(lines) if any(letter.isalnum() for letter in line))
        return next(said, "")

    def next_change(self, now: int, watched: bool = True) -> int | None:
        """When to look again if nothing happens; None when nothing can change by itself.

        If it is not `watched`, states that are only reported on request need no look before somebody asks.
        """
        if self._died is not None:
            return None
        times = [self._candidate[1] + self._hold(self._candidate[0])] if self._candidate else []
        if self._stale:
            pause = LOOK_PAUSE if self._detector else max(LOOK_PAUSE, self._last_output + QUIET - self._looked)
            times.append(self._looked + min(pause, LOOK_LONGEST))
        if watched:
            times.append(now + FILE_PAUSE * 4)
        times += [time for time in (self._rhythm.next_change(now),) if time is not None and time > now]
        if self._verdict and self._verdict.state == "starting" and now - self._started < FIRST_SCREEN:
            times.append(self._started + FIRST_SCREEN)
        if self._verdict and self._verdict.state in WIRE:
            times.append(self._last_output + STALE)
        if self._verdict and self._verdict.source == MOVING and now <= self._last_output + STILL:
            times.append(self._last_output + STILL + 1)
        if self._typed is not None and self._verdict and self._verdict.state in WAITING:
            times += [self._typed + ANSWERING] if self._typed + ANSWERING > now else []
        return min(times, default=None)

    # The terminal's modes...

    @property
    def full_screen(self) -> bool:
        return self._modes is not None and self._modes.alternate

    def modes(self) -> dict[str, Any]:
        if self._modes is None:
            return {"alternate": False, "set": "", "paste": False}
        return {
            "alternate": self._modes.alternate,
            "set": self._modes.set().decode("ascii"),
            "paste": self._modes.on.get(BRACKETED_PASTE, False),
        }
