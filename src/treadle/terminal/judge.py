"""Judges what an agent is doing from its screen, its title and its reports, using its table (`detectors`); reads its
input box, and follows what was submitted.

The questions are asked in this order, and the first answer counts:

1. Is there a dialog in place of the input box? Then it waits for a permission or an answer, whatever else it says.
2. Does a report or the title say that it waits for a person?
3. Is there no input box? Then it is starting, or unknown: never idle.
4. Does a report, the footer, what is above the box, the title or a progress report say that it works?
5. Does the last turn end in an error?
6. Otherwise it is idle.
"""

from __future__ import annotations

import re

from treadle.light import TYPE_CHECKING
from treadle.terminal import states
from treadle.terminal.detectors import table
from treadle.terminal.states import COMMAND_TAKEN, FIRST_SCREEN, QUIET, STALE

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from treadle.terminal.detectors.table import Box, Detector, Sign
    from treadle.terminal.reports import Report


UNKNOWN = "unknown"
KINDS = (table.THINKING, table.STREAMING, table.TOOL)
LOWER = 30
"""How many non-blank lines count as the lower part of a screen without an input box."""
OVER = 4
"""How many non-blank lines above the input box are searched for its `over`."""
NEAR = 10
"""How many lines above the input box are searched for a status line."""


class Evidence:
    """What the judgement is based on. Times are in milliseconds."""

    __slots__ = ("age", "box_seen", "lines", "progress", "quiet", "report", "title")

    def __init__(
        self,
        lines: list[str],
        title: str = "",
        report: Report | None = None,
        progress: str = "",
        *,
        box_seen: bool = False,
        quiet: int = STALE // 2,
        age: int = 0,
    ) -> None:
        self.lines = lines
        self.title = title
        self.report = report
        self.progress = progress
        self.box_seen = box_seen
        self.quiet = quiet
        self.age = age


class Verdict:
    """The state, where it was seen, and in which words."""

    __slots__ = ("against", "content", "message", "words", "source", "state", "sure")

    def __init__(self, state: str, source: str, words: str, message: str = "", sure: bool = True) -> None:
        self.state = state
        self.source = source
        self.words = words
        self.message = message
        self.sure = sure  # False when only the absence of a sign suggests it
        self.content = ""  # of a dialog that is drawn: what tells it from another
        self.against = ""  # what the other source says, if it is something else

    def why(self) -> dict[str, str]:
        against = {"against": self.against} if self.against else {}
        return {"source": self.source, "said": self.words, **against}

    def __repr__(self) -> str:
        return f"Verdict({self.state}, {self.source}: {self.words!r})"


class Regions:
    """The parts of a screen in which signs are searched."""

    def __init__(self, detector: Detector, evidence: Evidence) -> None:
        lines = evidence.lines
        box = find_box(detector.box, lines)
        self.has_box = box is not None
        above, below = (lines[: box[0]], lines[box[1] + 1 :]) if box else (lines, lines)
        turn = _turn(detector, above)
        self.text = {
            table.TITLE: evidence.title,
            table.PROGRESS: evidence.progress,
            table.BOX: "\n".join(lines[box[0] : box[1] + 1]) if box else "",
            table.FOOTER: "\n".join(below) if box else "",
            table.DIALOG: "\n".join(below if box else [line for line in lines if line][-LOWER:]),
            table.STATUS: "\n".join([line for line in above if line][-NEAR:]) if box else "",
            table.TURN: "\n".join(turn),
            table.LAST: "\n".join(_last(detector, turn)),
        }

    def find(self, sign: Sign) -> str | None:
        """The words in which the sign was found."""
        text = self.text[sign.where]
        found = sign.pattern.search(text)
        if not found:
            return None
        if sign.where == table.DIALOG:  # the lowest match: one above it may be a quotation
            *_, found = sign.pattern.finditer(text)
        if "said" in found.groupdict():
            return found["said"].strip(" │┃")[:200]
        start = text.rfind("\n", 0, found.start()) + 1
        end = text.find("\n", max(found.end(), found.start() + 1))
        return re.sub(r"\s+", " ", text[start : end if end >= 0 else None]).strip(" │┃")[:200]


