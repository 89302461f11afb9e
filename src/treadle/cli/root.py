"""The command tree. A command is one line here and one module beside this one, imported when it is used."""

import importlib
import logging
import os
import stat
import sys
from contextlib import suppress

import click

from treadle import __version__
from treadle.cli import logs
from treadle.cli.arguments import PRINT, TERMINAL
from treadle.errors import ConfigError, TreadleError

log = logging.getLogger(__name__)
GROUPS: dict[str, dict[str, tuple[str, str]]] = {
    "Use an agent": {
        "chat": ("treadle.cli.chat.command:chat", "Chat with an agent in this directory."),
        "demo": ("treadle.cli.fleet.demo:demo", "Watch agents fix failing tests in a temporary repository."),
        "init": (
            "treadle.cli.project:init",
            "Set this repository up for agents: AGENTS.md, test command, settings, claims.",
        ),
        "sessions": ("treadle.cli.sessions:sessions", "List, show, export or remove saved sessions."),
        "git": ("treadle.cli.sessions:git_", "Recover unfinished git work from sandboxed sessions."),
        "trust": (
            "treadle.cli.project:trust",
            "Trust the project in DIR (default: the current directory) with its files as they are now.",
        ),
    },
    "Integrations": {
        "acp": (
            "treadle.cli.doors:acp",
            "Serve an agent to an editor over the Agent Client Protocol (stdin and stdout).",
        ),
        "a2a": ("treadle.cli.doors:a2a", "Serve an agent over HTTP with A2A, the Agent2Agent protocol."),
        "app-server": (
            "treadle.cli.doors:app_server",
            "Serve any agent in place of `codex app-server`, for the Codex SDK and editors.",
        ),
        "door": ("treadle.cli.doors:door", "Serve an agent over a protocol that an installed extension adds."),
        "mcp": ("treadle.cli.doors:mcp", "Serve agents as tools of an MCP server (stdin and stdout)."),
        "exec": (
            "treadle.cli.oneshot:exec_",
            "Run one prompt with any agent in place of `codex exec`, for the Codex SDK and scripts.",
        ),
        "worker": (
            "treadle.cli.doors:worker",
            "Serve an agent as a worker: one JSON object per line on stdin and stdout.",
        ),
        "sidecar": (
            "treadle.cli.doors:sidecar",
            "Serve an agent to an abp/v0.1 control plane: one JSON object per line on stdin and stdout.",
        ),
        "host": ("treadle.cli.host:host", "Run an abp/v0.1 sidecar and get a verifiable receipt."),
        "verify": (
            "treadle.cli.project:verify",
            "Run a commit's own tests and configuration against the changes in this checkout.",
        ),
        "evidence": ("treadle.cli.project:evidence", "Summarize the evidence for a run or an order on one screen."),
        "receipt": ("treadle.cli.receipt:receipt", "List, show or verify receipts of runs."),
        "conform": ("treadle.cli.conform:conform", "Test a program's conformance to a protocol, clause by clause."),
    },
    "Terminals that outlive your session": {
        name: (f"treadle.cli.terminal.listed:{name}", summary) for name, (_, summary) in TERMINAL.items()
    },
    "Run many agents": {
        "fleet": (
            "treadle.cli.fleet:fleet",
            "Run many agents on one or more machines, without lost tasks or edit conflicts.",
        ),
        "land": ("treadle.cli.fleet.land:land", "Merge finished work into a branch."),
        "blame": ("treadle.cli.fleet.land:blame", "Show which order wrote a line, what was asked, and its cost."),
        "goal": (
            "treadle.cli.fleet.goal:goal",
            "Carry out a goal: agents plan it, do the work, review it and land it.",
        ),
        "serve": ("treadle.cli.serve:serve", "Serve the web page and HTTP API for the fleet and the terminals."),
    },
    "Share a repository between agents": {
        "coord": (
            "treadle.cli.project:coord",
            "Coordinate agents that share a repository: file claims, identities, messages, token use.",
        )
    },
    "Set up and inspect": {
        "agents": ("treadle.cli.agents:agents", "List the agents on this machine, or sign in to one."),
        "extensions": ("treadle.cli.agents:extensions", "List installed extensions, and allow those that you trust."),
        "completion": ("treadle.cli.help:completion", "Print a completion script for your shell."),
        "docs": ("treadle.cli.help:docs", "List the pages of the documentation, or show one."),
        "doctor": (
            "treadle.cli.doctor:doctor",
            "Check this machine: state, settings, models, agents, extras, sandbox, fleet.",
        ),
        "gc": (
            "treadle.cli.gc:gc",
            "Remove stored sessions, terminals, workspaces and recordings that are past their limit.",
        ),
        "models": ("treadle.cli.models:models", "List the available models, or choose the default model or agent."),
        "ps": (
            "treadle.cli.doctor:ps",
            "List the processes that treadle runs: agents, their tools, terminals, background tasks.",
        ),
    },
}
"""Heading -> command name -> "module:attribute" of a click command, and the first line of its help: so `treadle --help`
imports none of them."""
COMMANDS = {name: place for group in GROUPS.values() for name, (place, _) in group.items()}

