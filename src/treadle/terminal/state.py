"""What the program is doing, as well as all the evidence can tell, and why.

An agent that `detectors` describes is judged by its screen, its title and its reports. A program that sends its own
reports (OSC 7501, or its hooks through the state file) is believed. For any other, only a visible prompt is a sign:
without one its state is unknown, with the rhythm of its output as a hint. What we typed counts too
(`judge.Submission`), and whether the program ran at all (`Pulse`). The classifier limits which states the wire reports;
`detail` reports everything.
"""

from __future__ import annotations

import os
import re
from binascii import crc32
from time import CLOCK_BOOTTIME, clock_gettime

from treadle.io.process import table as process_table
from treadle.io.process.table import Process
from treadle.light import TYPE_CHECKING
from treadle.terminal import detectors, judge, states
from treadle.terminal.judge import Submission, Verdict
from treadle.terminal.reports import Announcements
from treadle.terminal.settings import TerminalSettings
from treadle.wire.terminal.frames import ACTIVE, DEAD, IDLE, STATE_NAMES, STREAMING, THINKING, TOOL_USE

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from treadle.terminal.detectors.table import Box, Detector
    from treadle.terminal.grid import Grid
    from treadle.terminal.sequences import Modes, Whole


# The verdict that counts, and the one that may replace it once it has been seen long enough.


class Accepted:
    def __init__(self, now: int) -> None:
        self.verdict: Verdict | None = None
        self.since = now
        self.candidate: Verdict | None = None
        self.candidate_since = now

    @property
    def state(self) -> str:
        return self.verdict.state if self.verdict else states.STARTING

    def offer(self, verdict: Verdict, now: int) -> bool:
        """A look gave this verdict. Returns whether it names another state, which must now be held for a while."""
        if self.verdict is None or verdict.state == self.verdict.state:
            self.verdict, self.candidate = verdict, None
            return False
        if self.candidate is None or self.candidate.state != verdict.state:
            self.candidate_since = now
        self.candidate = verdict
        return True

    def accept(self) -> None:
        """The candidate has been seen long enough."""
        assert self.candidate
        states.move(self.state, self.candidate.state)
        self.verdict, self.since, self.candidate = self.candidate, self.candidate_since, None


# The dialogs that a program shows. Each is an object, so that an answer reaches the one that its sender has read.

NO_ANSWER = re.compile(rb"\x1b[\[O][0-9;?<=>]*[ -/]*[@-~]|\t")
"""Keys that move within a dialog, and what terminals report by themselves: these end no dialog."""


class Dialog:
    """One appearance of a dialog. Two that look alike have different ids."""

    def __init__(self, number: int, content: str, asks: str, now: int, age: int) -> None:
        self.asks = asks
        self.id = f"{number}-{crc32(content.encode()) & 0xFFFFFF:06x}"
        self.content = content
        self.since = now - age
        self.appeared = clock_gettime(CLOCK_BOOTTIME) - age / 1000
        self.answered: int | None = None
        """How much output there was when a key was typed that may have ended it."""


class Dialogs:
    """The dialog on the screen, and who answered the last one.

    A key that was typed may not have been read yet, and would then be followed by ours. So once a dialog is answered,
    no answer is typed until the screen shows another dialog, or the program has read all keys, has drawn something
    and rests: then the same picture is a dialog of its own.
    """

    def __init__(self) -> None:
        self.keys_read: Callable[[], bool] = lambda: True
        """Whether the program has read all that was typed."""
        self.current: Dialog | None = None
        self.answered_by = 0
        """The session id of who answered the last dialog of this turn; -1 for a person's own hands."""
        self._before: Dialog | None = None
        self._count = 0

    def look(self, verdict: Verdict, output: int, now: int, quiet: int, rested: Callable[[], bool]) -> None:
        """A look has found a dialog, or none, on a screen that has not changed for `quiet` milliseconds."""
        content = verdict.content
        mine, before = self.current, self._before
        if mine and mine.answered is not None and mine.content != content and not self.keys_read():
            return  # what has changed is only the echo of the key
        if not content:
            self._before, self.current = mine or before, None
        elif mine and mine.content == content:
            if mine.answered is not None and output > mine.answered and rested():
                self._new(verdict, now, quiet)
        elif before and before.content == content and before.answered is None:  # it was only being redrawn
            self._before, self.current = mine, before
        else:
            self._new(verdict, now, quiet)

    def _new(self, verdict: Verdict, now: int, quiet: int) -> None:
        self._count += 1
        self._before, self.current = self.current, Dialog(self._count, verdict.content, verdict.message, now, quiet)

    def typed(self, data: bytes, output: int, by: int) -> None:
        """Something is typed, which may answer it."""
        if self.current and NO_ANSWER.sub(b"", data):
            self.current.answered, self.answered_by = output, by

    def left(self, state: str) -> None:
        """The program is in this state, which is none of a dialog."""
        self._before = None
        if state in (states.IDLE, states.ERROR):
            self.answered_by = 0

    def named_by(self, client: int) -> bool:
        """Whether a process that names no dialog can only mean this one: it was started after the dialog had appeared,
        and no one else has answered one in this turn, which it may have meant instead."""
        found, mine = process_table.look(client), self.current
        if found is None or mine is None or found.start / process_table.TICKS < mine.appeared:
            return False
        return self.answered_by in (0, session_of(client))


