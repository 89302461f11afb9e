"""What a person sees and types: finished text scrolls up; the live part, input and status line stay at the bottom."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import shutil
import sys
import textwrap
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Protocol

from prompt_toolkit.application import Application, in_terminal
from prompt_toolkit.application.current import get_app
from prompt_toolkit.auto_suggest import AutoSuggestFromHistory
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.enums import EditingMode
from prompt_toolkit.filters import Condition, has_focus, vi_insert_mode
from prompt_toolkit.formatted_text import ANSI, StyleAndTextTuples
from prompt_toolkit.history import History
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.layout import ConditionalContainer, HSplit, Layout, Window
from prompt_toolkit.layout.controls import BufferControl, FormattedTextControl
from prompt_toolkit.layout.dimension import Dimension
from prompt_toolkit.layout.menus import CompletionsMenu
from prompt_toolkit.layout.processors import BeforeInput
from prompt_toolkit.output import ColorDepth, DummyOutput
from prompt_toolkit.styles import Style
from prompt_toolkit.utils import get_cwidth
from prompt_toolkit.widgets import SearchToolbar

from treadle.agent.question import diff_of
from treadle.agent.stored_sessions import ListedSession, list_sessions
from treadle.agent.transcript import BackedUp, TurnTrees
from treadle.cli.chat.page import Progress, clock_words
from treadle.cli.chat.question import Question, confinement_words, touched
from treadle.cli.chat.talk import Picker
from treadle.cli.render import printable
from treadle.errors import ConfigError, NotFound
from treadle.events import Asked
from treadle.io.files import write_atomic
from treadle.io.paths import private_dir, state_dir
from treadle.io.process.programs import find_outside, run_program
from treadle.session import Answer, Choosing, CommandInfo, Session
from treadle.settings.config import ChatSettings

if TYPE_CHECKING:
    from treadle.cli.chat.page import Page
    from treadle.cli.chat.talk import Talk


# The image in the clipboard, as a file that a prompt can name.

READERS = (
    ("wl-paste", "--type", "image/png"),
    ("xclip", "-selection", "clipboard", "-target", "image/png", "-out"),
    ("pngpaste", "-"),
)
"""Programs that print the image: for Wayland, X11 and macOS."""
PNG = b"\x89PNG\r\n\x1a\n"
SECONDS = 5.0


def save_image() -> str:
    """The path of a new file with the clipboard's image."""
    there = [(find_outside(reader[0]), reader) for reader in READERS]
    there = [(path, reader) for path, reader in there if path is not None]
    if not there:
        names = ", ".join(reader[0] for reader in READERS)
        raise ConfigError("the clipboard cannot be read here", hint=f"install one of {names}; or name a file: @x.png")
    for path, reader in there:
        found = run_program([str(path), *reader[1:]], cwd="/", timeout=SECONDS)
        if found.code == 0 and found.stdout.startswith(PNG):
            folder = private_dir(os.path.join(state_dir(), "pasted"))
            file = os.path.join(folder, time.strftime("%Y%m%d-%H%M%S") + f"-{os.urandom(2).hex()}.png")
            write_atomic(file, found.stdout)
            return file
    raise NotFound("the clipboard contains no image")


# What Tab offers: slash commands and their arguments at the start of the line, files after an @.

AT = re.compile(r"(?:^|(?<=\s))@([^\s@]*)$")


class ChatCompleter(Completer):
    def __init__(self, cwd: str, commands: Callable[[], Sequence[CommandInfo]] = tuple) -> None:
        self.commands = commands
        self._cwd = cwd
        self._files: list[str] | None = None

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        before = document.text_before_cursor
        if before.startswith("/") and " " not in before and "\n" not in before:
            yield from self._slash(before[1:])
        elif found := AT.search(before):
            yield from self._paths(found[1])

    def _slash(self, begun: str) -> Iterable[Completion]:
        for command in sorted(self.commands(), key=lambda one: one.name):
            if command.name.startswith(begun):
                meta = " ".join(filter(None, [command.arguments, command.description]))
                yield Completion(command.name, -len(begun), display=f"/{command.name}", display_meta=meta)

    def _paths(self, begun: str) -> Iterable[Completion]:
        from treadle.workspace import uncommitted  # imported here because few lines name a file

        if self._files is None or not begun:  # files come and go, so each new @ lists them again
            self._files = uncommitted.listed(self._cwd)
        for path in uncommitted.matching(self._files, begun):
            yield Completion(path, -len(begun))


