"""What the program is doing, as well as all the evidence can tell, and why.

An agent that `detectors` describes is judged by its screen, its title and its reports. A program that sends its own
reports (OSC 7501, or its hooks through the state file) is believed. For any other, only a visible prompt is a sign:
without one its state is unknown, with the rhythm of its output as a hint. What we typed counts too (`submission`), and
whether the program ran at all (`pulse`). The classifier limits which states the wire reports; `detail` reports
everything.
"""

from __future__ import annotations

import re

from treadle.terminal import box, detectors
from treadle.terminal import submission as submissions
from treadle.terminal.accepting import Accepted
from treadle.terminal.pulse import Pulse
from treadle.terminal.recognise import KnownAgent
from treadle.terminal.reports import Announcements
from treadle.terminal.settings import TerminalSettings
from treadle.terminal.states import AT_WORK, STARTING, SUBMITTED, UNKNOWN, WAITING, may_follow
from treadle.terminal.submission import Submission
from treadle.terminal.times import (
    ANSWERING,
    AWAKE_MAX,
    FILE_PAUSE,
    FIRST_AWAKE_MAX,
    FIRST_IDLE,
    FIRST_SCREEN,
    HOLD,
    LOOK_LONGEST,
    LOOK_PAUSE,
    QUIET,
    RESTLESS,
    STALE,
    STILL,
)
from treadle.terminal.view import CharacterView
from treadle.terminal.wire_state import WireState
from treadle.wire.terminal.frames import DEAD, STATE_NAMES

TYPE_CHECKING = False  # `typing` would cost every supervisor a megabyte
if TYPE_CHECKING:
    from typing import Any

    from treadle.terminal.grid import Grid
    from treadle.terminal.judge import Verdict
    from treadle.terminal.sequences import Modes, Whole

BRACKETED_PASTE = 2004
MOVING = "movement"
TYPED = "typed"
PROCESS = "process"


PROMPT = re.compile(r"(?:^|.*[\w\])~/@:.\-=\s])(?:[$#%❯»›λ➜]|>{1,3}|[=\-*]?[>#]|\(\w+\))\s?$")
NO_PROMPT = re.compile(r"\?|\[[^\]]*/[^\]]*\]|\([^)]*/[^)]*\)|[Pp]ass(word|phrase)|\d\s*[-%]|\.\.\.")


class Moments:
    """When things last happened, in milliseconds."""

    def __init__(self, now: int) -> None:
        self.started = self.output = now
        self.died: int | None = None
        self.typed: int | None = None
        self.moving_since = now  # since when there has been constant output that nothing known explains
        self.looked = now - LOOK_PAUSE
        self.late_until = now  # our own process was not run for a while; what it did not see until then says nothing