def session_of(pid: int) -> int:
    """The session of a process, which is that of the terminal or the service that it was started in; -1 if unknown."""
    try:
        return os.getsid(pid) if pid else -1
    except OSError:
        return -1


# Which agent a terminal shows, and how that is known.


class KnownAgent:
    def __init__(self, command: Sequence[str]) -> None:
        self.detector: Detector | None = None
        self.by = ""
        """`command`, `sight`, or nothing."""
        self.box_seen = False
        self.settled = False
        """Whether it has been idle: its start, with the dialogs that belong to it, is over."""
        if table := detectors.readable(detectors.by_command(command)):
            self.detector, self.by = table, "command"

    @property
    def name(self) -> str | None:
        return self.detector.name if self.detector else None

    def recognise(self, app: str, title: str, lines: list[str]) -> None:
        """If it is not known yet: by the name under which it reports, else by its title and its screen."""
        if self.detector is None and (name := detectors.by_app(app) or detectors.by_sight(title, "\n".join(lines))):
            self.detector, self.by = detectors.readable(name), "sight"

    def forget(self) -> None:
        """It has returned to the shell in which it was started."""
        if self.by == "sight":
            self.detector, self.by, self.box_seen, self.settled = None, "", False, False


# Guesses what a program is doing from how much it writes and when, never from the content.
#
# Each classifier gets `output(size, now)` for every read and answers `state(now)`; times are milliseconds of a
# monotonic clock. All begin Idle. Whether the program has ended is not their concern.


class Classifier:
    """`none`: always Idle."""

    def __init__(self, now: int) -> None:
        self.since = now
        """When the current state began."""
        self._current = IDLE

    def output(self, size: int, now: int) -> None:
        """A read of this size."""

    def state(self, now: int) -> int:
        return self._current

    def next_change(self, now: int) -> int | None:
        """When the state may change without further output."""
        return None


class Simple(Classifier):
    """`simple`: Active until there has been no output for the threshold."""

    def __init__(self, now: int, threshold: int = 3000) -> None:
        super().__init__(now)
        self.threshold = threshold
        self._last = -1

    def output(self, size: int, now: int) -> None:
        self.state(now)  # record the Idle state of a silence that has just ended
        self._last = now
        self._enter(ACTIVE, now)

    def state(self, now: int) -> int:
        if self._current == ACTIVE and now - self._last >= self.threshold:
            self._enter(IDLE, self._last + self.threshold)
        return self._current

    def next_change(self, now: int) -> int | None:
        return self._last + self.threshold if self._current == ACTIVE else None

    def _enter(self, state: int, now: int) -> None:
        if state != self._current:
            self._current, self.since = state, now


WINDOW = 20
FULL_READ = 4096


class Claude(Classifier):
    """`claude`: the rhythm of Claude Code's screen: a spinner is small and regular, text uneven, tools come in bulk."""

    def __init__(self, now: int, threshold: int = 3000, debounce: int = 200) -> None:
        super().__init__(now)
        self.threshold = threshold
        self.debounce = debounce
        self._pending: tuple[int, int] | None = None  # a candidate state and when it was first seen
        self._events: list[tuple[int, int]] = []  # (time, size)

    def output(self, size: int, now: int) -> None:
        self._events.append((now, size))
        del self._events[:-WINDOW]
        self._settle(now)

    def state(self, now: int) -> int:
        self._settle(now)
        return self._current

    def next_change(self, now: int) -> int | None:
        if self._pending:
            return self._pending[1] + self.debounce
        return self._events[-1][0] + self.threshold if self._current != IDLE else None

    def _settle(self, now: int) -> None:
        candidate = self._candidate(now)
        if candidate == self._current:
            self._pending = None
        elif candidate == IDLE:
            self._enter(IDLE, self._events[-1][0] + self.threshold)
        elif self._pending is None or self._pending[0] != candidate:
            self._pending = (candidate, now)
        elif now - self._pending[1] >= self.debounce:
            self._enter(candidate, now)

    def _enter(self, state: int, now: int) -> None:
        self._current, self.since, self._pending = state, now, None

    def _candidate(self, now: int) -> int:
        events = self._events
        if not events or now - events[-1][0] >= self.threshold:
            return IDLE
        latest = events[-5:]
        if any(size >= FULL_READ for _, size in latest):
            return TOOL_USE
        if len(events) < 3:
            return THINKING
        for (before, _), (after, size) in zip(latest, latest[1:], strict=False):
            if after - before > 200 and size > 1024:
                return TOOL_USE
        return _rhythm(events[-10:])