# `/model` and `/resume` without an argument: choose from a list.

Choose = Callable[[str, Sequence[tuple[str, str]]], Awaitable[str | None]]
"""Show (value, label) pairs under a title. Returns the chosen value, or None when the person chose nothing."""
MOST = 50
SHOWN = 3
"""How many files of a turn are named."""


def pickers(session: Session, choose: Choose, cwd: str) -> dict[str, Picker]:
    async def model(_: str) -> str | None:
        if isinstance(session, Choosing):
            return await choose("Which model?", [(one.id, one.name) for one in (await session.menu()).offered])
        known = dict.fromkeys([*session.info.models, *(entry.model for entry in await _entries(cwd))])
        return await choose("Which model?", [(name, name) for name in known if name])

    async def resume(_: str) -> str | None:
        entries = [entry for entry in await _entries(cwd) if entry.id != session.id and entry.turns]
        rows = []
        for entry in entries[:MOST]:
            when = time.strftime("%Y-%m-%d %H:%M", time.localtime(entry.updated))
            title = entry.name or " ".join(entry.prompt.split())[:60]
            rows.append((entry.id, f"{when}  {entry.turns:3} turns  {title}"))
        return await choose("Which session?", rows)

    async def rewind(_: str) -> str | None:
        turns = rewindable(session, cwd)
        rows = [(str(number), f"{number:3}  {prompt}{_files(files)}") for number, prompt, files in turns]
        chosen = await choose("Go back to before which turn?", rows)
        if chosen is None or not chosen.isdigit():
            return None
        later = dict.fromkeys(file for number, _, files in turns if number >= int(chosen) for file in files)
        if not later:
            return chosen
        options = [("", f"with the files as they were then:{_files(list(later))}"), ("--keep-files", "keep the files")]
        keep = await choose("And the files?", options)
        return None if keep is None else f"{chosen} {keep}".strip()

    return {"model": model, "resume": resume, "rewind": rewind}


def rewindable(session: Session, cwd: str) -> list[tuple[int, str, list[str]]]:
    """The turns that one can go back to: number, prompt, and the files that each changed first."""
    from treadle.agent.session import NativeSession

    if not isinstance(session, NativeSession):
        return []
    changed: dict[str, list[str]] = {}
    for record in session.transcript.records:
        if isinstance(record, BackedUp):
            changed.setdefault(record.turn, []).append(os.path.relpath(record.path, cwd))
        elif isinstance(record, TurnTrees) and record.before != record.after:
            changed.setdefault(record.turn, ["what commands changed"])
    turns = enumerate(session.transcript.turns(), 1)
    return [(number, " ".join(turn.prompt.split())[:60], changed.get(turn.turn, [])) for number, turn in turns]


def _files(names: list[str]) -> str:
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return f"  ({', '.join(names[:SHOWN])}{more})" if names else ""


async def _entries(cwd: str) -> Sequence[ListedSession]:
    return await asyncio.to_thread(list_sessions, cwd)


INPUT_LINES = 10
FRAMES = 12
"""How many times a second the live part is redrawn while something runs."""
CALM = 0.8
"""A question takes keys only after this many seconds without one: typing for the agent must not answer it."""
OPTIONS = 8
GLANCE = 0.2
"""How many seconds a question is shown before it takes keys."""
STYLE = Style.from_dict(
    {"status": "ansibrightblack", "queued": "ansibrightblack", "keys": "bold", "problem": "ansired"}
)


AGAIN = 2.0
"""A second Ctrl-C within this many seconds leaves the chat."""


