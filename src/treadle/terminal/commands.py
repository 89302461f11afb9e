"""What the keys after the prefix of `attach` do: go to another terminal, look back, rename, end, help."""

from treadle.errors import TreadleError
from treadle.terminal import prefix as keys
from treadle.terminal.client import Client
from treadle.terminal.listing import in_line, rows, waiting
from treadle.terminal.panel import Panel, fitted
from treadle.terminal.places import Place, check_id
from treadle.terminal.settings import AttachOptions


def obey(command: str, here: Place, before: Place | None, panel: Panel, options: AttachOptions) -> Place:
    """Do what the person asked for. Returns the terminal to show afterwards."""
    if options.read_only and command in keys.CHANGES:
        panel.tell(["", "  You only watch this terminal (--read-only)."])
        return here
    try:
        if command == keys.NEXT:
            return _next(here, panel)
        if command == keys.SWITCH:
            return _switch(here, panel)
        if command == keys.LAST:
            if before is None:
                panel.tell(["", "  There is no terminal before this one."])
            return before or here
        if command in (keys.SCROLL, keys.SEARCH):
            _scroll(here, panel, command == keys.SEARCH)
        elif command == keys.RENAME:
            return _rename(here, panel)
        elif command == keys.KILL:
            _kill(here, panel)
        else:
            _help(panel, options.prefix_key)
    except TreadleError as error:
        panel.tell(["", f"  {error.message}", *([f"  {error.hint}"] if error.hint else [])])
    return here


def _next(here: Place, panel: Panel) -> Place:
    others = (row for row in waiting(here.directory) if row["id"] != here.id)
    if not (found := next(others, None)):
        panel.tell(["", "  No other terminal waits for a person."])
        return here
    return Place(here.directory, found["id"])


def _switch(here: Place, panel: Panel) -> Place:
    found = sorted((row for row in rows(here.directory) if row["alive"]), key=in_line)
    if not found:
        panel.tell(["", "  No other terminal is known here."])
        return here
    at = next((number for number, row in enumerate(found) if row["id"] == here.id), 0)
    wide = max(len(row["id"]) for row in found)
    lines = [
        f"{number:3}  {row['id']:{wide}}  {fitted(row['state'], 11)} {row.get('message') or row.get('last_line') or ''}"
        for number, row in enumerate(found, 1)
    ]
    chosen = panel.choose(lines, " Enter or its number: go there   arrows: choose   q: back", at)
    return here if chosen is None else Place(here.directory, found[chosen]["id"])


def _scroll(here: Place, panel: Panel, searching: bool) -> None:
    from treadle.terminal.pager import look_through
    from treadle.terminal.screen import SCROLLBACK, story

    with story(here).screen(SCROLLBACK) as screen:
        lines = screen.everything()
    look_through(panel, here.id, lines, searching=searching)


def _rename(here: Place, panel: Panel) -> Place:
    panel.draw([], "")
    name = panel.ask(f"another id for {here.id}:", here.id)
    if not name or name == here.id:
        return here
    check_id(name)
    with Client(here.sock) as client:
        answer = client.rename(name)
    if answer["why"]:
        panel.tell(["", f"  {here.id} keeps its id: {answer['why']}"])
    return Place(here.directory, answer["id"])


def _kill(here: Place, panel: Panel) -> None:
    panel.draw([], "")
    if panel.ask(f"end {here.id} and all that belongs to it? Type yes:") == "yes":
        panel.draw(["", f"  {here.id} is being ended..."], "")
        with Client(here.sock) as client:
            client.stop()


def _help(panel: Panel, prefix_key: int) -> None:
    name = keys.key_name(prefix_key)
    lines = [f"  {name} {key}   {text}" for key, text in keys.COMMANDS.items()]
    panel.tell(["", *lines, f"  {name} {name}   type {name} itself"])