def _rhythm(events: list[tuple[int, int]]) -> int:
    if len(events) < 5:
        return THINKING
    mean = sum(size for _, size in events) / len(events)
    deviation = (sum((size - mean) ** 2 for _, size in events) / len(events)) ** 0.5
    gap = (events[-1][0] - events[0][0]) / (len(events) - 1)
    if 40 <= mean <= 120 and deviation < 30 and 30 <= gap <= 200:
        return THINKING
    if (mean > 100 or deviation > 50) and gap < 200:
        return STREAMING
    return THINKING


def classifier(name: str, now: int, threshold: int = 3000, debounce: int = 200) -> Classifier:
    if name == "claude":
        return Claude(now, threshold, debounce)
    return Simple(now, threshold) if name == "simple" else Classifier(now)


# The state as the basic protocol has it: one byte, which a classifier's own states limit.

WIRE = {
    "thinking": THINKING,
    "streaming": STREAMING,
    "tool_use": TOOL_USE,
    "working": ACTIVE,
    states.SUBMITTED: THINKING,
}


class WireState:
    """The state's byte in STATUS, and since when. Only a classifier's own states are ever on the wire."""

    def __init__(self, settings: TerminalSettings, now: int) -> None:
        self.kind = settings.classifier
        self.rhythm = classifier(settings.classifier, now, settings.idle_threshold_ms, settings.debounce_ms)
        self.state = IDLE
        self.since = now

    def settle(self, accepted: Accepted, now: int) -> None:
        """Record when the state changes."""
        wire, since = self.rhythm.state(now), self.rhythm.since
        if accepted.verdict and accepted.state in states.AT_REST:
            wire, since = IDLE, accepted.since
        elif accepted.verdict and accepted.state in WIRE:
            wire, since = WIRE[accepted.state], accepted.since
        if self.kind == "none":
            wire = IDLE
        elif self.kind == "simple" and wire != IDLE:
            wire = ACTIVE
        if wire != self.state:
            self.state, self.since = wire, since

    def hint(self, now: int) -> str:
        return STATE_NAMES[self.rhythm.state(now)]


# Whether a program runs at all, as the kernel sees it.
#
# A screen that stands still means nothing while the program is stopped, or wants to draw and gets no processor. So
# before a screen without a sign of work counts as idle, the processes in the terminal's foreground must have slept.
# Where there is no /proc, nothing is known and nothing is delayed.

SHARE = 0.15
"""A program that uses more of a processor than this is computing. Idle agents redraw a clock or blink a cursor."""
TICK = 0.02
"""The kernel counts processor time in steps; two of them say nothing."""


class Pulse:
    def __init__(self, processes: Callable[[], list[Process]] | None = None) -> None:
        self.processes = processes
        """The processes in the terminal's foreground; None while there is no program."""
        self.stopped = False
        self._stopped_ms = 0
        self._asleep_since: int | None = None
        self._taken = 0
        self._cpu: dict[int, float] = {}

    def take(self, now: int) -> None:
        """Look at the processes."""
        if self.processes is None:
            return
        found = self.processes()
        used = sum(max(0.0, one.cpu - self._cpu.get(one.pid, one.cpu)) for one in found)
        if self.stopped:
            self._stopped_ms += now - self._taken
        self.stopped = any(one.state in "Tt" for one in found)
        awake = self.stopped or any(one.state in "RD" for one in found)
        awake = awake or used > TICK + SHARE * (now - self._taken) / 1000
        self._taken, self._cpu = now, {one.pid: one.cpu for one in found}
        if awake:
            self._asleep_since = None
        elif self._asleep_since is None:
            self._asleep_since = now

    def asleep(self, now: int) -> int | None:
        """For how many milliseconds every look has found it asleep; None when nothing can be known."""
        if self.processes is None or not self._cpu:
            return None
        return 0 if self._asleep_since is None else now - self._asleep_since

    @property
    def stopped_ms(self) -> int:
        """How long it was stopped in all, as far as the looks tell."""
        return self._stopped_ms


