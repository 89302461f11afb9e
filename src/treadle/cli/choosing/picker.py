"""Choose one of a few rows with the arrow keys, or one of a few keys. Numbers work too, and without a screen."""

from collections.abc import Mapping, Sequence
from shutil import get_terminal_size
from textwrap import wrap
from typing import TypeVar

from treadle.cli.lines import TypedLines

T = TypeVar("T")
LEAVE = ("escape", "q", "c-c", "c-d")


async def choose_row(title: str, rows: Sequence[str], plain: bool = False) -> int | None:
    """The number of the chosen row, or None when the person chose nothing."""
    if plain:
        return await _numbered(title, rows)
    from prompt_toolkit.application import Application
    from prompt_toolkit.formatted_text import StyleAndTextTuples
    from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
    from prompt_toolkit.layout import Layout, Window
    from prompt_toolkit.layout.controls import FormattedTextControl

    at, keys = 0, KeyBindings()

    def drawn() -> StyleAndTextTuples:
        parts: StyleAndTextTuples = [("bold", f"{title}\n")]
        for number, row in enumerate(rows):
            here = number == at
            parts.append(("bold" if here else "", f"{'>' if here else ' '} {number + 1}  {row}\n"))
        return [*parts, ("ansibrightblack", "arrows and Enter, or a number; q leaves")]

    def move(by: int) -> None:
        nonlocal at
        at = (at + by) % len(rows)

    for names, by in ((("up", "k", "c-p"), -1), (("down", "j", "c-n", "tab"), 1)):
        for name in names:
            keys.add(name)(lambda event, by=by: move(by))
    for number in range(min(9, len(rows))):
        keys.add(str(number + 1))(lambda event, number=number: event.app.exit(result=number))
    for name in LEAVE:
        keys.add(name, eager=name != "escape")(lambda event: event.app.exit(result=None))

    @keys.add("enter")
    def _(event: KeyPressEvent) -> None:
        event.app.exit(result=at)

    window = Window(FormattedTextControl(drawn, show_cursor=False), dont_extend_height=True, wrap_lines=True)
    app: Application[int | None] = Application(Layout(window), key_bindings=keys, erase_when_done=True)
    return await app.run_async()


async def choose_key(text: str, keys: str, plain: bool = False) -> str | None:
    """One of these letters, or None when the person left."""
    prompt = f"[{'/'.join(keys)}] "
    if plain:
        print(text)
        return await _typed(prompt, {key: key for key in keys})
    from prompt_toolkit.application import Application
    from prompt_toolkit.key_binding import KeyBindings
    from prompt_toolkit.layout import Layout, Window
    from prompt_toolkit.layout.controls import FormattedTextControl

    bound = KeyBindings()
    for name in LEAVE:
        bound.add(name, eager=name != "escape")(lambda event: event.app.exit(result=None))
    for key in keys:
        bound.add(key)(lambda event, key=key: event.app.exit(result=key))
    width = max(20, get_terminal_size().columns)
    lines = [part for line in text.splitlines() for part in wrap(line, width, subsequent_indent="   ") or [""]]
    shown = "\n".join([*lines, prompt])
    window = Window(FormattedTextControl(shown), dont_extend_height=True, wrap_lines=True)
    app: Application[str | None] = Application(Layout(window), key_bindings=bound)
    return await app.run_async()


async def _numbered(title: str, rows: Sequence[str]) -> int | None:
    print(title)
    for number, row in enumerate(rows, 1):
        print(f"{number}  {row}")
    answers: dict[str, int | None] = {str(number + 1): number for number in range(len(rows))}
    return await _typed(f"1-{len(rows)}, or nothing to leave: ", {**answers, "": None})


async def _typed(prompt: str, answers: Mapping[str, T]) -> T | None:
    """What the line that a person types stands for; asked again until it is one of these. None: they left."""
    lines = TypedLines()
    try:
        while True:
            answer = (await lines.line(prompt)).strip().lower()
            if answer in answers:
                return answers[answer]
    except EOFError:
        return None
    finally:
        lines.close()
