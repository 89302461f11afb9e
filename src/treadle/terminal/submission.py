"""A text that was submitted to a program: what we did is evidence, until the program shows what came of it."""

from __future__ import annotations

from treadle.light import TYPE_CHECKING
from treadle.terminal import box, states
from treadle.terminal.times import COMMAND_TAKEN, QUIET

if TYPE_CHECKING:
    from treadle.terminal.detectors.table import Detector
    from treadle.terminal.judge import Verdict
    from treadle.terminal.reports import Report

TURN, OVER, DIALOG, PASSED = "turn", "over", "dialog", "passed"
"""What became of it: a turn is running; was over before it was seen; a dialog came; the program is one in which no
more can be known."""


class Submission:
    """`turn` is the number that its turn will have. `limit` is how many milliseconds to wait for a sign of it."""

    def __init__(self, data: bytes, now: int, *, turn: int, limit: int, output: int, seen: int, stopped: int) -> None:
        self.at = now
        self.data = data
        self.words = box.first_words(data)
        self.is_command = data[:1] in (b"/", b"!")
        self.turn = turn
        self.limit = limit
        self.output = output  # bytes that the program had written by then
        self.seen = seen  # lines above the box that had these words already
        self.stopped = stopped  # for how long the program had been stopped until then
        self.outcome = ""
        self.confirmed = False
        """Whether it is certain that the program has taken the text, and not only that something has happened."""

    def waited(self, now: int, stopped: int) -> int:
        """How long the program has had to react, without the time in which it was stopped."""
        return now - self.at - (stopped - self.stopped)


class AfterEnter:
    """What is there to judge a submission by."""

    def __init__(self, verdict: Verdict, lines: list[str], cursor: tuple[int, int], quiet: int, output: int) -> None:
        self.verdict = verdict
        self.lines = lines
        self.cursor = cursor
        self.quiet = quiet
        self.output = output


def outcome(mine: Submission, seen: AfterEnter, turns: int, detector: Detector | None, report: Report | None) -> str:
    """What became of it, or "" while nothing shows that."""
    mine.confirmed = turns >= mine.turn or box.count(mine.words, seen.lines) > mine.seen
    if seen.verdict.state in states.WAITING:
        return DIALOG
    mine.confirmed = True
    if seen.verdict.state in states.AT_WORK:
        return TURN
    if turns >= mine.turn:
        return OVER
    if (
        report
        and report.at >= mine.at
        and report.state in (("done", "error") if detector else ("done", "error", "idle"))
    ):
        return OVER
    if detector is None:
        moved = report is None and seen.output > mine.output and seen.quiet >= QUIET
        return (OVER if seen.verdict.state == states.IDLE else PASSED) if moved else ""
    return OVER if _answered(mine, seen, detector) else ""


def _answered(mine: Submission, seen: AfterEnter, detector: Detector) -> bool:
    """Whether the text has moved from the box to the transcript, with an answer below it. A command, such as /clear,
    needs no answer: its box is empty."""
    if box.holds(box.content(detector, seen.lines), mine.data) or seen.output <= mine.output:
        return False
    if mine.is_command:
        return bool(box.is_empty(detector, seen.lines, seen.cursor)) and seen.quiet >= COMMAND_TAKEN
    above = transcript(detector, seen.lines)
    if not mine.words or box.count(mine.words, above) <= mine.seen:
        return False
    last = max(number for number, line in enumerate(above) if box.count(mine.words, [line]))
    return any(detector.block.match(line) and not detector.prompt.match(line) for line in above[last + 1 :] if line)


def transcript(detector: Detector, lines: list[str]) -> list[str]:
    """The lines above the input box."""
    from treadle.terminal.judge import find_box

    found = find_box(detector.box, lines)
    return lines[: found[0]] if found else []
