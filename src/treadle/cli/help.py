"""Help in other forms: the documentation, manual pages and completion scripts, made from every command as data."""

import os
import re
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator
from difflib import get_close_matches

import click
import msgspec

from treadle import __version__
from treadle.cli import heimdall, terminal
from treadle.cli.arguments import TERMINAL
from treadle.cli.as_json import json_option, show_json
from treadle.cli.heimdall import COMMANDS as HEIMDALL
from treadle.cli.render import colourful, one_line
from treadle.cli.root import COMMANDS, load
from treadle.errors import NotFound, TreadleError
from treadle.io.files import read, write_atomic

# Every installed command as data: its name, what it takes, what its help says.
#
# Completion scripts and man pages are made from this, and this is made from the commands themselves: from click, and
# from the help texts of those that parse their own arguments.

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


# `treadle docs`: the documentation, as installed.

KINDS = {"tutorials": "Tutorials", "how-to": "How to", "explanation": "Why it is so", "reference": "Reference"}


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

    On a terminal a page is shown by $PAGER; in a pipe it is plain Markdown.
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


# `treadle man`: a manual page for each command, made from its help.


@click.command("man")
@click.argument("words", nargs=-1, metavar="[COMMAND]...")
@click.option("--write", "directory", type=click.Path(file_okay=False), help="Write all pages to DIRECTORY/man1.")
def man(words: tuple[str, ...], directory: str | None) -> None:
    """Print the manual page of a command, or write all of them.

    \b
    treadle man fleet submit | man -l -
    treadle man --write ~/.local/share/man      # from then on: man treadle-fleet-submit
    """
    commands = every()
    if directory is not None:
        written = {
            "-".join(command.path): command  # `treadle worker` and `treadle-worker` have one page
            for command in commands
            if command.path[:2] != ("treadle", "coord") or len(command.path) == 2
        }
        folder = os.path.join(os.path.abspath(os.path.expanduser(directory)), "man1")
        os.makedirs(folder, exist_ok=True)
        for name, command in written.items():
            write_atomic(os.path.join(folder, f"{name}.1"), page(command, commands).encode(), mode=0o644)
        click.echo(f"{len(written)} pages in {folder}")
        return
    path = words if words[:1] and words[0].startswith(("treadle", "heimdall-")) else ("treadle", *words)
    for command in commands:
        if command.path == path:
            click.echo(page(command, commands), nl=False)
            return
    raise NotFound(f"there is no command {' '.join(path)!r}", hint="`treadle --help` lists them")


def page(command: CommandWords, commands: list[CommandWords]) -> str:
    """A page in the language of man(7)."""
    name = "-".join(command.path)
    parts = [f'.TH {_quoted(name.upper())} 1 "" {_quoted(f"treadle {__version__}")}\n.SH NAME\n']
    parts.append(f"{_text(name)} \\- {_text(command.summary)}\n.SH SYNOPSIS\n.B {_text(command.name)}\n")
    parts.append("[\\fIOPTIONS\\fR]" + (" \\fICOMMAND\\fR ..." if command.commands else "") + "\n")
    if command.text:
        parts.append(f".SH DESCRIPTION\n.nf\n{_text(command.text)}\n.fi\n")
    described = [option for option in command.options if option.help]
    if described:
        parts.append(".SH OPTIONS\n")
        for option in described:
            value = f" \\fI{_text(option.value)}\\fR" if option.value else ""
            names = ", ".join(f"\\fB{_text(one)}\\fR" for one in option.names)
            parts.append(f".TP\n{names}{value}\n{_text(option.help)}\n")
    below = [one for one in commands if one.path[:-1] == command.path]
    if below:
        parts.append(".SH COMMANDS\n")
        parts += [f".TP\n.B {_text(one.path[-1])}\n{_text(one.summary)}\n" for one in below]
    above = "-".join(command.path[:-1])
    also = [f".BR {_text(above)} (1)"] if above else []
    parts.append("\n".join([".SH SEE ALSO", *also, ".PP", "The pages that `treadle docs` lists.", ""]))
    return "".join(parts)


def _quoted(text: str) -> str:
    return '"' + _text(text).replace('"', "\\(dq") + '"'


def _text(text: str) -> str:
    """Text escaped for a manual page: nothing in it is read as a request, and dashes stay plain dashes."""
    escaped = text.replace("\\", "\\e").replace("-", "\\-")
    return "\n".join(f"\\&{line}" if line[:1] in (".", "'") else line for line in escaped.split("\n"))


# Completion scripts, made from the commands (`every`). A Tab starts a program only to list what exists now.

