"""Slash commands of the chat itself: they work with every agent, and the agent never sees them."""

import asyncio
import base64
import os
import sys
from collections import deque
from collections.abc import Awaitable, Callable
from typing import NamedTuple, Protocol

from treadle.cli.chat.page import Page
from treadle.errors import ConfigError, Unsupported
from treadle.io.files import write_atomic
from treadle.session import Mode, Session

CYCLE: tuple[Mode, ...] = ("suggest", "auto-edit", "plan")
"""What Shift-Tab goes through; the modes that never ask are chosen by name."""
COPIED_MAX = 100_000
"""Bytes that /copy sends at most: terminals drop longer ones."""
INIT = (
    "Look at this repository and write AGENTS.md: what the project is, how it is built, tested and run (try the"
    " commands), where things are, and conventions that are not obvious. At most 60 lines. If there is"
    " one already, improve it."
)
REVIEW = (
    "Review the changes that are not committed yet (git diff HEAD, and new files); if there are none, the last commit."
    " Change nothing. List real problems first: bugs, missing tests, security; file and line for each. Then say in one"
    " sentence whether you would merge it."
)
KEYS = (
    ("Enter", "send; while the agent works: add to what it is doing"),
    ("Tab", "complete; while the agent works: queue for afterwards"),
    ("Alt-Enter, \\ Enter", "a new line"),
    ("Shift-Tab", f"the next permission mode: {', '.join(CYCLE)}"),
    ("Esc, Ctrl-C", "interrupt; Ctrl-C twice leaves, and Ctrl-D on an empty line"),
    ("Esc Esc", "on an empty line: go back to before a turn, with its files"),
    ("Ctrl-O", "show what was folded: thinking, output of tools"),
    ("Ctrl-G", "write in your editor"),
    ("Ctrl-R, Up", "what you typed before"),
    ("Ctrl-V", "paste an image of the clipboard"),
    ("Ctrl-Z", "back to the shell; fg returns"),
    ("@FILE, !CMD", "a file for the agent to read, a command of your own"),
    ("#TEXT, /COMMAND", "a line for AGENTS.md, a command (/help lists them)"),
    ("?", "these keys"),
)


class Showing(Protocol):
    """The view, as far as these commands need it."""

    plain: bool

    def print(self, text: str) -> None: ...
    def vim(self) -> bool: ...


class Talking(Protocol):
    """The conversation, as far as these commands need it."""

    @property
    def session(self) -> Session: ...
    @property
    def view(self) -> Showing: ...
    @property
    def page(self) -> Page: ...

    cwd: str
    queued: deque[str]
    last_text: str


class OwnCommand(NamedTuple):
    help: str
    run: Callable[[Talking, str], Awaitable[str | None]]
    """Returns what to print, or None."""


async def keys(talk: Talking, args: str) -> str:
    width = max(len(key) for key, _ in KEYS)
    return (
        "\n".join(f"{key:{width}}  {what}" for key, what in KEYS) + "\nChange them in your settings: treadle docs chat"
    )


async def _diff(talk: Talking, args: str) -> str | None:
    shown = await asyncio.to_thread(changes, talk.cwd)
    if not shown:
        return "Nothing is changed since the last commit."
    talk.view.print(talk.page.diff(shown))
    return None


def changes(cwd: str) -> str:
    """All that is not committed as a diff, with new files. No git looks at them: some may be an agent's."""
    from treadle.workspace import checkouts, uncommitted

    shown, left_out = uncommitted.patch(checkouts.around(cwd))
    notes = [f"{path} is too large to show, or cannot be read\n" for path in left_out]
    return "".join([shown.decode(errors="replace"), *notes])


async def _init(talk: Talking, args: str) -> None:
    talk.queued.appendleft(f"{INIT}\n{args}".strip())


async def _review(talk: Talking, args: str) -> None:
    talk.queued.appendleft(f"{REVIEW}\n{args}".strip())


async def _mcp(talk: Talking, args: str) -> str:
    states = talk.session.info.mcp_servers
    if not states:
        return "No MCP servers. `treadle docs hooks-and-mcp` says how to add some."
    return "\n".join(f"{name}: {state}" for name, state in sorted(states.items()))


async def _export(talk: Talking, args: str) -> str:
    from treadle.agent.session_export import SessionDocument, as_html, as_json, as_markdown
    from treadle.agent.transcript import Transcript
    from treadle.redact import Redactor

    if talk.session.info.name != "native":
        raise Unsupported(f"{talk.session.info.name} keeps its sessions itself")
    path = os.path.join(talk.cwd, os.path.expanduser(args.strip() or f"{talk.session.id}.md"))
    found = SessionDocument(Transcript.read(talk.session.id), Redactor.of_environment(os.environ))
    ending = os.path.splitext(path)[1]
    if ending == ".json":
        import msgspec

        text = msgspec.json.format(msgspec.json.encode(as_json(found))).decode()
    elif ending in (".md", ".html"):
        text = as_html(found) if ending == ".html" else as_markdown(found)
    else:
        raise ConfigError(f"{path} does not say which form is meant", hint="a name that ends in .md, .html or .json")
    if os.path.exists(path):
        raise ConfigError(f"{path} exists already", hint="/export OTHER-NAME")
    write_atomic(path, text.encode())
    return f"The session is in {path}."


async def _copy(talk: Talking, args: str) -> str:
    answer = talk.last_text.encode()
    if not answer:
        return "There is no answer to copy yet."
    if len(answer) > COPIED_MAX:
        raise ConfigError(f"the answer has {len(answer):,} bytes, more than terminals take", hint="/export FILE.md")
    sys.stdout.write(f"\x1b]52;c;{base64.b64encode(answer).decode()}\x1b\\")
    sys.stdout.flush()
    return f"The last answer is in the clipboard ({len(answer):,} bytes), if your terminal allows that (OSC 52)."


async def _theme(talk: Talking, args: str) -> str:
    if args.strip() not in ("light", "dark"):
        return f"The theme is {talk.page.theme}; /theme light or /theme dark changes it, `theme` of [chat] keeps it."
    talk.page.theme = args.strip()
    return f"The theme is now {talk.page.theme}."


async def _vim(talk: Talking, args: str) -> str:
    if talk.view.plain:
        raise Unsupported("line by line there is nothing to edit")
    return f"The input is edited as in {'vim: Esc leaves insert mode' if talk.view.vim() else 'Emacs and readline'}."


COMMANDS: dict[str, OwnCommand] = {
    "keys": OwnCommand("Show what the keys do; ? does the same.", keys),
    "diff": OwnCommand("Show what is not committed yet, with new files.", _diff),
    "init": OwnCommand("Have the agent write AGENTS.md for this repository.", _init),
    "review": OwnCommand("Have the agent review what is not committed yet.", _review),
    "mcp": OwnCommand("List the MCP servers, and whether each is connected.", _mcp),
    "export": OwnCommand("Write the session to a file: FILE.md, .html or .json.", _export),
    "copy": OwnCommand("Copy the last answer to the clipboard of your terminal.", _copy),
    "theme": OwnCommand("Colours for a light or a dark terminal.", _theme),
    "vim": OwnCommand("Edit the input as in vim, or no longer.", _vim),
}


def help_text() -> str:
    width = max(map(len, COMMANDS))
    rows = "\n".join(f"/{name:{width}}  {command.help}" for name, command in COMMANDS.items())
    return f"Commands of the chat:\n{rows}\n\n? shows the keys."