def find_box(box: Box, lines: list[str]) -> tuple[int, int] | None:
    """The first and the last line of the lowest input box, including its edges. None when there is none."""
    if box.cursor:
        return _at_cursor(box, lines)
    for bottom in range(len(lines) - 1, -1, -1):
        if box.below is None:
            if box.first.match(lines[bottom]) and not box.unless.match(lines[bottom]):
                return _checked(box, lines, bottom, _end(box, lines, bottom))
        elif box.below.fullmatch(lines[bottom]):
            return _checked(box, lines, _top(box, lines, bottom), bottom)
    return None


def _end(box: Box, lines: list[str], first: int) -> int:
    """The last line of a text in a box without a lower edge: all that looks like more of it, but for the footer, which
    is the last block of lines on the screen."""
    if box.more is None:
        return first
    end = first
    while end + 1 < len(lines) and (not lines[end + 1] or box.more.match(lines[end + 1])):
        end += 1
    while end > first and not lines[end]:
        end -= 1
    footer = end
    while footer > first and lines[footer]:
        footer -= 1
    if box.under and box.under.search("\n".join(lines[footer + 1 : end + 1])):
        end = footer
    while end > first and not lines[end]:
        end -= 1
    return end


def _at_cursor(box: Box, lines: list[str]) -> tuple[int, int] | None:
    """A prompt at the cursor, which is in the last of these lines. It is there again in each line of a longer text."""
    bottom = top = len(lines) - 1
    if bottom < 0 or not box.first.match(lines[bottom]):
        return None
    while top and box.first.match(lines[top - 1]):
        top -= 1
    return None if box.unless.match(lines[top]) else _checked(box, lines, top, bottom)


def _top(box: Box, lines: list[str], bottom: int) -> int:
    """The upper edge that belongs to a lower one; -1 when the lines between are not an input box."""
    first = bottom - 1
    if box.above is None:
        while first > 0 and (box.first.match(lines[first - 1]) or _is_more(box, lines[first])):
            first -= 1
        return first if first >= 0 and box.first.match(lines[first]) else -1
    while first >= 0 and not box.above.fullmatch(lines[first]):
        first -= 1
    if first < 0 or not box.first.match(lines[first + 1]) or box.unless.match(lines[first + 1]):
        return -1
    return first


def _is_more(box: Box, line: str) -> bool:
    return box.more is not None and not box.first.match(line) and bool(not line or box.more.match(line))


def _checked(box: Box, lines: list[str], top: int, bottom: int) -> tuple[int, int] | None:
    if top < 0:
        return None
    if box.over and not any(box.over.fullmatch(line) for line in [line for line in lines[:top] if line][-OVER:]):
        return None
    if box.under and not box.under.search("\n".join(lines[bottom + 1 :])):
        return None
    return top, bottom


def _turn(detector: Detector, above: list[str]) -> list[str]:
    for index in range(len(above) - 1, -1, -1):
        if detector.prompt.match(above[index]):
            return above[index + 1 :]
    return above


def _last(detector: Detector, turn: list[str]) -> list[str]:
    end = next((index for index, line in enumerate(turn) if detector.end.match(line)), len(turn))
    while end and (not turn[end - 1] or detector.skip.match(turn[end - 1])):
        end -= 1
    for index in range(end - 1, -1, -1):
        if detector.block.match(turn[index]):
            return turn[index:end]
    return turn[:end]


def judge(detector: Detector, evidence: Evidence) -> Verdict:
    """What the agent is doing."""
    regions = Regions(detector, evidence)
    verdict = next(_answers(detector, evidence, regions, evidence.report))
    if verdict.state in states.WAITING:
        lines = [line for line in regions.text[table.DIALOG].split("\n") if line]
        verdict.message = asked_text(detector, lines, verdict) or verdict.message
        if verdict.source == "screen" or not regions.has_box:  # else it is reported, but a key would go into the box
            verdict.content = content_of(verdict, lines)
    verdict.against = _against(detector, evidence, regions, verdict)
    if verdict.state in KINDS and evidence.quiet >= STALE:
        return Verdict(UNKNOWN, verdict.source, f"{verdict.words}, but nothing has moved for {STALE // 1000} s")
    return verdict