HELP = ["-h", "--help"]

FORMER: dict[str, str] = {
    "fleet land": "land",
    "fleet merge": "land now --no-help",
    "fleet retry": "fleet again",
    "fleet requeue": "fleet again --failed",
    "fleet send-back": "fleet again ORDER --text TEXT",
    "fleet review --comments": "fleet again ORDER --comments FILE",
    "land retry": "fleet again",
    "goal retry": "fleet again GOAL",
    "fleet clean": "fleet keep",
    "clean": "gc terminals --dry-run",
    "host kept": "gc runs --dry-run",
    "host discard": "gc runs:RUN",
    "receipt discard": "gc runs evidence --with-work",
    "git list": "gc git --dry-run",
    "git drop": "gc git:SESSION",
    "man": "COMMAND --help",
    "top": "fleet ls --watch",
}
"""Former names of commands, and what they are now. One whose arguments were others is refused and not forwarded."""

REMOVED: dict[str, str] = {
    "agents add": "`treadle -p --agent 'acp:COMMAND'`, or the command in `[agents.NAME]` of your settings",
    "agents refresh": "`treadle agents` lists what is installed",
    "detectors test": "`treadle explain TERMINAL` shows what was recognized",
    "fleet backup": "`treadle fleet down`, then copy the directory `fleet` of the state directory",
    "fleet phone": "`treadle serve --link --right answer`",
    "fleet restore": "`treadle fleet down`, then put the copied directory `fleet` back",
    "fleet search": "the field of the page, or `treadle fleet ls --json`",
    "fleet weight": "`treadle fleet set ORDER --priority N`",
    "goal export": "`treadle goal report GOAL --json`",
    "goal import": "`treadle goal plan --from FILE|DIR|ISSUE`",
    "goal trail": "`treadle goal report GOAL --json`",
    "models pull": "a server such as Ollama: `treadle docs use-a-local-model`",
    "receipt diff": "`diff` or `jq` on `treadle receipt show FILE --json`",
    "receipt repair": "nothing: the next run repairs what is damaged",
    "rename": "`treadle run --id NAME` names a terminal",
    "sessions search": "`rg WORDS` in the directory `sessions` of the state directory",
    "warm": "nothing: it happens automatically",
}
"""Commands that are gone, and what to use in their place."""


def current(arguments: list[str]) -> list[str]:
    """The arguments with the name that a command has now, which is said if it is another."""
    for gone, instead in REMOVED.items():
        if _names(gone, arguments):
            raise ConfigError(f"`treadle {gone}` was removed", hint=f"instead: {instead}")
    for former, now in FORMER.items():
        if _names(former, arguments):
            note = f"`treadle {former}` is `treadle {now}` now"
            if not now.islower():
                raise ConfigError(note)
            print(f"treadle: {note}", file=sys.stderr)
            return [*now.split(), *arguments[len(former.split()) :]]
    return arguments


def _names(former: str, arguments: list[str]) -> bool:
    words, command = former.split(), former.partition(" --")[0].split()
    return arguments[: len(command)] == command and all(word in arguments for word in words)