# The screen that a program has drawn, as characters. Output is applied to it only when it is looked at.

UNREAD_MAX = 64 * 1024
"""How much output is kept for the next look, more than any screen holds."""


class CharacterView:
    def __init__(self, cols: int, rows: int) -> None:
        self.size = (cols, rows)
        self.total = 0  # bytes of output so far
        self.box: Box | None = None
        """The agent's input box, by which lines below the cursor or columns of a sidebar do not count."""
        self._grid: Grid | None = None
        self._whole: Whole | None = None
        self._unread: list[bytes] = []
        self._unread_size = 0

    def output(self, data: bytes, *, matters: bool) -> None:
        """Take output. If too much is waiting, it is drawn; where the screen does not `matter`, only the end is."""
        self._unread.append(data)
        self._unread_size += len(data)
        self.total += len(data)
        if self._unread_size <= UNREAD_MAX:
            return
        if matters:
            self.grid()
            return
        self._grid = None
        while self._unread_size > UNREAD_MAX and len(self._unread) > 1:
            self._unread_size -= len(self._unread.pop(0))

    def resize(self, cols: int, rows: int) -> None:
        if self._grid:
            self.grid().resize(cols, rows)
        self.size = (cols, rows)

    @property
    def drawn(self) -> bool:
        """Whether there is anything on the screen: a blank one need not be kept."""
        return self._grid is not None or self._unread_size > 0

    def grid(self) -> Grid:
        from treadle.terminal.grid import Grid
        from treadle.terminal.sequences import Whole

        if self._grid is None or self._whole is None:
            self._grid, self._whole = Grid(*self.size), Whole()
        data, self._unread, self._unread_size = b"".join(self._unread), [], 0
        if data:
            self._grid.feed(self._whole.feed(data))
        return self._grid

    def cursor(self) -> tuple[int, int]:
        """Its column and row, from 0."""
        grid = self.grid()
        return min(grid.x, grid.cols - 1), grid.y

    def lines(self) -> list[str]:
        if not self.drawn:
            return []
        grid, box = self.grid(), self.box
        lines = grid.lines()
        if box and box.cursor:
            return lines[: grid.y + 1]
        edges = [found.end() for line in lines if (found := box.beside.match(line))] if box and box.beside else []
        return ["".join(row[: edges[-1]]).rstrip() for row in grid.buffer.rows] if edges else lines


BRACKETED_PASTE = 2004
"""The private mode (DECSET) in which a terminal marks what is pasted, so that the program does not take it for
typing."""
MOVING = "movement"
TYPED = "typed"
PROCESS = "process"


PROMPT = re.compile(r"(?:^|.*[\w\])~/@:.\-=\s])(?:[$#%❯»›λ➜]|>{1,3}|[=\-*]?[>#]|\((?:[Pp]db|gdb|lldb)\))\s?$")
NO_PROMPT = re.compile(r"[?？]|\[[^\]]*/[^\]]*\]|\([^)]*/[^)]*\)|[Pp]ass(word|phrase)|\d\s*[-%]|\.\.\.")


SHELL = re.compile(r"-?(?:(?:ba|da|a|z|k|mk|c|tc|fi|r?ba)?sh|busybox|i?python[\d.]*|node|irb|ghci|lua|R)")
CLIENT = re.compile(r"psql|sqlite3|mysql|gdb|lldb")
"""Programs that read commands at a prompt: those of the first kind only if they are given no script to run."""


class Foreground:
    """The program that has the terminal: its process group, its command line, and how the terminal is set for it."""

    def __init__(self, group: int, command: list[str], canonical: bool, echo: bool) -> None:
        self.group = group
        self.command = command
        self.canonical = canonical
        self.echo = echo

    def no_prompt(self, full_screen: bool) -> str:
        """Why what looks like a prompt is none; "" if it is one. A list of programs that read commands can be complete
        enough; one of pagers, editors, menus and password prompts cannot."""
        name = os.path.basename((self.command or [""])[0])
        interactive = SHELL.fullmatch(name) and all(word[:1] == "-" and word[1:2] != "c" for word in self.command[1:])
        if full_screen:
            return "it uses the whole screen"
        if self.canonical and not self.echo:
            return "what is typed is not shown, as for a password"
        return "" if interactive or CLIENT.fullmatch(name) else f"{name or 'the program'} is not known to read commands"


