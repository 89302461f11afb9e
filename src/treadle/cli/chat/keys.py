"""What the keys do in a chat."""

import time
from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from typing import Protocol

from prompt_toolkit.application.current import get_app
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.filters import Condition, has_focus, vi_insert_mode
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent

from treadle.cli.chat.question import Question
from treadle.errors import ConfigError
from treadle.session import Answer

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


class Keyboard(Protocol):
    """What the keys need to know about the screen, and may do to it."""

    actions: Actions
    input: Buffer
    field: Buffer
    question: Question | None
    queued: Callable[[], Sequence[str]]
    hint: str
    remapped: Mapping[str, str]
    """What to do -> the key that the person chose for it."""

    @property
    def armed(self) -> bool: ...
    def answered(self, answer: Answer | None) -> None: ...
    def sent(self) -> None: ...
    def move(self, by: int) -> None: ...
    def unfold(self) -> None: ...
    def give_up(self) -> None: ...
    def dismiss(self) -> bool: ...
    def focus(self) -> None: ...
    def paste_image(self) -> None: ...


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


def bindings(screen: Keyboard) -> KeyBindings:
    keys = KeyBindings()
    _question(keys, screen)
    _input(keys, screen)
    _ends(keys, screen)
    return keys


def _question(keys: KeyBindings, screen: Keyboard) -> None:
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


def _take(screen: Keyboard) -> str:
    text = screen.input.text
    _empty(screen.input, remember=True)
    screen.sent()
    return text


def _input(keys: KeyBindings, screen: Keyboard) -> None:
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


def _ends(keys: KeyBindings, screen: Keyboard) -> None:
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