def _against(detector: Detector, evidence: Evidence, regions: Regions, verdict: Verdict) -> str:
    """What the screen and title say against the agent's report that counts, or the report against them."""
    report = evidence.report
    if report is None:
        return ""
    if verdict.source == report.source:
        other = next(_answers(detector, evidence, regions, None))
    else:
        other = by_report(report, 0)
    groups = (states.AT_WORK, states.WAITING)
    same = other.state == verdict.state or any(other.state in group and verdict.state in group for group in groups)
    if same or other.state in (UNKNOWN, table.STARTING):
        return ""
    return f"{other.source} says {other.state}: {other.words}"


def _answers(detector: Detector, evidence: Evidence, regions: Regions, report: Report | None) -> Iterator[Verdict]:
    yield from _seen(detector, regions, table.DIALOG, (table.PERMISSION, table.QUESTION, table.STARTING))
    if report and report.state == "blocked":
        yield Verdict(asked(report), report.source, report.words, report.message)
    yield from _seen(detector, regions, table.TITLE, (table.PERMISSION, table.QUESTION))
    if not regions.has_box:
        yield from _without_box(detector, evidence, regions, report)
    if report and report.state == "working":
        yield _working(detector, regions, report.source, report.words, report.message)
    for where in (table.FOOTER, table.STATUS, table.TURN, table.TITLE, table.PROGRESS):
        if report and where in (table.TITLE, table.PROGRESS):
            break  # a report is better evidence than a title
        for found in _seen(detector, regions, where, (table.WORKING,)):
            yield _working(detector, regions, found.source, found.words)
    if report and report.state == "error":
        seen = next(_seen(detector, regions, table.LAST, (table.ERROR,)), None)
        yield Verdict(table.ERROR, report.source, report.words, report.message or (seen.words if seen else ""))
    if not (report and report.state == "done"):
        for where in (table.STATUS, table.LAST, table.TURN):
            yield from _seen(detector, regions, where, (table.ERROR,), with_message=True)
    yield from _at_rest(detector, regions, report)


def _seen(
    detector: Detector, regions: Regions, where: str, states: tuple[str, ...], with_message: bool = False
) -> Iterator[Verdict]:
    for sign in detector.signs:
        if sign.where == where and sign.state in states:
            if sign in table.COMMON_DIALOGS and regions.has_box:
                continue
            found = regions.find(sign)
            if found is not None:
                source = "title" if where == table.TITLE else "progress" if where == table.PROGRESS else "screen"
                yield Verdict(sign.state, source, found, found if with_message or where == table.DIALOG else "")


def _working(detector: Detector, regions: Regions, source: str, words: str, message: str = "") -> Verdict:
    for sign in detector.signs:
        if sign.state in KINDS and regions.find(sign) is not None:
            return Verdict(sign.state, source, words, message)
    return Verdict(table.THINKING, source, words, message)


def _without_box(detector: Detector, evidence: Evidence, regions: Regions, report: Report | None) -> Iterator[Verdict]:
    if report and report.state in ("working", "error"):
        state = table.THINKING if report.state == "working" else table.ERROR
        yield Verdict(state, report.source, report.words, report.message)
    elif report and report.state in ("idle", "done"):
        yield Verdict(table.IDLE, report.source, report.words, report.message)
    blank = not any(evidence.lines)
    if not evidence.box_seen and (blank or evidence.age < FIRST_SCREEN):
        yield Verdict(table.STARTING, "screen", "nothing is drawn yet" if blank else "no input box is drawn yet")
    if evidence.box_seen and blank:
        yield Verdict(table.THINKING, "screen", "the screen is blank: it is about to be drawn anew")
    for where in (table.TITLE, table.DIALOG):
        for found in _seen(detector, regions, where, (table.WORKING,)):
            yield _working(detector, regions, found.source, found.words)
    yield Verdict(UNKNOWN, "screen", "there is no input box, and no dialog that is known")


