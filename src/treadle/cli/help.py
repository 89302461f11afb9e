"""Help in other forms: the documentation, and completion made from the commands themselves."""

import os
import re
import shutil
import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from difflib import get_close_matches
from functools import cache

import click
import msgspec
from click.shell_completion import CompletionItem, get_completion_class
from click.types import StringParamType

from treadle.cli.arguments import COMPLETE
from treadle.cli.as_json import json_option, show_json
from treadle.cli.heimdall.dispatch import run as run_heimdall
from treadle.cli.heimdall.table import COMMANDS as HEIMDALL
from treadle.cli.heimdall.table import find
from treadle.cli.render import colourful, one_line
from treadle.cli.root import COMMANDS, GROUPS, load
from treadle.cli.terminal.listed import SmallCommand
from treadle.errors import NotFound, TreadleError
from treadle.io.files import read

# Every installed command: completion is made from the commands themselves.


def commands_of_coordination() -> dict[str, click.Command]:
    return {name: SmallCommand(name, find(name), run_heimdall) for name in HEIMDALL}


@cache
def command_named(name: str) -> click.Command:
    """A command of `treadle`. That of coordination is a group here, though it reads its own arguments."""
    command = load(COMMANDS[name])
    return click.Group(name, commands_of_coordination(), help=command.help) if name == "coord" else command


def every() -> dict[tuple[str, ...], click.Command]:
    """All commands as they are typed, such as ("treadle", "sessions", "rm"), each before its subcommands."""
    from treadle.cli.root import treadle

    found: dict[tuple[str, ...], click.Command] = {("treadle",): treadle}
    for name in COMMANDS:
        command = command_named(name)
        found["treadle", name] = command
        if isinstance(command, click.Group):
            command.list_commands(click.Context(command))  # some load their commands only then
            found |= {("treadle", name, each): one for each, one in command.commands.items() if not one.hidden}
    found |= {(f"treadle-{name}",): load(COMMANDS[name]) for name in ("worker", "sidecar")}
    return found | {(f"heimdall-{name}",): one for name, one in commands_of_coordination().items()}


# `treadle docs`: the documentation, as installed.

KINDS = {"tutorials": "Tutorials", "how-to": "How to", "explanation": "Explanations", "reference": "Reference"}