BASH = """# Completion of treadle for bash: source <(treadle completion bash)
_treadle_know() {{  # what belongs to the command $1
  commands= options= valued= choices= words=
  case "$1" in
{cases}
  esac
}}
_treadle_list() {{ treadle completion --list "$1" 2>/dev/null | cut -f1; }}
_treadle() {{
  local cur=${{COMP_WORDS[COMP_CWORD]}} prev=${{COMP_WORDS[COMP_CWORD-1]}} at=${{COMP_WORDS[0]##*/}}
  local commands options valued choices words word i offered=
  for ((i = 1; i < COMP_CWORD; i++)); do
    _treadle_know "$at"
    word=${{COMP_WORDS[i]}}
    [[ $word == -- ]] && return
    [[ -n $word && " $commands " == *" $word "* ]] && at="$at $word"
  done
  _treadle_know "$at"
  COMPREPLY=()
  if [[ " $valued " == *" $prev "* ]]; then
    case "$prev" in
{values}
    esac
    [[ $choices =~ (^|' ')"$prev="([^' ']*) ]] && offered=${{BASH_REMATCH[2]//,/ }}
    [[ -z $offered ]] && return
  elif [[ $cur == -* ]]; then
    offered=$options
  else
    offered=$commands
    [[ -n $words ]] && offered="$offered $(_treadle_list "$words")"
  fi
  COMPREPLY=($(compgen -W "$offered" -- "$cur"))
}}
complete -o default -F _treadle {programs}
"""

ZSH = """#compdef {programs}
# Completion of treadle for zsh: source <(treadle completion zsh), after compinit.
_treadle_know() {{  # what belongs to the command $1
  commands=() options=() valued=() choices=() kind=
  case "$1" in
{cases}
  esac
}}
_treadle() {{
  local at=${{words[1]:t}} word kind
  local -a commands options valued choices found
  for word in ${{words[2,CURRENT-1]}}; do
    _treadle_know "$at"
    [[ $word == -- ]] && {{ _files; return }}
    [[ -n ${{commands[(r)${{(b)word}}(|:*)]}} ]] && at="$at $word"
  done
  _treadle_know "$at"
  local prev=${{words[CURRENT-1]}} one
  if [[ -n ${{valued[(r)$prev]}} ]]; then
    one=${{choices[(r)$prev=*]}}
    if [[ -n $one ]]; then
      found=(${{(s:,:)one#*=}})
    else
      case "$prev" in
{values}
      esac
    fi
    if (( $#found )); then compadd -a found; else _files; fi
  elif [[ $PREFIX == -* ]]; then
    _describe -o option options
  else
    (( $#commands )) && _describe command commands
    if [[ -n $kind ]]; then
      found=(${{(f)"$(treadle completion --list $kind 2>/dev/null)"}})
      found=(${{found//:/\\\\:}})
      found=(${{found//$'\\t'/:}})
      _describe $kind found
    elif (( ! $#commands )); then
      _files
    fi
  fi
}}
if [[ $funcstack[1] == _treadle ]]; then _treadle "$@"; else compdef _treadle {programs}; fi
"""

FISH = """# Completion of treadle for fish: treadle completion fish | source
set -g __treadle_paths {paths}
function __treadle_at
    set -l typed (commandline -opc)
    set -l at (string replace -r '.*/' '' -- $typed[1])
    for word in $typed[2..-1]
        contains -- "$at $word" $__treadle_paths; and set at "$at $word"
    end
    test "$at" = "$argv[1]"
end
function __treadle_list
    treadle completion --list $argv[1] 2>/dev/null
end
{lines}
"""


def script(shell: str, commands: list[CommandWords]) -> str:
    return {"bash": bash, "zsh": zsh, "fish": fish}[shell](commands)


def _programs(commands: list[CommandWords]) -> str:
    return " ".join(command.path[0] for command in commands if len(command.path) == 1)


def choices(option: Option) -> list[str]:
    """The values an option takes, when its help lists all of them: `[markdown|html|json]`."""
    found = re.fullmatch(r"\[([\w|-]+)\]", option.value)
    return found[1].split("|") if found and "|" in found[1] else []


def _below(command: CommandWords, commands: list[CommandWords]) -> list[tuple[str, str]]:
    """The commands under this one, with their summaries."""
    summaries = {one.path: one.summary for one in commands}
    return [(name, summaries.get((*command.path, name), "")) for name in command.commands]


def _names(command: CommandWords, valued: bool = False) -> list[str]:
    return [name for option in command.options if option.value or not valued for name in option.names]