class LazyGroup(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        return load(COMMANDS[name]) if name in COMMANDS else None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            raise click.UsageError(_meant(args[0]), ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        width = max(map(len, COMMANDS))
        for heading, group in GROUPS.items():
            with formatter.section(heading):
                formatter.write_dl([(name.ljust(width), summary) for name, (_, summary) in group.items()])


def _meant(word: str) -> str:
    """Guess what was meant by a word that is not a command."""
    import shlex
    from difflib import get_close_matches

    if any(letter.isspace() for letter in word):
        quoted = shlex.quote(word)
        return f"a prompt needs -p: treadle -p {quoted} (or `treadle chat {quoted}` to talk about it)"
    near = get_close_matches(word, COMMANDS, n=1)
    return f"there is no command {word!r}" + (f": did you mean `treadle {near[0]}`?" if near else "")


def _talks(first: str) -> bool:
    """Whether a command line with this first word opens a chat: an empty one, or one that begins with a prompt."""
    return not first or any(letter.isspace() for letter in first)


def _piped() -> bool:
    """Whether stdin is a pipe or a file: then it is the prompt."""
    try:
        mode = os.fstat(0).st_mode
    except OSError:
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISREG(mode)


def load(place: str) -> click.Command:
    module, attribute = place.split(":")
    command = getattr(importlib.import_module(module), attribute)
    assert isinstance(command, click.Command)
    return command


def _show_skill(ctx: click.Context, parameter: click.Parameter, wanted: bool) -> None:
    if wanted:
        from treadle.io.files import read

        click.echo(read(os.path.join(os.path.dirname(__file__), "skill.md")).decode(), nl=False)
        ctx.exit()


@click.group(cls=LazyGroup)
@click.option(
    "--skill",
    is_flag=True,
    expose_value=False,
    is_eager=True,
    callback=_show_skill,
    help="Print a skill (SKILL.md) that teaches an agent to use Treadle.",
)
@click.version_option(__version__, prog_name="treadle", message="%(prog)s %(version)s")
def treadle() -> None:
    """Run, supervise and coordinate coding agents. Works with any agent and any protocol.

    \b
    treadle                          chat with an agent in this directory
    treadle "why does it fail?"      the same, starting with this prompt
    treadle -p "fix the test"        run one prompt and print the answer
    treadle -p --help                list the options of a run
    treadle models use               choose a default model or agent
    treadle init                     set this repository up for agents

    No API key yet? `treadle demo` runs without one.
    """


def main(arguments: list[str]) -> None:
    """Run a command. A known error, or a missing file, becomes one line on stderr and its exit code."""
    try:
        logs.set_up()
        log.info("treadle %s begins: %s", __version__, arguments[0] if arguments else "a chat")
        sys.exit(_run(arguments))
    except SystemExit as ended:
        log.info("ends with %s", ended.code or 0)
        raise
    except (TreadleError, OSError) as error:
        log.info("ends with an error: %s", error)
        print(f"treadle: {error}", file=sys.stderr)
        if _wants_json(arguments):
            _show_failure(error)
        sys.exit(error.ends_with if isinstance(error, TreadleError) else 1)


def _show_version() -> int:
    """`treadle version --json`: what a script or a bug report needs to know of this installation."""
    import platform

    from treadle.cli.as_json import show_json
    from treadle.installation import PROVIDES, has

    system = f"{platform.system()} {platform.release()} {platform.machine()}"
    parts = {extra: has(extra) for extra in PROVIDES}
    found = {"version": __version__, "python": platform.python_version(), "executable": sys.executable}
    show_json({**found, "system": system, "parts": parts})
    return 0


def _wants_json(arguments: list[str]) -> bool:
    """Whether a one-shot run was asked for JSON: a script then reads its failure on stdout too."""
    words = arguments[: arguments.index("--")] if "--" in arguments else arguments
    if not words or words[0] in COMMANDS or PRINT.isdisjoint(words):
        return False
    formats = [word.partition("=")[2] for word in words if word.startswith("--output-format=")]
    formats += [after for word, after in zip(words, words[1:], strict=False) if word == "--output-format"]
    return bool(formats) and formats[-1] in ("json", "stream-json")


def _show_failure(error: TreadleError | OSError) -> None:
    """The result record of a run that could not begin."""
    from treadle.doors.oneshot.run import not_begun
    from treadle.io.streams import stdout_is_taken
    from treadle.wire.common.connection import json_line

    if stdout_is_taken():
        return  # the run has written its own
    with suppress(OSError):
        sys.stdout.buffer.write(json_line(not_begun(error)))
        sys.stdout.flush()


def _run(arguments: list[str]) -> int | None:
    """`treadle -p ...` and bare `treadle` are commands of their own; everything else is in the tree."""
    arguments = current(arguments)
    words = arguments[: arguments.index("--")] if "--" in arguments else arguments
    if arguments[:1] == ["help"]:
        arguments = words = [*arguments[1:], "--help"]
    elif arguments == ["version"]:
        arguments = words = ["--version"]
    elif arguments == ["version", "--json"]:
        return _show_version()
    elif not arguments and _piped():
        arguments = words = ["-p"]
    first = words[0] if words else ""
    once = first not in COMMANDS and not PRINT.isdisjoint(words)
    if once:
        from treadle.cli.options import joined

        if first == "-p":
            arguments = ["--print", *arguments[1:]]  # behind a single letter click looks for similar names first
        arguments = joined(arguments)
        command = load("treadle.cli.oneshot:oneshot")
    elif first.startswith("-") and first not in [*HELP, "--version", "--skill"] or _talks(first) and sys.stdin.isatty():
        command = load(COMMANDS["chat"])
    else:
        command, arguments = treadle, arguments or ["--help"]
    try:
        code: int | None = command.main(arguments, "treadle", standalone_mode=False, help_option_names=HELP)
        return code
    except click.ClickException as wrong:
        if once:  # to a script, a wrong option is a failure like any other
            hint = "`treadle -p --help` lists the options"
            raise ConfigError(wrong.format_message().rstrip("."), hint=hint) from None
        wrong.show()
        return wrong.exit_code
    except click.Abort:
        return 130