def _at_rest(detector: Detector, regions: Regions, report: Report | None) -> Iterator[Verdict]:
    if report and report.state in ("idle", "done"):
        yield Verdict(table.IDLE, report.source, report.words, report.message)
    for found in _seen(detector, regions, table.TITLE, (table.IDLE,)):
        yield Verdict(table.IDLE, found.source, found.words)
    if detector.ready and not detector.ready.search(regions.text[table.FOOTER]):
        yield Verdict(table.STARTING, "screen", "the input box is drawn, but there is no session behind it yet")
    yield Verdict(table.IDLE, "screen", "an input box, and no sign of work", sure=False)


TICKING = re.compile(r"\((\d+[hm] )*\d+[smh]\b[^()]*\)")
"""A clock beside a dialog, which says nothing about the dialog."""
ORNAMENT = re.compile(r"[\s❯›▶→>●○◉☐☑█▌▐▄▀─━╌╭╮╰╯│┃┌┐└┘|⠀-⣿·✢✳✶✻✽■⬝]+")
"""What a dialog can change without asking anything else: its marked option, edges, line breaks, a spinner."""
EDGE = re.compile(r" ?([─━]{8,}|[╭┌])")
OPTION = re.compile(r"[ │┃|]*[❯›▶→●>]? ?(\[?\w[\].)] |Allow once\b)")
FIRST_OPTION = re.compile(r"[ │┃|]*[❯›▶→●>]? ?\[?[1aA][\].)] ")
LINES, LINE = 5, 120
"""How much of a dialog is told: lines above its first option, and characters of each."""


def content_of(verdict: Verdict, lines: list[str]) -> str:
    """What tells this dialog from another one."""
    return ORNAMENT.sub("", TICKING.sub("", f"{verdict.state}{''.join(lines)}"))


def asked_text(detector: Detector, lines: list[str], verdict: Verdict) -> str:
    """What a dialog asks, with the command or the file that it asks for, which may be above the question or below."""
    spaced = [re.sub(r"\s+", " ", line) for line in lines]
    at = next((number for number in range(len(lines) - 1, -1, -1) if verdict.words[:40] in spaced[number]), -1)
    if at < 0:
        return ""
    edge = lines[at].lstrip()[:1] if lines[at].lstrip()[:1] in "│┃" else ""
    at = top = _above_options(lines, at)
    while top and not (
        EDGE.match(lines[top - 1])
        or detector.block.match(lines[top - 1])
        and not (detector.box.cursor or edge)
        or not lines[top - 1].lstrip().startswith(edge)
    ):
        top -= 1
    end = next((number for number in range(top, len(lines)) if OPTION.match(lines[number])), at + 1)
    shown = [spaced[number].strip(EDGES) for number in range(top, end) if not NO_TEXT.fullmatch(lines[number])]
    return " · ".join(line[:LINE] for line in shown[-LINES:] if line)


def _above_options(lines: list[str], at: int) -> int:
    """Where the question ends if this line only names keys: at the first of the options that stand above it."""
    above = next((line for line in reversed(lines[:at]) if not NO_TEXT.fullmatch(line)), "")
    if not OPTION.match(above):
        return at
    return next((number for number in range(at, -1, -1) if FIRST_OPTION.match(lines[number])), at)


def asked(report: Report) -> str:
    """What a program that reports being blocked waits for. If it is a login, its turn has failed."""
    return {"question": table.QUESTION, "auth": table.ERROR}.get(report.kind, table.PERMISSION)


def by_report(report: Report, quiet: int) -> Verdict:
    """The state of a program without a table, from its own report."""
    if report.state == "blocked":
        return Verdict(asked(report), report.source, report.words, report.message)
    if report.state == "working":
        if quiet >= STALE:
            return Verdict(UNKNOWN, report.source, f"{report.words}, but nothing has moved for {STALE // 1000} s")
        return Verdict(table.THINKING, report.source, report.words, report.message)
    state = table.ERROR if report.state == "error" else table.IDLE
    return Verdict(state, report.source, report.words, report.message)