def bash(commands: list[CommandWords]) -> str:
    cases = []
    for command in commands:
        choosing = [f"{name}={','.join(choices(option))}" for option in command.options for name in option.names]
        known = {
            "commands": " ".join(command.commands),
            "options": " ".join(_names(command)),
            "valued": " ".join(_names(command, valued=True)),
            "choices": " ".join(one for one in choosing if not one.endswith("=")),
            "words": command.words,
        }
        cases.append(
            f'    "{command.name}")\n      ' + " ".join(f'{key}="{one}"' for key, one in known.items()) + " ;;"
        )
    values = [f'      {name}) offered="$(_treadle_list {kind})" ;;' for name, kind in VALUES.items()]
    return BASH.format(cases="\n".join(cases), values="\n".join(values), programs=_programs(commands))


def _single(text: str) -> str:
    """A word in single quotes for fish, where a backslash in them escapes."""
    return "'" + text.replace("\\", "\\\\").replace("'", "'\\''") + "'"


def zsh(commands: list[CommandWords]) -> str:
    def rows(pairs: list[tuple[str, str]]) -> str:
        return " ".join("'" + f"{word}:{what}".replace("'", "'\\''") + "'" for word, what in pairs)

    cases = []
    for command in commands:
        described = [(name, option.help) for option in command.options for name in option.names]
        listed = [
            f"{name}={','.join(found)}"
            for option in command.options
            if (found := choices(option))
            for name in option.names
        ]
        cases.append(
            f"    '{command.name}')\n"
            f"      commands=({rows(_below(command, commands))})\n"
            f"      options=({rows(described)})\n"
            f"      valued=({' '.join(_names(command, valued=True))})\n"
            f"      choices=({' '.join(listed)}) kind={command.words} ;;"
        )
    values = [
        f"        {name}) found=(${{${{(f)\"$(treadle completion --list {kind} 2>/dev/null)\"}}%%$'\\t'*}}) ;;"
        for name, kind in VALUES.items()
    ]
    return ZSH.format(cases="\n".join(cases), values="\n".join(values), programs=_programs(commands))


def fish(commands: list[CommandWords]) -> str:
    lines = []
    for command in commands:
        here = f"complete -c {command.path[0]} -n \"__treadle_at '{command.name}'\""
        for name, what in _below(command, commands):
            lines.append(f"{here} -f -a {name} -d {_single(what)}")
        if command.words:
            lines.append(f"{here} -f -a '(__treadle_list {command.words})'")
        lines += [f"{here} {_fish_option(option)}" for option in command.options]
    paths = " ".join(_single(command.name) for command in commands if len(command.path) > 1)
    return FISH.format(paths=paths, lines="\n".join(lines))


def _fish_option(option: Option) -> str:
    parts = [f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}" for name in option.names]
    kind = next((VALUES[name] for name in option.names if name in VALUES), "")
    if found := choices(option):
        parts.append(f"-x -a {_single(' '.join(found))}")
    elif kind:
        parts.append(f"-x -a '(__treadle_list {kind})'")
    elif option.value:
        parts.append("-r")
    return " ".join([*parts, *([f"-d {_single(option.help)}"] if option.help else [])])


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


def shells() -> Iterable[Row]:
    return [(shell, "") for shell in SHELLS]


LISTS: dict[str, Callable[[], Iterable[Row]]] = {
    "terminals": terminals,
    "sessions": sessions,
    "agents": agents,
    "orders": orders,
    "modes": modes,
    "pages": page_rows,
    "shells": shells,
}


def rows(kind: str) -> str:
    """One per line: the word, a tab, its description."""
    return "".join(f"{word}\t{one_line(what)[:60]}\n" for word, what in LISTS[kind]())


@click.command("completion")
@click.argument("shell", required=False, type=click.Choice(SHELLS))
@click.option("--list", "kind", type=click.Choice(list(LISTS)), hidden=True, help="What the scripts ask at run time.")
def completion(shell: str | None, kind: str | None) -> None:
    """Print a completion script for your shell: commands, options, terminals, sessions, agents, orders of a fleet.

    \b
    bash   echo 'source <(treadle completion bash)' >> ~/.bashrc
    zsh    echo 'source <(treadle completion zsh)' >> ~/.zshrc      # after compinit
    fish   treadle completion fish > ~/.config/fish/completions/treadle.fish

    It covers `treadle` and the `heimdall-*` commands. Make it anew after an update.
    """
    if kind is not None:
        try:
            click.echo(rows(kind), nl=False)
        except (TreadleError, OSError):  # offer nothing: a shell must not print an error in the middle of a line
            pass
        return
    if shell is None:
        raise click.UsageError(f"which shell? {', '.join(SHELLS)}")

    click.echo(script(shell, every()), nl=False)
