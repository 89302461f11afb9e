"""Every installed command as data: its name, what it takes, what its help says.

Completion scripts and man pages are made from this, and this is made from the commands themselves: from click, and
from the help texts of those that parse their own arguments.
"""

import re
from collections.abc import Iterator

import click
import msgspec

from treadle.cli import heimdall, terminal
from treadle.cli.heimdall import COMMANDS as HEIMDALL
from treadle.cli.names import TERMINAL
from treadle.cli.root import COMMANDS, load

WORDS = {
    "ID": "terminals",
    "SESSION": "sessions",
    "AGENT": "agents",
    "PAGE": "pages",
    "SHELL": "shells",
    "ORDER": "orders",
}
"""Name of a command's argument -> the list that `treadle completion --list` prints for it."""
VALUES = {"--agent": "agents", "--resume": "sessions", "-r": "sessions", "--permission-mode": "modes"}
"""Options whose value can be completed."""
_OPTION = re.compile(r"(?<![\w-])(--?[a-z][a-z-]*)(?:[ =]([A-Z][A-Z=]*))?")
_SUBCOMMAND = r"(?m)^{} \[?([a-z][a-z-]+)\b"


class Option(msgspec.Struct, frozen=True):
    names: tuple[str, ...]
    value: str = ""
    """The value it takes, as its help names it; empty for a flag."""
    help: str = ""


WHERE = (Option(("--socket-dir",), "DIR", "Where the terminals are."), Option(("--config",), "FILE", "Their settings."))
"""Options of every terminal command."""


class CommandWords(msgspec.Struct, frozen=True, kw_only=True):
    path: tuple[str, ...]
    """As it is typed, such as ("treadle", "sessions", "rm")."""
    summary: str
    text: str = ""
    """The rest of its help."""
    options: tuple[Option, ...] = ()
    commands: tuple[str, ...] = ()
    words: str = ""
    """The list that `treadle completion --list` prints for its arguments; empty: files."""

    @property
    def name(self) -> str:
        return " ".join(self.path)


def every() -> list[CommandWords]:
    """All commands, each before its subcommands."""
    return [*_treadle(), *_small("worker", "sidecar"), *_heimdall()]


def _treadle() -> Iterator[CommandWords]:
    from treadle.cli.root import treadle

    once = load("treadle.cli.oneshot:oneshot")
    prompt = Option(("-p", "--print"), help="Run one prompt and print the answer.")
    # Bare `treadle` is a chat, and with -p a one-shot run: both take their options without a command.
    options = {option.names: option for option in [prompt, *_options(load(COMMANDS["chat"])), *_options(once)]}
    yield CommandWords(
        path=("treadle",),
        summary=_first(treadle.help),
        text=_rest(treadle.help),
        options=(*options.values(), Option(("--version",), help="Show the version and exit.")),
        commands=tuple(COMMANDS),
    )
    for name, place in COMMANDS.items():
        if name in TERMINAL:
            yield _terminal(name)
        elif name == "coord":
            yield CommandWords(path=("treadle", name), summary=_first(load(place).help), commands=tuple(HEIMDALL))
            for one in HEIMDALL:
                yield from _heimdall_command(("treadle", "coord", one), one)
        else:
            yield from _from_click(("treadle", name), load(place))


def _terminal(name: str) -> CommandWords:
    command = _from_text(("treadle", name), terminal.find(name)[1])
    written = {one for option in command.options for one in option.names}
    more = [option for option in WHERE if name != "replay" and not written.intersection(option.names)]
    return msgspec.structs.replace(command, options=(*command.options, *more))


def _small(*names: str) -> Iterator[CommandWords]:
    for name in names:
        yield from _from_click((f"treadle-{name}",), load(COMMANDS[name]))


def _heimdall() -> Iterator[CommandWords]:
    for name in HEIMDALL:
        yield from _heimdall_command((f"heimdall-{name}",), name)


def _from_click(path: tuple[str, ...], command: click.Command) -> Iterator[CommandWords]:
    below = command.commands if isinstance(command, click.Group) else {}
    arguments = [one for one in command.params if isinstance(one, click.Argument)]
    # The command above tells sessions from terminals: in the help, both are called ID.
    names = [(one.metavar or one.human_readable_name).strip("[].") for one in arguments]
    kind = "SESSION" if path[1:2] == ("sessions",) and names[:1] == ["ID"] else "".join(names[:1])
    yield CommandWords(
        path=path,
        summary=_first(command.help),
        text=_rest(command.help),
        options=tuple(_options(command)),
        commands=tuple(below),
        words=WORDS.get(kind, "") if arguments else "",
    )
    for name, one in below.items():
        if not one.hidden:
            yield from _from_click((*path, name), one)


def _options(command: click.Command) -> Iterator[Option]:
    context = click.Context(command)
    for one in command.get_params(context):
        if isinstance(one, click.Option) and not one.hidden:
            value = "" if one.is_flag or one.count else one.make_metavar(context)
            yield Option((*one.opts, *one.secondary_opts), value, one.help or "")


def _heimdall_command(path: tuple[str, ...], name: str) -> Iterator[CommandWords]:
    text = heimdall.find(name)[1]
    found = dict.fromkeys(re.findall(_SUBCOMMAND.format(f"heimdall-{name}"), text))
    yield msgspec.structs.replace(_from_text(path, text), commands=tuple(found))


def _from_text(path: tuple[str, ...], text: str) -> CommandWords:
    """Read a help text that a command wrote itself: everything that looks like an option is one."""
    options: dict[str, str] = {}
    for name, value in _OPTION.findall(text):
        options[name] = options.get(name) or value
    takes_id = re.search(rf"(?m)^ *{re.escape(' '.join(path))}\b[^\n]*\bID\b", text)
    return CommandWords(
        path=path,
        summary=_first(text).partition(": ")[2] if text.startswith("heimdall-") else _first(text),
        text=_rest(text),
        options=tuple(Option((name,), value) for name, value in options.items()),
        words=WORDS["ID"] if takes_id and path[-1] != "run" else "",
    )


def _first(text: str | None) -> str:
    return (text or "").strip().partition("\n\n")[0].replace("\n", " ")


def _rest(text: str | None) -> str:
    return (text or "").strip().partition("\n\n")[2].replace("\b\n", "")