class Moments:
    """When things last happened, in milliseconds."""

    def __init__(self, now: int) -> None:
        self.started = self.output = now
        self.died: int | None = None
        self.typed: int | None = None
        self.moving_since = now  # since when there has been constant output that nothing known explains
        self.looked = now - states.LOOK_PAUSE
        self.late_until = now  # our own process was not run for a while; what it did not see until then says nothing


class Watch:
    def __init__(self, settings: TerminalSettings, now: int, state_file: str) -> None:
        self.pulse = Pulse()
        self.view = CharacterView(settings.cols, settings.rows)
        self.dialogs = Dialogs()
        self.foreground: Callable[[], Foreground] | None = None
        self._home = (
            0  # the process group that had the first prompt; a program that it starts takes the terminal from it
        )
        self.agent = KnownAgent(list(settings.command))
        self.submission: Submission | None = None
        self.turns = 0
        """How many turns were seen to begin."""
        self.behind = False
        """Whether the program has written more than we have read."""
        self._announced = Announcements(state_file, now)
        self._accepted = Accepted(now)
        self._wire = WireState(settings, now)
        self._at = Moments(now)
        self._whole: Whole | None = None
        self._modes: Modes | None = None
        self._stale = True  # whether something has happened since the last look

    # What happens...

    def output(self, data: bytes, now: int, answered: bool) -> bytes:
        """Handle output. Returns what to type in answer to the program's queries to its terminal.

        `answered`: a person's terminal answers them; then only the status query is ours to answer.
        """
        if now - self._at.output > states.STILL:
            self._at.moving_since = now
        self._at.output = now
        self._stale = True
        self._wire.rhythm.output(len(data), now)
        self.view.output(data, matters=self.agent.detector is not None)
        found = b""
        if self._whole or b"\x1b" in data:
            found = self._scan(data, now, answered)
        self._stale = self._announced.look_at_file(now, states.FILE_PAUSE) or self._stale
        if self.agent.detector and now - self._at.looked >= states.LOOK_PAUSE:
            self.look(now)
        self._settle(now)
        return found

    @property
    def accepted(self) -> str:
        """The state as of the last look."""
        return self._accepted.state

    @property
    def stale(self) -> bool:
        """Whether something has happened since the last look."""
        return self._stale

    def resized(self, cols: int, rows: int) -> None:
        self.view.resize(cols, rows)
        self._stale = True

    def typed(self, now: int, by_person: bool = False) -> None:
        """Something was typed. If a dialog waits, that is its answer, and the screen is about to change.

        A person at a terminal sees the screen, and has taken over whatever we had submitted.
        """
        self._at.typed = self._at.moving_since = now
        if by_person and self.submission:
            self.submission, self._stale = None, True

    def entered(self, data: bytes, now: int, limit: int) -> None:
        """We pressed Enter after this text: until the program shows what came of it, it is not idle."""
        lines, detector = self.view.lines(), self.agent.detector
        above = judge.transcript(detector, lines) if detector else []
        self.submission = Submission(
            data,
            now,
            turn=self.turns + 1,
            limit=limit,
            output=self.view.total,
            seen=judge.count(judge.first_words(data), above),
            stopped=self.pulse.stopped_ms,
        )
        self.typed(now)
        self.look(now)

    def quiet(self, now: int) -> int:
        """How long nothing has been written."""
        return now - self._at.output

    def late(self, now: int) -> None:
        """Our own process was not run for a while, so silence until now says nothing about the program."""
        self._at.late_until = now + states.HOLD
        self._stale = True

    def died(self, now: int) -> None:
        self._at.died = self._wire.since = now
        self._wire.state = DEAD

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
        return sequences.answers(data, self.view.size, not answered, self.view.cursor)

    def _reported(self, number: bytes, body: str, now: int) -> None:
        if number == b"9;4":
            self._announced.progress = body.partition(";")[0]
        elif number != b"7501":
            if self._works_by_title(body) and not self._works_by_title(self._announced.title):
                self.turns += 1
            self._announced.title = body.strip()
            if not body:
                self.agent.forget()  # its title belongs to an agent that has just returned to the shell
        elif body != "?" and self._announced.reported(body, now):
            self.turns += 1

    def _works_by_title(self, title: str) -> bool:
        return self.agent.detector is not None and judge.says(self.agent.detector, "title", title.strip(), "working")

    # The judgement...

    def look(self, now: int) -> None:
        """Look at the screen, and accept what it shows once it has been seen long enough."""
        if self._at.died is not None:
            return
        self._at.looked, self._stale = now, False
        accepted = self._accepted
        verdict = self._judge(now)
        self.dialogs.look(verdict, self.view.total, now, self.quiet(now), lambda: self._at_rest_again(now))
        verdict = self._legal(self._after_enter(verdict, now))
        if accepted.verdict is None:
            accepted.since = self._at.started
        if not accepted.offer(verdict, now):
            return
        seen = max(now - accepted.candidate_since, now - self._at.output)  # a screen without output has not changed
        if seen >= self._hold(verdict) and self._rested(verdict, now):
            if verdict.state in states.AT_WORK and accepted.state not in states.AT_WORK and verdict.source == "screen":
                self.turns += 1
            accepted.accept()
            if verdict.state not in states.WAITING:
                self.dialogs.left(verdict.state)
            self.agent.settled = self.agent.settled or verdict.state == "idle"

    def _at_rest_again(self, now: int) -> bool:
        """Whether the program has read the keys that were typed, and sleeps."""
        self.pulse.take(now)
        return self.dialogs.keys_read() and self.pulse.asleep(now) != 0

    def _legal(self, verdict: Verdict) -> Verdict:
        """What cannot follow is not believed: see `states`."""
        if states.may_follow(self._accepted.state, verdict.state):
            return verdict
        return Verdict(states.UNKNOWN, verdict.source, f"{verdict.words}: {verdict.state} after {self._accepted.state}")

    def _hold(self, verdict: Verdict) -> int:
        """How long a new state must be seen. Reported states, and work that has begun, count at once."""
        if verdict.source in ("osc 7501", "state file", TYPED, PROCESS) or verdict.state in states.AT_WORK:
            return 0
        if verdict.source == "title" and verdict.state in states.WAITING:
            return 0
        detector = self.agent.detector
        settle = detector.settle_ms if detector and not verdict.sure else 0
        if verdict.state == "idle" and self._first:
            settle = max(settle, states.FIRST_IDLE)
        return max(settle, states.HOLD)

    @property
    def _first(self) -> bool:
        """Whether this would be the first time that the agent is idle."""
        return self.agent.detector is not None and not self.agent.settled

    def _rested(self, verdict: Verdict, now: int) -> bool:
        """Whether the program's processes have slept, so that a screen that shows idle has been finished."""
        if verdict.state != "idle" or verdict.source in ("osc 7501", "state file"):
            return True
        self.pulse.take(now)
        asleep = self.pulse.asleep(now)
        if asleep is None or asleep >= (states.FIRST_IDLE if self._first else states.HOLD):
            return True
        most = states.FIRST_AWAKE_MAX if self._first else states.AWAKE_MAX
        return not self.pulse.stopped and now - self._accepted.candidate_since >= most

    def _judge(self, now: int) -> Verdict:
        grid = self.view.grid() if self.view.drawn else None
        lines = self.view.lines()
        quiet = now - self._at.output
        report = self._announced.report
        self.agent.recognise(report.app if report else "", self._announced.title, lines)
        self.view.box = self.agent.detector.box if self.agent.detector else None
        verdict = self._agents_verdict(grid, lines, now) if self.agent.detector else None
        if verdict is None and report:
            verdict = judge.by_report(report, quiet)
            if verdict.state in states.WAITING:
                verdict.content = judge.content_of(verdict, [verdict.message] if verdict.message else lines)
        verdict = verdict or (grid and self._prompt(grid, lines)) or self._unknown(lines, now)
        if verdict.state == "idle":
            return self._doubted(verdict, now)
        return verdict

    def _agents_verdict(self, grid: Grid | None, lines: list[str], now: int) -> Verdict:
        agent, announced = self.agent, self._announced
        assert agent.detector
        evidence = judge.Evidence(
            lines,
            announced.title,
            announced.report,
            announced.progress,
            box_seen=agent.box_seen,
            quiet=now - self._at.output,
            age=now - self._at.started,
        )
        verdict = judge.judge(agent.detector, evidence)
        if verdict.state in states.AT_WORK:
            self._at.moving_since = now
        elif verdict.state == "idle" and not verdict.sure and self._restless(now):
            verdict = Verdict(states.UNKNOWN, MOVING, "an input box, but the screen moves on by itself")
        if verdict.state == states.UNKNOWN and agent.by == "sight":
            verdict = (grid and self._prompt(grid, lines)) or verdict
        agent.box_seen = agent.box_seen or judge.find_box(agent.detector.box, lines) is not None
        return verdict

    def _doubted(self, verdict: Verdict, now: int) -> Verdict:
        """Idle is what a screen shows on which nothing happens. It is only believed if we and the program could act."""
        if self.behind:
            return Verdict(states.UNKNOWN, PROCESS, "it has written more than we have read")
        if now < self._at.late_until:
            return Verdict(states.UNKNOWN, PROCESS, "our own process was not run for a while")
        if self.pulse.stopped:
            self.pulse.take(now)
            if self.pulse.stopped:
                return Verdict(states.UNKNOWN, PROCESS, "the program is stopped")
        return verdict

    def _after_enter(self, verdict: Verdict, now: int) -> Verdict:
        """The verdict, in the light of what we have submitted."""
        mine = self.submission
        if mine is None:
            return verdict
        grid = self.view.grid()
        lines, quiet = self.view.lines(), now - self._at.output
        seen = judge.AfterEnter(verdict, lines, (grid.x, grid.y), quiet, self.view.total)
        mine.outcome = judge.outcome(mine, seen, self.turns, self.agent.detector, self._announced.report)
        if mine.outcome:
            self.submission = None
            if mine.outcome == judge.ENDED:
                self.turns = max(self.turns, mine.turn)
                return Verdict("thinking", TYPED, "the turn was over before it was seen to run")
            return verdict
        self.pulse.take(now)
        if mine.waited(now, self.pulse.stopped_ms) < mine.limit:
            return Verdict(states.SUBMITTED, TYPED, "Enter was pressed, and nothing has come of it yet")
        detector = self.agent.detector
        if detector and judge.holds(judge.content(detector, lines), mine.data):
            self.submission, mine.lost, self._stale = None, True, True  # from now on the screen says what it is doing
        return Verdict(
            states.UNKNOWN,
            TYPED,
            f"neither a turn nor a dialog nor an error was seen within {mine.limit / 1000:g} s of Enter",
        )

    def _restless(self, now: int) -> bool:
        """Whether it seems to work in a way that its table does not know, as a later version may."""
        return now - self._at.output <= states.STILL and self._at.output - self._at.moving_since >= states.RESTLESS

    def _prompt(self, grid: Grid, lines: list[str]) -> Verdict | None:
        """A prompt at the cursor, with nothing after it, means a shell or an interpreter."""
        line = lines[grid.y]
        before = "".join(grid.buffer.rows[grid.y][: grid.x])
        if not (line.strip() and line == before.rstrip() and PROMPT.match(before)) or NO_PROMPT.search(before):
            return None
        if self.foreground:
            front = self.foreground()
            why = front.no_prompt(self.full_screen)
            if not why and self._home not in (0, front.group) and process_table.look(self._home):
                why = "another program has the terminal"
            if why:
                return Verdict(states.UNKNOWN, "terminal", f"{line.strip()[-40:]!r}, but {why}")
            self._home = front.group
        return Verdict("idle", "prompt", line.strip()[-80:])

    def _unknown(self, lines: list[str], now: int) -> Verdict:
        if not any(lines) and now - self._at.started < states.FIRST_SCREEN:
            return Verdict(states.STARTING, "screen", "nothing is drawn yet")
        return Verdict(states.UNKNOWN, "rhythm", "this program is not one of those that are known")

    def _current(self, now: int) -> Verdict:
        accepted = self._accepted
        if self._stale or accepted.candidate or accepted.verdict is None or now - self._at.looked >= states.LOOK_PAUSE:
            self.look(now)
        assert accepted.verdict
        return accepted.verdict

    def _settle(self, now: int) -> None:
        if self._at.died is None:
            self._wire.settle(self._accepted, now)

    # What is reported...

    def state(self, now: int) -> tuple[int, int]:
        """The state's byte on the wire, and since when."""
        if self._at.died is None:
            self._stale = self._announced.look_at_file(now) or self._stale
            self._current(now)
            self._settle(now)
        return self._wire.state, self._wire.since

    def _answering(self, verdict: Verdict, now: int) -> bool:
        """Whether the dialog has been answered, and may be about to go."""
        typed, dialog = self._at.typed, self.dialogs.current
        answered = dialog is not None and dialog.answered is not None
        return verdict.state in states.WAITING and answered and typed is not None and now - typed < states.ANSWERING

    def _not_ready(self, verdict: Verdict, now: int) -> bool:
        """Whether a dialog is not drawn yet, or still ignores keys."""
        if verdict.state not in states.WAITING:
            return False
        return not verdict.content or now < self._hears_at()

    def _hears_at(self) -> int:
        dialog, detector = self.dialogs.current, self.agent.detector
        return dialog.since + detector.deaf_ms if dialog and detector else 0

    def _slow(self, verdict: Verdict) -> bool:
        """Whether it is unknown only because we are too slow, which passes."""
        return verdict.source == PROCESS and not self.pulse.stopped

    def detail(self, now: int) -> dict[str, Any]:
        wire, since = self.state(now)
        if self._at.died is not None:
            return {"name": "dead", "wire": "dead", "began": since, "since_ms": now - since, "turns": self.turns}
        verdict, report = self._current(now), self._announced.report
        dialog = self.dialogs.current
        return {
            "name": verdict.state,
            "wire": STATE_NAMES[wire],
            "began": self._accepted.since,
            "since_ms": now - self._accepted.since,
            "agent": self.agent.name,
            "waiting_for": verdict.state if verdict.state in states.WAITING else None,
            "message": (dialog.asks if dialog else verdict.message) or None,
            "dialog": dialog.id if dialog else None,
            "mode": (judge.mode(self.agent.detector, self.view.lines()) if self.agent.detector else "") or None,
            "done": bool(verdict.state == "idle" and report and report.state == "done"),
            "settling": self._accepted.candidate is not None
            or self._answering(verdict, now)
            or self._not_ready(verdict, now)
            or self._slow(verdict)
            or self.behind,
            "hint": self._wire.hint(now) if verdict.state == states.UNKNOWN else None,
            "why": verdict.why(),
            "tasks": len(self._announced.tasks),
            "turns": self.turns,
        }

    def explain(self, now: int) -> dict[str, Any]:
        """Everything that the judgement is based on."""

        verdict, announced = self._current(now), self._announced
        found: dict[str, Any] = {
            "state": verdict.state,
            "why": verdict.why(),
            "agent": self.agent.name,
            "known_by": self.agent.by or None,
            "table": detectors.files()[self.agent.name] if self.agent.name else None,
            "unreadable": detectors.unreadable,
            "title": announced.title,
            "report": announced.report.words if announced.report else None,
            "progress": announced.progress or None,
            "quiet_ms": now - self._at.output,
            "rhythm": self._wire.hint(now),
            "turns": self.turns,
            "submitted": None,
        }
        if mine := self.submission:
            found["submitted"] = {"words": mine.words, "turn": mine.turn, "since_ms": now - mine.at}
        if self.agent.detector:
            evidence = judge.Evidence(self.view.lines(), announced.title, announced.report, announced.progress)
            found |= judge.explain(self.agent.detector, evidence)
            found |= {"box_seen": self.agent.box_seen, "age_ms": now - self._at.started}
        return found

    def last_line(self) -> str:
        """The last line that an agent said, above its input box; for another program, the last line of its screen."""

        lines = self.view.lines()
        if self.agent.detector:
            lines = judge.Regions(self.agent.detector, judge.Evidence(lines)).text["last"].split("\n")
        shown = (line.strip()[:200] for line in reversed(lines) if any(letter.isalnum() for letter in line))
        return next(shown, "")

    def next_change(self, now: int, watched: bool = True) -> int | None:
        """When to look again if nothing happens; None when nothing can change by itself.

        If it is not `watched`, states that are only reported on request need no look before someone asks.
        """
        at, accepted = self._at, self._accepted
        if at.died is not None:
            return None
        times = []
        if accepted.candidate:
            held = accepted.candidate_since + self._hold(accepted.candidate)
            times.append(held if held > now else now + states.HOLD)
        if self._stale:
            pause = (
                states.LOOK_PAUSE
                if self.agent.detector
                else max(states.LOOK_PAUSE, at.output + states.QUIET - at.looked)
            )
            times.append(at.looked + min(pause, states.LOOK_LONGEST))
        if watched:
            times.append(now + states.FILE_PAUSE * 4)
        times += [time for time in (self._wire.rhythm.next_change(now),) if time is not None and time > now]
        times += [time for time in self._by_state() if time > now]
        return min(times, default=None)

    def _by_state(self) -> list[int]:
        """When a state may be over although nothing happens."""
        at, verdict = self._at, self._accepted.verdict
        if verdict is None:
            return []
        if verdict.state == states.STARTING:
            return [at.started + states.FIRST_SCREEN]
        if verdict.state in states.AT_WORK:
            return [at.output + states.STALE]
        if verdict.source == MOVING:
            return [at.output + states.STILL + 1]
        if verdict.state == states.SUBMITTED:
            return [at.looked + states.QUIET]
        if verdict.source == PROCESS:
            return [at.late_until, at.looked + states.LOOK_LONGEST]
        if verdict.state not in states.WAITING:
            return []
        return [self._hears_at(), *([at.typed + states.ANSWERING] if at.typed is not None else [])]

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