def explain(detector: Detector, evidence: Evidence) -> dict[str, Any]:
    """The regions of the screen, and for each sign of the table whether it was found there."""
    regions = Regions(detector, evidence)
    signs = []
    for sign in detector.signs:
        seen = None if sign in table.COMMON_DIALOGS and regions.has_box else regions.find(sign)
        signs.append({"state": sign.state, "where": sign.where, "pattern": sign.text, "seen": seen})
    return {
        "box": regions.has_box,
        "regions": regions.text,
        "signs": signs,
        "screen": "\n".join(evidence.lines),
    }


def says(detector: Detector, where: str, text: str, state: str) -> bool:
    """Whether this text at that place is a sign of that state."""
    return any(sign.where == where and sign.state == state and sign.pattern.search(text) for sign in detector.signs)


# What is typed in an agent's input box, as its screen shows it.

WORDS = 30
"""How many characters of a text are searched for on the screen."""
WHOLE = 200
"""A text of at most so many bytes is compared as a whole with what the box shows."""
PASTED, LONG_LINE = re.compile(r"\[pasted [^\]\n]*\]", re.IGNORECASE), 150
"""What a box may show in place of several lines, however short they are, or of one with more bytes than this."""
COMMANDS = "!#& "
"""What a text may begin with that a box shows as a mode of its own, and not as a part of the text."""
COMMAND = re.compile(rb"!|/[^\s/]*(\s|\Z)")
"""A text that is an agent's command and not a prompt. One that begins with a path is a prompt."""
MARKS = "❯>›!*#&"
EDGES = " │┃|\xa0"
MARKDOWN = dict.fromkeys(map(ord, "*-#>`_~"))
NO_TEXT = re.compile(r"[\s─╌━▄▀╭╮╰╯╹┃│]*")


def content(detector: Detector, lines: list[str]) -> str | None:
    """The text in the input box, without its edges and its mark; None when there is no box."""
    found = find_box(detector.box, lines)
    if found is None:
        return None
    if detector.box.cursor:
        return "\n".join(detector.box.first.sub("", line, 1) for line in lines[found[0] : found[1] + 1]).strip()
    inner = _inside(detector.box, lines, found)
    if inner and detector.box_note and detector.box_note.fullmatch(inner[-1]):
        inner.pop()
    text = "\n".join(line.strip(EDGES) for line in inner)
    if text[:1] and text[0] in MARKS and text[1:2] in ("", " ", "\xa0", "\n"):
        unmarked = inner[0].replace(text[0], "", 1)
        text = text if detector.box.first.match(unmarked) else text[1:]  # where a box has no mark, it is the text's own
    return text.strip()


def _inside(box: Box, lines: list[str], found: tuple[int, int]) -> list[str]:
    """The lines with text between the edges, on which there may be words too, such as how much is not shown."""
    inner = lines[found[0] + bool(box.above) : found[1] + (not box.below)]
    return [line for line in inner if not NO_TEXT.fullmatch(line)]


def like_a_menu(detector: Detector, data: bytes) -> bool:
    """Whether the box could not be told from a dialog's options if it held this text, as one that begins with `1. `."""
    words = first_words(data)
    return any(detector.box.unless.match(f"{mark} {words}") for mark in MARKS)


def mode(detector: Detector, lines: list[str]) -> str:
    """The mode of the input box in which Enter does something else than to submit a prompt, such as `shell`; or "".
    Its mark stands before the text, or is the note in the box."""
    found = find_box(detector.box, lines) if detector.box.modes else None
    inner = _inside(detector.box, lines, found) if found else []
    if inner and detector.box_note and detector.box_note.fullmatch(inner[-1]):
        return detector.box.modes.get(inner[-1].strip(EDGES), "")
    first = inner[0].strip(EDGES) if inner else ""
    return detector.box.modes.get(first[:1], "") if first[1:2] in ("", " ", "\xa0") else ""


def is_empty(detector: Detector, lines: list[str], cursor: tuple[int, int]) -> bool | None:
    """Whether nothing is typed in the box: it is blank or holds a placeholder or, in agents that suggest a prompt
    there, the cursor stands before the text. None when there is no box."""
    text = content(detector, lines)
    if not text:
        return None if text is None else True
    if detector.placeholder and detector.placeholder.fullmatch(" ".join(text.split())):
        return True
    x, y = cursor
    return bool(detector.suggests and y < len(lines) and not lines[y][:x].strip(EDGES + MARKS) and lines[y][x:].strip())