class Actions(Protocol):
    """What a person can do with a conversation."""

    @property
    def busy(self) -> bool: ...
    def enter(self, text: str) -> None: ...
    def queue(self, text: str) -> None: ...
    def unqueue(self) -> str | None: ...
    def interrupt(self) -> bool: ...
    def next_mode(self) -> None: ...
    def leave(self) -> None: ...
    def quit(self) -> None: ...
    async def rest(self) -> None:
        """Wait until nothing runs and nothing is queued."""
        ...


class ChatScreen:
    """The View on a terminal. `actions` is what the keys do; it is set before `run`."""

    actions: Actions
    glance = GLANCE + 0.05
    plain = False

    def __init__(
        self,
        progress: Progress,
        *,
        history: History,
        completer: ChatCompleter,
        status: Callable[[], Sequence[str]],
        colour: bool,
        settings: ChatSettings,
    ) -> None:
        self.progress = progress
        self.remapped: Mapping[str, str] = settings.keys
        self.page: Page | None = None
        """What draws the conversation, once there is one."""
        self.shown = asyncio.Event()
        """Set when the input is on the screen."""
        self._completer = completer
        self.question: Question | None = None
        self.queued: Callable[[], Sequence[str]] = tuple
        self.hint = ""
        self._answer: asyncio.Future[Answer] | None = None
        self._status = status
        self._typed_at = 0.0
        """When the person last changed the text in the input."""
        self._asked_at = 0.0
        self._unprinted: list[str] = []
        self._something = asyncio.Event()
        self._opened = 0
        search = SearchToolbar()
        self.input = Buffer(
            history=history,
            completer=completer,
            complete_while_typing=True,
            auto_suggest=AutoSuggestFromHistory(),
            multiline=True,
            enable_history_search=False,
            tempfile_suffix=".md",
        )
        self.field = Buffer(multiline=True, name="answer")
        self.app: Application[None] = Application(
            layout=self._layout(search),
            key_bindings=bindings(self),
            style=STYLE,
            color_depth=None if colour else ColorDepth.DEPTH_1_BIT,
            erase_when_done=True,
        )
        if settings.vim:
            self.app.editing_mode = EditingMode.VI
        self.app.renderer.cpr_not_supported_callback = None  # a terminal that is slow to answer is no news to a person
        self.app.ttimeoutlen = 0.05
        self.app.timeoutlen = 0.3
        self.app.before_render += self._bounded
        self.app.after_render += lambda _: self.shown.set()
        self.app.key_processor.before_key_press += lambda _: self.touched()
        self.input.on_text_changed += lambda _: self.typed()

    def connect(self, talk: Talk) -> None:
        """Show a conversation from now on."""
        self.actions, self.page = talk, talk.page
        self._status = talk.status.words
        self.queued = lambda: list(talk.queued)
        self._completer.commands = lambda: talk.session.commands()

    def pickers(self, session: Session, cwd: str) -> dict[str, Picker]:

        return pickers(session, self.choose, cwd)

    # Layout

    def _layout(self, search: SearchToolbar) -> Layout:
        asking = Condition(lambda: self.question is not None)
        answering = Condition(lambda: self.question is not None and self.question.want != "keys")
        self._input = Window(
            BufferControl(self.input, [BeforeInput("> ")], search_buffer_control=search.control, preview_search=True),
            height=Dimension(min=1, max=INPUT_LINES),
            wrap_lines=True,
            dont_extend_height=True,
        )
        self._field = Window(
            BufferControl(self.field, [BeforeInput("? ")]),
            height=Dimension(min=1, max=INPUT_LINES),
            wrap_lines=True,
            dont_extend_height=True,
        )
        body = HSplit(
            [
                _text(self._live, Condition(lambda: self.progress.active)),
                _text(self._queued, Condition(lambda: bool(self.queued()))),
                _text(self._keys, asking),
                ConditionalContainer(self._field, answering),
                ConditionalContainer(self._input, ~answering),
                # In the flow and not floating: a menu that floats has only the rows that are left below the cursor.
                CompletionsMenu(max_height=OPTIONS),
                search,
                _text(self._line, Condition(lambda: True)),
            ]
        )
        return Layout(body, focused_element=self._input)

    def _live(self) -> ANSI:
        return ANSI(self.page.live() if self.page is not None else self.progress.says())

    def _queued(self) -> StyleAndTextTuples:
        rows: StyleAndTextTuples = [("class:queued", f"  next: {_first(text)}") for text in self.queued()]
        return [part for row in rows[-5:] for part in (row, ("", "\n"))][:-1]

    def _keys(self) -> StyleAndTextTuples:
        assert self.question is not None
        parts: StyleAndTextTuples = [("class:keys", wrapped(self.question.keys))]
        if self.question.rule:
            parts.append(("class:queued", f"\n{wrapped(self.question.rule)}"))
        for at, option in self._options(self.question):
            here = at == self.question.chosen
            parts.append(("class:keys" if here else "", f"\n{'❯' if here else ' '} {_first(option)}"))
        if self.question.problem:
            parts.append(("class:problem", f"\n{printable(self.question.problem)}"))
        return parts

    def _options(self, question: Question) -> list[tuple[int, str]]:
        """The options to show: those that match what was typed, near the selected one."""
        matching = list(enumerate(question.matching(self.field.text)))
        first = max(0, min(question.chosen - OPTIONS // 2, len(matching) - OPTIONS))
        return matching[first : first + OPTIONS] if question.want == "words" else []

    def _line(self) -> StyleAndTextTuples:
        left = [_left(self.question)] if self.question is not None and self.question.asked.deadline else []
        lines = self.input.document.line_count
        left += [f"{lines} lines typed"] if lines > INPUT_LINES else []
        return [("class:status", wrapped(self.hint or " · ".join([*left, *self._status()])))]

    def _bounded(self, app: Application[None]) -> None:
        """Never taller than the terminal, because prompt_toolkit would scroll the rest out of sight."""
        rows = app.output.get_size().rows
        for window in (self._input, self._field):
            window.height = Dimension(min=1, max=max(1, min(INPUT_LINES, rows - 4)))

    # The View

    def print(self, text: str) -> None:
        if text:
            self._unprinted.append(text)
            self._something.set()

    def changed(self) -> None:
        self.app.invalidate()

    def vim(self) -> bool:
        vim = self.app.editing_mode != EditingMode.VI
        self.app.editing_mode = EditingMode.VI if vim else EditingMode.EMACS
        return vim

    def paste_image(self) -> None:
        """Put the clipboard's image into a file, and its name into the input."""
        from treadle.errors import TreadleError

        try:
            self.input.insert_text(f"@{save_image()} ")
        except TreadleError as error:
            self.hint = str(error)
        self.app.invalidate()

    async def ask(self, question: Question) -> Answer:
        self._answer = asyncio.get_running_loop().create_future()
        self.print(self._whole(question))
        await self._print_now()  # no one may say yes to something that is not on the screen yet
        self.question, self._asked_at = question, time.monotonic()
        self.field.reset()
        self.focus()
        try:
            return await self._answer
        finally:
            self.question = self._answer = None
            self.focus()

    async def choose(self, title: str, rows: Sequence[tuple[str, str]]) -> str | None:
        """Let the person choose from (value, label) pairs; None when they choose nothing."""
        if not rows and self.page is not None:
            self.print(self.page.note("dim", f"{title} There is nothing to choose from.") + "\n")
            return None
        words = {label: value for value, label in rows}
        asked = Asked(request="", kind="question", text=title, options=tuple(words))
        try:
            answer = await self.ask(Question(asked, ""))
        except EOFError:
            return None
        return words.get(answer.text, answer.text) if answer.decision == "allow" else None

    def _whole(self, question: Question) -> str:
        """Everything that would happen: the whole command and its directory, or the whole diff."""
        asked, page = question.asked, self.page
        assert page is not None, "only a conversation asks questions"
        parts = [page.gap(), page.note("bold yellow", f"? {question.headline}")]
        if question.why:
            parts.append(page.note("yellow", question.why, 2))
        if asked.command:
            parts += [
                page.note("bold", asked.command, 2),
                page.note("dim", f"in {question.cwd}", 2),
                page.note("dim", touched(asked.command, question.cwd), 2),
            ]
            if asked.confined is not None:
                parts.append(page.note(*confinement_words(asked.confined), 2))
        elif diff := diff_of(asked, question.cwd):
            parts.append(page.diff(diff))
            page.seen.add(asked.call or "")
        elif asked.kind == "permission":
            parts.append(page.note("bold", f"{asked.name}: {', '.join(asked.paths) or asked.args or ''}", 2))
        return "".join(parts)

    # What the keys need

    @property
    def armed(self) -> bool:
        """Whether the key that was just pressed is meant for the question: the question has been visible for a
        moment, and the person was not in the middle of typing something else.
        """
        if self.question is None:
            return False
        now = time.monotonic()
        return now - self._asked_at > GLANCE and now - self._typed_at > CALM

    def touched(self) -> None:
        self.hint = ""

    def typed(self) -> None:
        self._typed_at = time.monotonic()

    def sent(self) -> None:
        """Note that the person finished typing: the next key is not part of it."""
        self._typed_at = 0.0

    def answered(self, answer: Answer | None) -> None:
        if answer is not None and self._answer is not None and not self._answer.done():
            self._answer.set_result(answer)
        self.focus()

    def move(self, by: int) -> None:
        if self.question is not None:
            self.question.move(by, self.field.text)

    def unfold(self) -> None:
        """Unfold the newest folded thing; called again, the one before it."""
        if self.page is None or self._opened >= len(self.page.folded):
            self.hint = "nothing more to show"
            self.app.invalidate()
            return
        self._opened += 1
        one = self.page.folded[-self._opened]
        self.print(self.page.note("bold", one.title) + self.page.note("dim", one.text.rstrip("\n") or "(nothing)"))

    def dismiss(self) -> bool:
        """Close the picker without choosing anything. False when no picker is open."""
        picking = self.question is not None and not self.question.asked.request
        if picking:
            self.give_up()
        return picking

    def give_up(self) -> None:
        """The person leaves while a question is open."""
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(EOFError())

    def focus(self) -> None:
        field = self.question is not None and self.question.want != "keys"
        if field and not self.field.text and self.question is not None:
            begun = self.question.begin()
            self.field.document = Document(begun, len(begun))
        if not field:
            self.field.reset()
        self.app.layout.focus(self._field if field else self._input)
        self.app.invalidate()

    # Running

    async def run(self) -> None:
        """Show the screen until `close`. What is printed meanwhile goes above it."""
        beside = [asyncio.create_task(self._printing()), asyncio.create_task(self._ticking())]
        try:
            await self.app.run_async(handle_sigint=False, set_exception_handler=False)
        finally:
            for task in beside:
                task.cancel()
            await asyncio.wait(beside)
            self._write()

    async def close(self) -> None:
        while self._unprinted and self.app.is_running:
            await self._print_now()
        if self.app.is_running:
            with contextlib.suppress(Exception):
                self.app.exit()

    async def _printing(self) -> None:
        while True:
            await self._something.wait()
            self._something.clear()
            await self._print_now()

    async def _print_now(self) -> None:
        if not self._unprinted:
            return
        async with in_terminal():
            self._write()

    def _write(self) -> None:
        text, self._unprinted = "".join(self._unprinted), []
        if text and not isinstance(self.app.output, DummyOutput):
            sys.stdout.write(text if text.endswith("\n") else text + "\n")
            sys.stdout.flush()

    async def _ticking(self) -> None:
        while True:
            await asyncio.sleep(1 / FRAMES)
            if self.progress.active or self.question is not None:
                self.app.invalidate()


def _text(content: Callable[[], object], shown: Condition) -> ConditionalContainer:
    control = FormattedTextControl(content, focusable=False)  # type: ignore[arg-type]
    return ConditionalContainer(Window(control, dont_extend_height=True, wrap_lines=True), shown)


def wrapped(text: str) -> str:
    """Wrap at words, to the width of the terminal."""
    return textwrap.fill(printable(text), max(shutil.get_terminal_size().columns, 20), break_on_hyphens=False)


def _first(text: str) -> str:
    line, room = printable(" ".join(text.split())), shutil.get_terminal_size().columns - 11
    if get_cwidth(line) <= room:
        return line
    while get_cwidth(line) > room:
        line = line[:-1]
    return line + "…"


def _left(question: Question) -> str:
    seconds = max((question.asked.deadline or 0) - time.time(), 0)
    return f"no answer is a no in {clock_words(seconds)}"


# What the keys do.

USUAL = {
    "mode": "s-tab",
    "unfold": "c-o",
    "editor": "c-g",
    "suspend": "c-z",
    "paste_image": "c-v",
    "new_line": "escape enter",
    "rewind": "escape escape",
    "verify": "f5",
    "keys": "?",
}
"""What a person can put on other keys, in the settings, and the keys that do it otherwise."""


def key_of(what: str, remapped: Mapping[str, str]) -> list[str]:
    return (remapped.get(what) or USUAL[what]).split()


def check_keys(remapped: Mapping[str, str]) -> None:
    """Raises ConfigError for something that cannot be put on a key, and for a key that does not exist."""
    for what, key in remapped.items():
        if what not in USUAL:
            raise ConfigError(f"[chat.keys] has {what!r}, which is not an action", hint=f"one of {', '.join(USUAL)}")
        try:
            KeyBindings().add(*key.split())(lambda event: None)
        except ValueError:
            hint = "written as c-t (Ctrl-T), s-tab, f5, or two with a space between"
            raise ConfigError(f"[chat.keys] {what} = {key!r} is not a key", hint=hint) from None


def bindings(screen: ChatScreen) -> KeyBindings:
    keys = KeyBindings()
    _question(keys, screen)
    _input(keys, screen)
    _ends(keys, screen)
    return keys


def _question(keys: KeyBindings, screen: ChatScreen) -> None:
    one_key = Condition(lambda: screen.armed and screen.question is not None and screen.question.want == "keys")
    field = has_focus(screen.field)
    choosing = Condition(lambda: screen.question is not None and bool(screen.question.asked.options))

    for key in "ysaneYSANE":

        @keys.add(key, filter=one_key, eager=True)
        def press(event: KeyPressEvent) -> None:
            assert screen.question is not None
            screen.answered(screen.question.press(event.key_sequence[0].data))

    @keys.add("enter", filter=one_key, eager=True)
    def wait(event: KeyPressEvent) -> None:
        screen.hint = "answer with one of the keys above; what you typed is kept"

    @keys.add("enter", filter=field, eager=True)
    def answer(event: KeyPressEvent) -> None:
        assert screen.question is not None
        screen.answered(screen.question.enter(screen.field.text))

    @keys.add("up", filter=field & choosing)
    def before(event: KeyPressEvent) -> None:
        screen.move(-1)

    @keys.add("down", filter=field & choosing)
    def after(event: KeyPressEvent) -> None:
        screen.move(1)


def _empty(buffer: Buffer, *, remember: bool = False) -> None:
    """The buffer loads its history when it is next drawn, too late for an arrow key that comes before: load it now."""
    buffer.reset(append_to_history=remember)
    buffer.load_history_if_not_yet_loaded()


def _take(screen: ChatScreen) -> str:
    text = screen.input.text
    _empty(screen.input, remember=True)
    screen.sent()
    return text


def _input(keys: KeyBindings, screen: ChatScreen) -> None:
    focused = has_focus(screen.input)
    later = Condition(lambda: screen.actions.busy and bool(screen.input.text.strip()))

    @keys.add("enter", filter=focused)
    def send(event: KeyPressEvent) -> None:
        buffer = screen.input
        if buffer.text.endswith("\\") and buffer.document.is_cursor_at_the_end:
            buffer.delete_before_cursor()
            buffer.newline(copy_margin=False)
            return
        screen.actions.enter(_take(screen))

    @keys.add(*key_of("new_line", screen.remapped), filter=focused | has_focus(screen.field))
    def new_line(event: KeyPressEvent) -> None:
        event.current_buffer.newline(copy_margin=False)

    @keys.add("tab", filter=focused & later)
    def queue(event: KeyPressEvent) -> None:
        screen.actions.queue(_take(screen))

    @keys.add("tab", filter=focused & ~later)
    def complete(event: KeyPressEvent) -> None:
        buffer = screen.input
        asked = CompleteEvent(completion_requested=True)
        found = list(islice(buffer.completer.get_completions(buffer.document, asked), 2))
        if len(found) == 1:
            buffer.apply_completion(found[0])
        elif buffer.complete_state:
            buffer.complete_next()
        else:
            buffer.start_completion(select_first=True)

    @keys.add("up", filter=focused & Condition(lambda: not screen.input.text and bool(screen.queued())))
    def take_back(event: KeyPressEvent) -> None:
        screen.input.insert_text(screen.actions.unqueue() or "")

    @keys.add(*key_of("editor", screen.remapped), filter=focused)
    def editor(event: KeyPressEvent) -> None:
        event.current_buffer.open_in_editor()

    @keys.add(*key_of("suspend", screen.remapped))
    def suspend(event: KeyPressEvent) -> None:
        event.app.suspend_to_background()

    @keys.add(*key_of("unfold", screen.remapped))
    def unfold(event: KeyPressEvent) -> None:
        screen.unfold()

    nothing = Condition(lambda: not screen.input.text and screen.question is None)

    @keys.add(*key_of("mode", screen.remapped))
    def next_mode(event: KeyPressEvent) -> None:
        screen.actions.next_mode()

    @keys.add(*key_of("keys", screen.remapped), filter=focused & nothing & Condition(lambda: not screen.actions.busy))
    def show_keys(event: KeyPressEvent) -> None:
        screen.actions.queue("?")

    @keys.add(*key_of("paste_image", screen.remapped), filter=focused)
    def paste_image(event: KeyPressEvent) -> None:
        screen.paste_image()

    @keys.add(*key_of("rewind", screen.remapped), filter=focused & nothing & Condition(lambda: not screen.actions.busy))
    def rewind(event: KeyPressEvent) -> None:
        screen.actions.queue("/rewind")

    @keys.add(*key_of("verify", screen.remapped), filter=Condition(lambda: screen.question is None))
    def verify(event: KeyPressEvent) -> None:
        screen.actions.queue("/verify")


def _ends(keys: KeyBindings, screen: ChatScreen) -> None:
    pressed = 0.0

    @keys.add("escape", filter=~vi_insert_mode | Condition(lambda: screen.question is not None))
    def escape(event: KeyPressEvent) -> None:
        if screen.question is not None and screen.question.back():
            screen.focus()
        elif not screen.dismiss():
            screen.actions.interrupt()

    @keys.add("c-c")
    @keys.add("<sigint>")
    def interrupt(event: KeyPressEvent) -> None:
        nonlocal pressed
        again = time.monotonic() - pressed < AGAIN
        pressed = time.monotonic()
        if screen.dismiss():
            pressed = 0.0
        elif screen.input.text and not screen.actions.busy:
            _empty(screen.input)
            pressed = 0.0
        elif again:
            screen.actions.quit()
        else:
            running = screen.actions.interrupt()
            screen.hint = "interrupted; Ctrl-C again leaves" if running else "Ctrl-C again leaves"
            get_app().invalidate()

    @keys.add("c-d", filter=Condition(lambda: not get_app().current_buffer.text))
    def end(event: KeyPressEvent) -> None:
        screen.give_up()
        screen.actions.leave()
