"""Choose one of a few rows with the arrow keys, or one of a few keys. Numbers work too, and without a screen."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

LEAVE = ("escape", "q", "c-c", "c-d")


async def choose_row(title: str, rows: Sequence[str], plain: bool = False) -> int | None:
    """The number of the chosen row, or None when the person chose nothing."""
    if plain:
        return await asyncio.to_thread(_numbered, title, rows)
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


async def choose_key(text: str, keys: str) -> str | None:
    """One of these letters, or None when the person left."""

    def ask() -> str | None:
        print(text)
        while True:
            try:
                said = input(f"[{'/'.join(keys)}] ").strip().lower()
            except (EOFError, KeyboardInterrupt):
                return None
            if said in keys and said:
                return said

    return await asyncio.to_thread(ask)


def _numbered(title: str, rows: Sequence[str]) -> int | None:
    print(title)
    for number, row in enumerate(rows, 1):
        print(f"{number}  {row}")
    while True:
        try:
            said = input(f"1-{len(rows)}, or nothing to leave: ").strip()
        except (EOFError, KeyboardInterrupt):
            return None
        if not said:
            return None
        if said.isdigit() and 1 <= int(said) <= len(rows):
            return int(said) - 1