def holds(text: str | None, data: bytes) -> bool:
    """Whether a box with this content holds our text, and nothing else. A box may show only a part of a long one, or a
    note that it was pasted."""
    words = first_words(data)
    if not text or not words:
        return False
    shown, ours = _bare(text.lstrip(COMMANDS)), _bare(data.decode(errors="replace").lstrip(COMMANDS))
    if shown == ours:
        return True
    if len(data) <= WHOLE:
        return (b"\n" in data.strip() or len(data) > LONG_LINE) and bool(PASTED.fullmatch(text))
    return len(shown) >= WORDS and shown in ours or text.lower().lstrip("[ ").startswith("pasted")


def first_words(data: bytes) -> str:
    """The beginning of a text, as seen in one line of a screen. A leading mark may be shown as a mode of the box."""
    words = data.decode(errors="replace").strip().split("\n")[0].lstrip(COMMANDS)[:WORDS]
    return (words if words.isascii() else words[: WORDS // 2]).strip()


def count(words: str, lines: list[str]) -> int:
    """How many of these lines have the words. An agent may draw a prompt as Markdown, without its marks or with
    others."""
    bare = _bare(words.translate(MARKDOWN))
    return sum(bare in _bare(line.translate(MARKDOWN)) for line in lines) if bare else 0


def _bare(text: str) -> str:
    """Without blanks, so that it does not matter where a line was broken."""
    return "".join(text.split())


# A text that was submitted to a program: what we did is evidence, until the program shows what came of it.

TURN, ENDED, DIALOG, PASSED = "turn", "over", "dialog", "passed"
"""What became of it: a turn is running; was over before it was seen; a dialog came; the program is one in which no
more can be known."""


class Submission:
    """`turn` is the number that its turn will have. `limit` is how many milliseconds to wait for a sign of it."""

    def __init__(self, data: bytes, now: int, *, turn: int, limit: int, output: int, seen: int, stopped: int) -> None:
        self.at = now
        self.data = data
        self.words = first_words(data)
        self.is_command = bool(COMMAND.match(data))
        self.turn = turn
        self.limit = limit
        self.output = output  # bytes that the program had written by then
        self.seen = seen  # lines above the box that had these words already
        self.stopped = stopped  # for how long the program had been stopped until then
        self.outcome = ""
        self.lost = False  # the text still stood in the box when the time was over, so Enter was not taken
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
    mine.confirmed = turns >= mine.turn or count(mine.words, seen.lines) > mine.seen
    if seen.verdict.state in states.WAITING:
        return DIALOG
    mine.confirmed = True
    if seen.verdict.state in states.AT_WORK:
        return TURN
    if turns >= mine.turn:
        return ENDED
    if (
        report
        and report.at >= mine.at
        and report.state in (("done", "error") if detector else ("done", "error", "idle"))
    ):
        return ENDED
    if detector is None:
        moved = report is None and seen.output > mine.output and seen.quiet >= QUIET
        return (ENDED if seen.verdict.state == states.IDLE else PASSED) if moved else ""
    return ENDED if _answered(mine, seen, detector) else ""


def _answered(mine: Submission, seen: AfterEnter, detector: Detector) -> bool:
    """Whether the text has moved from the box to the transcript, with an answer below it. A command, such as /clear,
    needs no answer: its box is empty."""
    if holds(content(detector, seen.lines), mine.data) or seen.output <= mine.output:
        return False
    if mine.is_command:
        return bool(is_empty(detector, seen.lines, seen.cursor)) and seen.quiet >= COMMAND_TAKEN
    above = transcript(detector, seen.lines)
    if not mine.words or count(mine.words, above) <= mine.seen:
        return False
    last = max(number for number, line in enumerate(above) if count(mine.words, [line]))
    return any(detector.block.match(line) and not detector.prompt.match(line) for line in above[last + 1 :] if line)


def transcript(detector: Detector, lines: list[str]) -> list[str]:
    """The lines above the input box."""

    found = find_box(detector.box, lines)
    return lines[: found[0]] if found else []