class Watch:
    def __init__(self, settings: TerminalSettings, now: int, state_file: str) -> None:
        self.pulse = Pulse()
        self.view = CharacterView(settings.cols, settings.rows)
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
        if now - self._at.output > STILL:
            self._at.moving_since = now
        self._at.output = now
        self._stale = True
        self._wire.rhythm.output(len(data), now)
        self.view.output(data, matters=self.agent.detector is not None)
        found = b""
        if self._whole or b"\x1b" in data:
            found = self._scan(data, now, answered)
        self._stale = self._announced.look_at_file(now, FILE_PAUSE) or self._stale
        if self.agent.detector and now - self._at.looked >= LOOK_PAUSE:
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
        above = submissions.transcript(detector, lines) if detector else []
        self.submission = Submission(
            data,
            now,
            turn=self.turns + 1,
            limit=limit,
            output=self.view.total,
            seen=box.count(box.first_words(data), above),
            stopped=self.pulse.stopped_ms,
        )
        self.typed(now)
        self.look(now)

    def quiet(self, now: int) -> int:
        """How long nothing has been written."""
        return now - self._at.output

    def late(self, now: int) -> None:
        """Our own process was not run for a while, so silence until now says nothing about the program."""
        self._at.late_until = now + HOLD
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
        from treadle.terminal.judge import says

        return self.agent.detector is not None and says(self.agent.detector, "title", title.strip(), "working")

    # The judgement...

    def look(self, now: int) -> None:
        """Look at the screen, and accept what it shows once it has been seen long enough."""
        if self._at.died is not None:
            return
        self._at.looked, self._stale = now, False
        accepted = self._accepted
        verdict = self._legal(self._after_enter(self._judge(now), now))
        if accepted.verdict is None:
            accepted.since = self._at.started
        if not accepted.offer(verdict, now):
            return
        seen = max(now - accepted.candidate_since, now - self._at.output)  # a screen without output has not changed
        if seen >= self._hold(verdict) and self._rested(verdict, now):
            if verdict.state in AT_WORK and accepted.state not in AT_WORK and verdict.source == "screen":
                self.turns += 1
            accepted.accept()
            self.agent.settled = self.agent.settled or verdict.state == "idle"

    def _legal(self, verdict: Verdict) -> Verdict:
        """What cannot follow is not believed: see `states`."""
        from treadle.terminal.judge import Verdict

        if may_follow(self._accepted.state, verdict.state):
            return verdict
        return Verdict(UNKNOWN, verdict.source, f"{verdict.words}: {verdict.state} after {self._accepted.state}")

    def _hold(self, verdict: Verdict) -> int:
        """How long a new state must be seen. Reported states, and work that has begun, count at once."""
        if verdict.source in ("osc 7501", "state file", TYPED, PROCESS) or verdict.state in AT_WORK:
            return 0
        if verdict.source == "title" and verdict.state in WAITING:
            return 0
        detector = self.agent.detector
        settle = detector.settle_ms if detector and not verdict.sure else 0
        if verdict.state == "idle" and self._first:
            settle = max(settle, FIRST_IDLE)
        return max(settle, HOLD)

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
        if asleep is None or asleep >= (FIRST_IDLE if self._first else HOLD):
            return True
        most = FIRST_AWAKE_MAX if self._first else AWAKE_MAX
        return not self.pulse.stopped and now - self._accepted.candidate_since >= most

    def _judge(self, now: int) -> Verdict:
        from treadle.terminal import judge

        grid = self.view.grid() if self.view.drawn else None
        lines = self.view.lines()
        quiet = now - self._at.output
        report = self._announced.report
        self.agent.recognise(report.app if report else "", self._announced.title, lines)
        self.view.to_cursor = self.agent.detector is not None and self.agent.detector.box.cursor
        verdict = self._agents_verdict(grid, lines, now) if self.agent.detector else None
        if verdict is None and report:
            verdict = judge.by_report(report, quiet)
        verdict = verdict or (grid and self._prompt(grid, lines)) or self._unknown(lines, now)
        if verdict.state == "idle":
            return self._doubted(verdict, now)
        return verdict

    def _agents_verdict(self, grid: Grid | None, lines: list[str], now: int) -> Verdict:
        from treadle.terminal import judge

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
        if verdict.state in AT_WORK:
            self._at.moving_since = now
        elif verdict.state == "idle" and not verdict.sure and self._restless(now):
            verdict = judge.Verdict(UNKNOWN, MOVING, "an input box, but the screen moves on by itself")
        if verdict.state == UNKNOWN and agent.by == "sight":
            verdict = (grid and self._prompt(grid, lines)) or verdict
        agent.box_seen = agent.box_seen or judge.find_box(agent.detector.box, lines) is not None
        return verdict

    def _doubted(self, verdict: Verdict, now: int) -> Verdict:
        """Idle is what a screen shows on which nothing happens. It is only believed if we and the program could act."""
        from treadle.terminal.judge import Verdict

        if self.behind:
            return Verdict(UNKNOWN, PROCESS, "it has written more than we have read")
        if now < self._at.late_until:
            return Verdict(UNKNOWN, PROCESS, "our own process was not run for a while")
        if self.pulse.stopped:
            self.pulse.take(now)
            if self.pulse.stopped:
                return Verdict(UNKNOWN, PROCESS, "the program is stopped")
        return verdict

    def _after_enter(self, verdict: Verdict, now: int) -> Verdict:
        """The verdict, in the light of what we have submitted."""
        from treadle.terminal.judge import Verdict

        mine = self.submission
        if mine is None:
            return verdict
        grid = self.view.grid()
        lines, quiet = self.view.lines(), now - self._at.output
        seen = submissions.AfterEnter(verdict, lines, (grid.x, grid.y), quiet, self.view.total)
        mine.outcome = submissions.outcome(mine, seen, self.turns, self.agent.detector, self._announced.report)
        if mine.outcome:
            self.submission = None
            if mine.outcome == submissions.OVER:
                self.turns = max(self.turns, mine.turn)
                return Verdict("thinking", TYPED, "the turn was over before it was seen to run")
            return verdict
        self.pulse.take(now)
        if mine.waited(now, self.pulse.stopped_ms) < mine.limit:
            return Verdict(SUBMITTED, TYPED, "Enter was pressed, and nothing has come of it yet")
        return Verdict(
            UNKNOWN, TYPED, f"neither a turn nor a dialog nor an error was seen within {mine.limit / 1000:g} s of Enter"
        )

    def _restless(self, now: int) -> bool:
        """Whether it seems to work in a way that its table does not know, as a later version may."""
        return now - self._at.output <= STILL and self._at.output - self._at.moving_since >= RESTLESS

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

        if not any(lines) and now - self._at.started < FIRST_SCREEN:
            return judge.Verdict(STARTING, "screen", "nothing is drawn yet")
        return judge.Verdict(UNKNOWN, "rhythm", "this program is not one of those that are known")

    def _current(self, now: int) -> Verdict:
        accepted = self._accepted
        if self._stale or accepted.candidate or accepted.verdict is None or now - self._at.looked >= LOOK_PAUSE:
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
        typed = self._at.typed
        return verdict.state in WAITING and typed is not None and now - typed < ANSWERING

    def _slow(self, verdict: Verdict) -> bool:
        """Whether it is unknown only because we are too slow, which passes."""
        return verdict.source == PROCESS and not self.pulse.stopped

    def detail(self, now: int) -> dict[str, Any]:
        wire, since = self.state(now)
        if self._at.died is not None:
            return {"name": "dead", "wire": "dead", "began": since, "since_ms": now - since, "turns": self.turns}
        verdict, report = self._current(now), self._announced.report
        return {
            "name": verdict.state,
            "wire": STATE_NAMES[wire],
            "began": self._accepted.since,
            "since_ms": now - self._accepted.since,
            "agent": self.agent.name,
            "waiting_for": verdict.state if verdict.state in WAITING else None,
            "message": verdict.message or None,
            "done": bool(verdict.state == "idle" and report and report.state == "done"),
            "settling": self._accepted.candidate is not None or self._answering(verdict, now) or self._slow(verdict),
            "hint": self._wire.hint(now) if verdict.state == UNKNOWN else None,
            "why": {"source": verdict.source, "said": verdict.words},
            "tasks": len(self._announced.tasks),
            "turns": self.turns,
        }

    def explain(self, now: int) -> dict[str, Any]:
        """Everything that the judgement is based on."""
        from treadle.terminal import judge

        verdict, announced = self._current(now), self._announced
        found: dict[str, Any] = {
            "state": verdict.state,
            "why": {"source": verdict.source, "said": verdict.words},
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
        from treadle.terminal import judge

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
            times.append(held if held > now else now + HOLD)
        if self._stale:
            pause = LOOK_PAUSE if self.agent.detector else max(LOOK_PAUSE, at.output + QUIET - at.looked)
            times.append(at.looked + min(pause, LOOK_LONGEST))
        if watched:
            times.append(now + FILE_PAUSE * 4)
        times += [time for time in (self._wire.rhythm.next_change(now),) if time is not None and time > now]
        times += [time for time in self._by_state() if time > now]
        return min(times, default=None)

    def _by_state(self) -> list[int]:
        """When a state may be over although nothing happens."""
        at, verdict = self._at, self._accepted.verdict
        if verdict is None:
            return []
        if verdict.state == STARTING:
            return [at.started + FIRST_SCREEN]
        if verdict.state in AT_WORK:
            return [at.output + STALE]
        if verdict.source == MOVING:
            return [at.output + STILL + 1]
        if verdict.state == SUBMITTED:
            return [at.looked + QUIET]
        if verdict.source == PROCESS:
            return [at.late_until, at.looked + LOOK_LONGEST]
        return [at.typed + ANSWERING] if at.typed is not None and verdict.state in WAITING else []

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