class DocsPage(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    kind: str
    title: str
    path: str


def _root() -> str:
    """Where the pages are: in the installed package, or in a checkout beside the sources."""
    package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    for place in (os.path.join(package, "docs"), os.path.join(os.path.dirname(os.path.dirname(package)), "docs")):
        if os.path.isdir(os.path.join(place, "reference")):
            return place
    raise NotFound("this installation has no documentation", hint="install treadle again")


def pages() -> list[DocsPage]:
    found = []
    for kind in KINDS:
        folder = os.path.join(_root(), kind)
        for name in sorted(os.listdir(folder)):
            if name.endswith(".md"):
                path = os.path.join(folder, name)
                title = read(path).decode().partition("\n")[0].removeprefix("# ")
                found.append(DocsPage(name=name.removesuffix(".md"), kind=kind, title=title, path=path))
    return found


@click.command("docs")
@click.argument("name", required=False, metavar="[PAGE]")
@json_option
def docs(name: str | None, as_json: bool) -> None:
    """List the pages of the documentation, or show one.

    \b
    treadle docs
    treadle docs one-shot

    A terminal shows the page in $PAGER; a pipe gets plain Markdown.
    """
    known = pages()
    if name is not None:
        _show(_find(name, known), as_json)
    elif as_json:
        show_json(known)
    else:
        for kind, title in KINDS.items():
            click.echo(f"{title}:")
            for page in known:
                if page.kind == kind:
                    click.echo(f"  {page.name:34} {page.title}")


def _find(name: str, known: list[DocsPage]) -> DocsPage:
    wanted = os.path.basename(name).removesuffix(".md").lower()
    for page in known:
        if page.name == wanted:
            return page
    near = get_close_matches(wanted, [page.name for page in known], n=1) or [
        page.name for page in known if wanted in page.name or wanted in page.title.lower()
    ]
    hint = f"perhaps `treadle docs {near[0]}`" if near else "`treadle docs` lists them"
    raise NotFound(f"there is no page {name!r}", hint=hint)


def _show(page: DocsPage, as_json: bool) -> None:
    text = read(page.path).decode()
    if as_json:
        show_json({"name": page.name, "title": page.title, "text": text})
    elif not sys.stdout.isatty():
        click.echo(text, nl=False)
    else:
        click.echo_via_pager(_drawn(text))


def _drawn(text: str) -> str:
    from io import StringIO

    from rich.console import Console
    from rich.markdown import Markdown

    out = StringIO()
    colour = colourful(sys.stdout)
    width = min(shutil.get_terminal_size().columns, 100)
    console = Console(file=out, width=width, force_terminal=colour, no_color=not colour, highlight=False, emoji=False)
    shown = re.sub(r"!\[(.*?)\]\(.*?\)", r"(a picture: \1)", re.sub(r"<!--.*?-->\n?", "", text))
    console.print(Markdown(shown, hyperlinks=False))
    return out.getvalue()


# `treadle completion SHELL`, and the words that its scripts cannot know: terminals, sessions, agents, orders.

SHELLS = ("bash", "zsh", "fish")
Row = tuple[str, str]
"""A word and its description."""


def terminals() -> Iterable[Row]:
    from treadle.terminal.places import default_directory, ids

    return [(name, "terminal") for name in ids(default_directory())]


def sessions() -> Iterable[Row]:
    from treadle.agent.stored_sessions import list_sessions

    return [(entry.id, entry.name or entry.prompt) for entry in list_sessions()[:100] if entry.turns]


def agents() -> Iterable[Row]:
    from treadle.agents import agent_settings, names

    return [(name.removesuffix("COMMAND").removesuffix("URL"), "agent") for name in names(agent_settings())]


def orders() -> Iterable[Row]:
    """The latest orders of this fleet; none when it does not answer at once, because a Tab must not wait."""
    import asyncio

    from treadle.io.process.loop import run_async

    async def latest() -> list[Row]:
        from treadle.fleet.client import connected, list_orders

        async with asyncio.timeout(2), connected("watch") as bus:
            return [(order.id, f"{order.state}: {order.title}") for order, _ in await list_orders(bus, count=100)]

    try:
        return run_async(latest())
    except (TreadleError, OSError, TimeoutError, ImportError):
        return []


def modes() -> Iterable[Row]:
    from typing import get_args

    from treadle.session import Mode

    return [(mode, "") for mode in get_args(Mode)]


def page_rows() -> Iterable[Row]:
    return [(page.name, page.title) for page in pages()]


LISTS: dict[str, Callable[[], Iterable[Row]]] = {
    "terminals": terminals,
    "sessions": sessions,
    "agents": agents,
    "orders": orders,
    "modes": modes,
    "pages": page_rows,
}
NAMED = {
    **{"SESSION": "sessions", "AGENT": "agents", "PAGE": "pages", "ORDER": "orders", "terminals": "terminals"},
    **{"--agent": "agents", "--resume": "sessions", "--permission-mode": "modes"},
}
"""An argument's name in the help, or an option -> the list of its values."""


class Offered(StringParamType):
    """What there is of a kind now. Without any, or when it cannot be known, nothing: a shell shows no errors."""

    def __init__(self, kind: str) -> None:
        self.name = self.kind = kind

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        with suppress(TreadleError, OSError):
            rows = [row for row in LISTS[self.kind]() if row[0].startswith(incomplete)]
            return [CompletionItem(word, help=one_line(what)[:60]) for word, what in rows]
        return []


def _offers(path: list[str], command: click.Command) -> None:
    """Give the parameters of a command the values that can be known."""
    for one in command.params:
        option = next((name for name in one.opts if name in NAMED), "")
        metavar = "" if isinstance(one, click.Option) else one.human_readable_name.strip("[].")
        # In the help, terminals, sessions and goals are all called ID.
        metavar = "SESSION" if path[:1] == ["sessions"] and metavar == "ID" else metavar
        if kind := NAMED.get(option or metavar):
            one.type = Offered(kind)
        elif "FILE" in (one.metavar or ""):
            one.type = click.Path()


class _Tree(click.Group):
    """All of `treadle`: its commands are listed without importing them."""

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        return command_named(name) if name in COMMANDS else None

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        rows = [row for group in GROUPS.values() for row in group.items() if row[0].startswith(incomplete)]
        return [CompletionItem(name, help=summary) for name, (_, summary) in rows]


def _completed(program: str, words: list[str], incomplete: str) -> click.Command:
    """The command whose words are completed, as a tree from the program on."""
    if program != "treadle":
        return commands_of_coordination()[program.removeprefix("heimdall-")]
    if (words or [incomplete])[0].startswith("-"):  # a chat, or a run with -p
        once = [load("treadle.cli.oneshot:oneshot"), load(COMMANDS["chat"])]
        return click.Command(program, params=list({one.name: one for each in once for one in each.params}.values()))
    return _Tree(program)


def complete(program: str) -> None:
    """Answer the Tab of a shell, as click's script asks with this variable."""
    shell = os.environ[COMPLETE].partition("_")[0]
    kind = get_completion_class(shell)
    if kind is None:
        return
    words, incomplete = kind(click.Command(program), {}, program, COMPLETE).get_completion_args()
    tree = command = _completed(program, words, incomplete)
    path: list[str] = []
    for word in words:
        if isinstance(command, click.Group) and (below := command.get_command(click.Context(command), word)):
            command, path = below, [*path, word]
    _offers(path, command)
    click.echo(kind(tree, {}, program, COMPLETE).complete())


@click.command("completion")
@click.argument("shell", required=False, type=click.Choice(SHELLS))
def completion(shell: str | None) -> None:
    """Print a completion script for your shell.

    \b
    bash   echo 'source <(treadle completion bash)' >> ~/.bashrc
    zsh    echo 'source <(treadle completion zsh)' >> ~/.zshrc      # after compinit
    fish   treadle completion fish > ~/.config/fish/completions/treadle.fish

    Covers commands, options and names of `treadle` and `heimdall-*`. Regenerate it after an update.
    """
    if shell is None:
        raise click.UsageError(f"which shell? {', '.join(SHELLS)}")
    kind = get_completion_class(shell)
    assert kind is not None
    for program in ("treadle", *(f"heimdall-{name}" for name in HEIMDALL)):
        click.echo(kind(click.Command(program), {}, program, COMPLETE).source())
