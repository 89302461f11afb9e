"""Turns events into terminal text: finished blocks, which scroll away, and a live part, which is redrawn."""

import io
import re
import time
from collections.abc import Callable, Sequence
from difflib import SequenceMatcher
from typing import Any, ClassVar

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.markdown import CodeBlock, Heading, Markdown, MarkdownElement
from rich.padding import Padding
from rich.syntax import Syntax
from rich.text import Text
from rich.theme import Theme

from treadle import events
from treadle.cli.render import brief, first_line, one_line, printable, retrying
from treadle.sessions.totals import TurnSummary

# Markdown that is still being written: which part is finished, and how it looks on a terminal.

PROSE_LINES = 40
"""How many lines of an unfinished block are drawn: more would not fit, and redrawing all for each word is slow."""
ITEM = re.compile(r" {0,3}(?:[-*+]|\d+[.)])\s")
FENCE = re.compile(r"`{3,}|~{3,}")
BLANK = re.compile(r"(?:\x1b\[[0-9;]*m|\s)*")


class _Heading(Heading):
    LEVEL_ALIGN: ClassVar = {}


class _Code(CodeBlock):
    """A code block without a margin, so that it can be copied."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield Syntax(str(self.text).rstrip(), self.lexer_name, theme=self.theme, word_wrap=True)


class Prose(Markdown):
    elements: ClassVar[dict[str, type[MarkdownElement]]] = {
        **Markdown.elements,
        "heading_open": _Heading,
        "fence": _Code,
        "code_block": _Code,
    }

    def __init__(self, text: str, theme: str = "dark") -> None:
        super().__init__(text.strip("\n"), code_theme=f"ansi_{theme}", hyperlinks=False)


def trimmed(drawn: str) -> str:
    """Remove blank lines at both ends, also those that hold only invisible characters."""
    lines = drawn.split("\n")
    while lines and BLANK.fullmatch(lines[-1]):
        lines.pop()
    while lines and BLANK.fullmatch(lines[0]):
        lines.pop(0)
    return "\n".join(lines)


def finished(text: str) -> int:
    """How far the look of the text is final: up to a blank line outside of a code block, or the end of a code block.

    In a list this is known only once the next line is there: an indented line still belongs to the item.
    """
    end = at = last = 0
    fence, item = "", False
    for line in text.split("\n")[:-1]:
        if line.strip() and not line[0].isspace():
            end, item = max(end, last), ITEM.match(line) is not None
        at += len(line) + 1
        opens = _fence(line)
        if fence:
            closed = opens.startswith(fence) and not line.strip().strip(fence[0])
            fence = "" if closed else fence
            last = at if closed else last
        elif opens:
            fence = opens
        elif not line.strip():
            last = at
        if not item and not fence:
            end = max(end, last)
    rest = text[at:]
    return last if rest and not rest[0].isspace() and not fence else end


def unfinished(text: str) -> str:
    """The end of a block that is still being written, drawn as it will look when it is finished."""
    lines = text.split("\n")
    if len(lines) <= PROSE_LINES:
        return text
    fence = ""
    for line in lines[:-PROSE_LINES]:
        opens = _fence(line)
        if fence and opens.startswith(fence[: len(opens)]) and not line.strip().strip(fence[0]):
            fence = ""
        elif not fence and opens:
            fence = line.strip()
    return "\n".join([*([fence] if fence else []), *lines[-PROSE_LINES:]])


def _fence(line: str) -> str:
    found = FENCE.match(line.strip())
    return found[0] if found else ""


# What a turn is waiting for right now, and for how long.

OUTPUT_TAIL = 8 << 10
SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"


class Progress:
    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._what = ""
        self._since = clock()
        self._tools: dict[str, str] = {}
        self._output: dict[str, str] = {}

    def begin(self, what: str = "the model") -> None:
        """A prompt was sent; nothing has come back yet."""
        self._wait_for(what)

    def end(self) -> None:
        self._what = ""
        self._tools.clear()
        self._output.clear()

    def feed(self, event: events.AnyEvent) -> None:
        match event:
            case events.TurnStarted() | events.Usage() | events.Answered():
                self._wait_for(self._running() or "the model")
            case events.ThinkingDelta():
                self._wait_for("the model, thinking")
            case events.TextDelta():
                self._wait_for("the model, writing")
            case events.ToolStarted():
                self._tools[event.call] = event.name
                self._wait_for(self._running())
            case events.ToolOutput():
                self._output[event.call] = (self._output.get(event.call, "") + event.text)[-OUTPUT_TAIL:]
            case events.ToolEnded():
                self._tools.pop(event.call, None)
                self._output.pop(event.call, None)
                self._wait_for(self._running() or "the model")
            case events.Asked():
                self._wait_for("you")
            case events.Retrying():
                self._wait_for(f"another try, after {event.delay_ms / 1000:.0f} s")
            case events.TurnEnded() if event.parent is None:
                self.end()
            case _:
                pass

    def output(self, call: str) -> str:
        return self._output.get(call, "")

    @property
    def active(self) -> bool:
        return bool(self._what)

    def says(self) -> str:
        """Such as `⠹ waiting for the model 0:07 (Esc interrupts)`; empty when nothing is awaited."""
        if not self._what:
            return ""
        seconds = self._clock() - self._since
        ends = "" if self._what == "you" else " (Esc interrupts)"
        return f"{SPINNER[int(seconds * 8) % len(SPINNER)]} waiting for {self._what} {clock_words(seconds)}{ends}"

    def _running(self) -> str:
        return ", ".join(self._tools.values())

    def _wait_for(self, what: str) -> None:
        if what != self._what:
            self._what, self._since = what, self._clock()


def clock_words(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes}:{rest:02}"


DIFF_LINES = 24
MOST_CALLS = 50
MOST_BYTES = 256 << 10
LIVE_LINES = 12
STYLES = {"markdown.code": "cyan", "markdown.code_block": "cyan", "markdown.item.number": "bold"}
"""Code has no background of its own, because terminals may be light or dark."""
BOXES = {"pending": "☐", "in_progress": "◐", "completed": "☑"}
SPOKEN = {"●": "tool:", "└": "result:", "✗": "failed:", "↻": "retry:", "!": "note:", "◇": "task:", "✻": ""}
"""Words that replace the marks where the text may be read aloud."""
SPOKEN_BOXES = {"pending": "to do:", "in_progress": "doing:", "completed": "done:"}
PROMPT_LINES = 12


class Folded:
    """Something shown folded to one line; a key unfolds it."""

    def __init__(self, title: str, text: str) -> None:
        self.title = title
        self.text = text[:MOST_BYTES]


class Page:
    """Takes events, and returns what is finished as coloured text, and what is live now.

    With `flowing` nothing is ever live: text is printed as it streams, and a tool call when it starts.
    """

    def __init__(
        self,
        width: Callable[[], int],
        *,
        colour: bool = True,
        flowing: bool = False,
        clock: Callable[[], float] = time.monotonic,
        progress: Progress | None = None,
    ) -> None:
        self._width = width
        self._colour = colour
        self._flowing = flowing
        self.progress = progress or Progress(clock)
        self.theme = "dark"
        """Which colours code has: `dark` or `light`, as the terminal is."""
        self._text = ""
        self._streamed = False
        self._open_line = False
        self._thinking = ""
        self._thinking_since: float | None = None
        self._clock = clock
        self._calls: dict[str, events.ToolStarted] = {}
        self._asking: dict[str, str | None] = {}
        """Open questions, and the calls that wait for their answers."""
        self._changed: dict[str | None, str] = {}
        """How many lines each call added and removed."""
        self._tight = False
        """Whether the line above has text on it."""
        self.folded: list[Folded] = []
        self.seen: set[str | None] = set()
        """Calls whose diff was already shown with the question."""

    # Drawing

    def draw(self, *what: RenderableType) -> str:
        """Anything that rich can draw, as text of this page's width, without trailing spaces."""
        out = io.StringIO()
        console = Console(
            file=out,
            width=max(self._width(), 20),
            force_terminal=self._colour,
            no_color=not self._colour,
            color_system="standard" if self._colour else None,
            highlight=False,
            emoji=False,
            markup=False,
            legacy_windows=False,
            theme=Theme(STYLES),
        )
        for one in what:
            console.print(one)
        return "\n".join(line.rstrip(" ") for line in out.getvalue().split("\n"))

    def note(self, style: str, text: str, indent: int = 0) -> str:
        shown = Text(printable(text), style=style)
        return self.draw(Padding(shown, (0, 0, 0, indent)) if indent else shown)

    def prompt(self, text: str) -> str:
        """What the person said; a long paste is cut to its beginning."""
        if self._flowing:
            return ""  # it stands there as it was typed
        lines = text.split("\n")
        more = len(lines) - PROMPT_LINES
        shown = "\n".join(lines[:PROMPT_LINES]) if more > 1 else text
        self._tight = False
        return self.note("bold", f"> {shown}") + (self.note("dim", f"  … {more} more lines") if more > 1 else "") + "\n"

    def waits(self) -> str:
        """Say that the model was asked, for output that shows no live progress."""
        return self.note("dim", "waiting for the model") if self._flowing else ""

    def gap(self) -> str:
        """A blank line, unless there is one already."""
        tight, self._tight = self._tight, False
        return "\n" if tight else ""

    def _mark(self, mark: str) -> str:
        return SPOKEN[mark] if self._flowing else mark

    # Events

    def feed(self, event: events.AnyEvent) -> str:
        """What this event finishes, ready to print; often nothing."""
        self.progress.feed(event)
        if event.parent is not None:
            return ""
        if isinstance(event, events.TextDelta):
            self._streamed = True
            self._open_line = not event.text.endswith("\n") if event.text else self._open_line
            self._text += printable(event.text)
            return self._end_thinking() + self._finished_blocks()
        if isinstance(event, events.ThinkingDelta):
            if self._thinking_since is None:
                self._thinking_since = self._clock()
            self._thinking += printable(event.text)
            return ""
        if isinstance(event, events.Message):
            return self._message(event)
        done = self._end_thinking() + self._end_text()
        other = self._other(event)
        self._tight = bool(other) or self._tight
        return done + other

    def _message(self, event: events.Message) -> str:
        if event.kind == "thinking":
            if any(one.text == printable(event.text) for one in self.folded[-1:]):
                return ""  # it was shown as it streamed, and the text after it has begun
            self._thinking = self._thinking or printable(event.text)
            return self._end_thinking()
        if not self._streamed:
            self._text = printable(event.text)
        self._streamed = False
        return self._end_thinking() + self._end_text()

    def _end_thinking(self) -> str:
        text, self._thinking = self._thinking, ""
        since, self._thinking_since = self._thinking_since, None
        if not text.strip():
            return ""
        seconds = self._clock() - since if since is not None else 0.0
        took = f" for {seconds:.0f} s" if seconds >= 0.5 else ""
        self._fold(f"thought{took}", text)
        return self.note("dim italic", f"thought{took}" if self._flowing else f"✻ thought{took} (Ctrl-O shows it)")

    def _finished_blocks(self) -> str:
        """Cut at the last blank line outside of a code block: what comes before can no longer change."""
        end = len(self._text) if self._flowing else finished(self._text)
        done, self._text = self._text[:end], self._text[end:]
        return done if self._flowing else self._block(done)

    def _end_text(self) -> str:
        done, self._text = self._text, ""
        if self._flowing:
            ended, self._open_line = done + "\n" if done or self._open_line else "", False
            return ended
        return self._block(done)

    def _block(self, text: str) -> str:
        drawn = self._markdown(text)
        return self.gap() + drawn if drawn else ""

    def _markdown(self, text: str) -> str:
        if not text.strip():
            return ""
        return trimmed(self.draw(Prose(text, self.theme))) + "\n\n"

    def _other(self, event: events.AnyEvent) -> str:
        match event:
            case events.ToolStarted():
                self._calls[event.call] = event
                what = f"{self._mark('●')} {one_line(event.name + ' ' + brief(event))}"
                return self.note("cyan", what) if self._flowing else ""
            case events.ToolEnded():
                return self._tool(event)
            case events.ToolDenied():
                denied = f"{event.name} was not allowed: {event.reason}"
                return self.note("yellow", denied if self._flowing else f"✗ {denied}")
            case events.FileChanged():
                self._changed[event.call] = _counted(event.diff)
                return "" if event.call in self.seen else self.diff(event.diff, DIFF_LINES)
            case events.Asked():
                self._asking[event.request] = event.call
                return ""
            case events.Answered():
                self._asking.pop(event.request, None)
                return ""
            case events.Retrying():
                return self.note("yellow", f"{self._mark('↻')} {retrying(event)}")
            case events.Warned(message=message):
                return self.note("yellow", f"{self._mark('!')} {message}")
            case events.ContextPruned() | events.ContextCompacted():
                word = "pruned" if isinstance(event, events.ContextPruned) else "compacted"
                return self.note("dim", f"context {word}: {event.tokens_before} -> {event.tokens_after} tokens")
            case events.ContextHandoff(to=str(agent)) if agent:
                return self.note("dim", f"{agent} continues, with a summary of the work so far")
            case events.ContextHandoff():
                return self.note("dim", "the conversation no longer fitted; it restarts with a summary")
            case events.TaskChanged(task=task) if task is not None and event.change != "updated":
                return self.note("dim", f"{self._mark('◇')} {task.id} ({task.label}) {event.change}")
            case events.Failed(error=error):
                return self.note("red", f"error: {error.message}")
            case events.TurnEnded(outcome="interrupted"):
                return self.note("yellow", "interrupted")
            case _:
                return ""

    def _tool(self, event: events.ToolEnded) -> str:
        started = self._calls.pop(event.call, None)
        what = f"{event.name} {brief(started)}" if started else event.name
        self._fold(what, event.result)
        if event.name == "todo" and started is not None and isinstance(started.args, dict):
            return self._todo(started.args.get("todos"))
        if self._flowing:
            mark = "└" if event.ok else "✗"
            return self.note("dim" if event.ok else "red", f"  {self._mark(mark)} {first_line(event.result)}")
        lines = event.result.strip().count("\n") + 1 if event.result.strip() else 0
        size = f"{lines} lines" if lines > 1 else one_line(event.result.strip())[:60] or "nothing"
        size = self._changed.pop(event.call, "") or size if event.ok else size
        mark, style = ("●", "cyan") if event.ok else ("✗", "red")
        line = Text(f"{mark} {one_line(what)}", style=style, overflow="ellipsis", no_wrap=True)
        line.truncate(max(self._width() - len(size) - 5, 20), overflow="ellipsis")
        return self.draw(Text.assemble(line, (f"  └ {size}", "dim" if event.ok else "red")))

    def _todo(self, items: Any) -> str:
        rows = [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []
        text = Text()
        boxes = SPOKEN_BOXES if self._flowing else BOXES
        for item in rows:
            done = item.get("status") == "completed"
            mark = boxes.get(str(item.get("status", "pending")), boxes["pending"])
            text.append(f"  {mark} {one_line(str(item.get('content', '')))}\n", style="dim strike" if done else "")
        return self.draw(text) if rows else ""

    def diff(self, text: str, most: int | None = None) -> str:
        """A unified diff in colours, with line numbers and marked changes, without its file headers."""
        lines = [line for line in printable(text).split("\n") if line and not line.startswith(("---", "+++"))]
        shown = lines if most is None else lines[:most]
        drawn = [Padding(line, (0, 0, 0, 4)) for line in _numbered(shown)]
        if len(shown) < len(lines):
            drawn.append(Padding(Text(f"… {len(lines) - len(shown)} more lines", style="dim"), (0, 0, 0, 4)))
        return self.draw(*drawn) if drawn else ""

    def total(self, summary: TurnSummary) -> str:
        """One line on what the turn took."""
        usage = summary.usage
        cost = "cost ?" if usage.cost_usd is None else f"${usage.cost_usd:.4f}"
        about = "about " if usage.estimated else ""
        tokens = f"{about}{usage.prompt_tokens} tokens in, {usage.output_tokens} out · {cost}"
        count = tokens if usage.calls else "tokens unknown"
        calls = _many(len(summary.tools), "tool")
        if summary.iterations:  # agents over ACP do not report how often they called their model
            calls = f"{_many(summary.iterations, 'model call')} · {calls}"
        return self.note("dim", f"{summary.total_ms / 1000:.1f} s · {calls} · {count}") + "\n"

    def _fold(self, title: str, text: str) -> None:
        self.folded.append(Folded(title, printable(text)))
        del self.folded[:-MOST_CALLS]

    # What is live now

    def live(self) -> str:
        """The unfinished paragraph, the thinking, running tools with the end of their output, and what is awaited."""
        parts = []
        if self._thinking.strip():
            parts.append(self.draw(Text(_tail(self._thinking, 3), style="dim italic")))
        if self._text.strip():
            parts.append(self._markdown(unfinished(self._text)))
        for call in self._calls.values():
            if call.call in self._asking.values():
                continue  # it has not begun; the question shows what it is about
            parts.append(self.note("cyan", f"◐ {one_line(call.name + ' ' + brief(call))}"))
            if output := self.progress.output(call.call):
                parts.append(self.draw(Padding(Text(printable(_tail(output, 5)), style="dim"), (0, 0, 0, 4))))
        if waiting := self.progress.says():
            parts.append(self.note("dim", waiting))
        lines = "".join(parts).rstrip("\n").split("\n")
        return "\n".join(lines[-LIVE_LINES:])


def _many(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


HUNK = re.compile(r"@@ -(\d+)(?:,\d+)? \+(\d+)")
DIFF_STYLES = {"+": "green", "-": "red", "@": "cyan"}


def _numbered(lines: Sequence[str]) -> list[Text]:
    """The lines of a diff, each with its number: a removed one with that in the old file, others with that in the new
    one. Of lines that replace as many others, the changed characters are marked."""
    drawn: list[Text] = []
    old = new = 0
    removed: list[Text] = []
    added: list[Text] = []
    for line in [*lines, ""]:
        sign = line[:1]
        if sign != "+" and (added or sign != "-"):
            if len(removed) == len(added):
                for pair in zip(removed, added, strict=True):
                    _mark_changes(*pair)
            removed, added = [], []
        if found := HUNK.match(line):
            old, new = int(found[1]), int(found[2])
        number = "" if found else str(old if sign == "-" else new)
        text = Text().append(f"{number:>4} ", style="dim").append(line, style=DIFF_STYLES.get(sign, "dim"))
        drawn.append(text)
        if sign in "+-" and sign:
            (added if sign == "+" else removed).append(text)
        old, new = old + (sign in ("-", " ")), new + (sign in ("+", " "))
    return drawn[:-1]


def _mark_changes(removed: Text, added: Text) -> None:
    begin = 6  # after the number and the sign
    matcher = SequenceMatcher(None, removed.plain[begin:], added.plain[begin:], autojunk=False)
    if len(removed) + len(added) > 600 or matcher.ratio() < 0.5:
        return
    for kind, left, left_end, right, right_end in matcher.get_opcodes():
        if kind != "equal":
            removed.stylize("reverse", begin + left, begin + left_end)
            added.stylize("reverse", begin + right, begin + right_end)


def _counted(diff: str) -> str:
    lines = [line for line in diff.split("\n") if not line.startswith(("+++", "---"))]
    counts = {sign: sum(line.startswith(sign) for line in lines) for sign in "+-"}
    return " ".join(f"{sign}{count}" for sign, count in counts.items() if count)


def _tail(text: str, lines: int) -> str:
    return "\n".join(text.rstrip("\n").split("\n")[-lines:])
