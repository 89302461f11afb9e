"""The options shared by every way of running an agent, and the SessionSpec they make."""

from __future__ import annotations

import math
import os
import re
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, TypeVar, get_args

import click
import msgspec

from treadle import __version__, session
from treadle.agent.tools import BUILTIN
from treadle.errors import ConfigError
from treadle.events import Warned
from treadle.io.files import read
from treadle.io.paths import here
from treadle.session import Session, Subagent
from treadle.settings import claude
from treadle.settings.claude import ClaudeSettings
from treadle.wire.oneshot.arguments import OURS, subagent

if TYPE_CHECKING:
    from treadle.settings.config import LoadedSettings, Settings


# Options whose value is a file or JSON: subagents, MCP servers, settings in the form of Claude Code.
#
# Programs that drive Claude Code give these. What we cannot honour is refused, never silently ignored.

VARIADIC = ("--allowedTools", "--allowed-tools", "--disallowedTools", "--denied-tools", "--disallowed-tools")
"""Options that take several words."""
_RULE = r"(?s)([\w*-]+)(\(.*\))?"


def joined(arguments: list[str]) -> list[str]:
    """Join `--allowedTools A B C` into one value: only further words that name a tool belong to it."""
    out: list[str] = []
    words = iter(arguments)
    word = next(words, None)
    while word is not None:
        out.append(word)
        if word == "--":
            return [*out, *words]
        if word in VARIADIC and (value := next(words, None)) is not None:
            word = next(words, None)
            while word is not None and _names_tools(word):
                value += f",{word}"
                word = next(words, None)
            out.append(value)
            continue
        word = next(words, None)
    return out


def _names_tools(word: str) -> bool:
    found = re.fullmatch(_RULE, word.rstrip(","))
    known = found is not None and (found[1] in OURS or found[1] in BUILTIN or found[1].startswith("mcp__"))
    return known or "," in word and all(_names_tools(part.strip()) for part in word.split(",") if part.strip())


def subagents(text: str) -> tuple[Subagent, ...]:
    """`--agents`: an object of name -> description and prompt, optionally tools, disallowedTools, model, maxTurns."""
    table = _object(text, "--agents")
    return tuple(subagent(name, entry) for name, entry in table.items())


def servers(texts: tuple[str, ...]) -> dict[str, dict[str, Any]]:
    """`--mcp-config`: files or JSON with `mcpServers`."""
    found: dict[str, dict[str, Any]] = {}
    for text in texts:
        table = _object(text, "--mcp-config")
        entries = table.get("mcpServers")
        if not isinstance(entries, dict) or not all(isinstance(entry, dict) for entry in entries.values()):
            raise ConfigError("--mcp-config has no table of servers", hint='write {"mcpServers": {"NAME": {...}}}')
        found |= entries
    return found


def claude_settings(text: str) -> ClaudeSettings:
    """`--settings`: a file or JSON. A setting that could forbid something and cannot be honoured is refused."""
    table = _object(text, "--settings")
    if table.get("sandbox"):
        raise ConfigError(
            "--settings has a sandbox, which is set up differently here", hint="`treadle docs sandbox` says how"
        )
    return claude.all_run(claude.parse(table, "--settings", here()))


def _object(text: str, option: str) -> dict[str, Any]:
    if not text.lstrip().startswith("{"):
        path, text = text, read(os.path.expanduser(text)).decode(errors="replace")
        option = f"{option} {path}"
    try:
        table = msgspec.json.decode(text)
    except msgspec.DecodeError as error:
        raise ConfigError(f"{option} is not valid JSON: {error}") from None
    if not isinstance(table, dict):
        raise ConfigError(f"{option} is not a JSON object")
    return table


def tokens(text: str, option: str) -> int:
    """A number of tokens: 200000, 200k, 1M."""
    number, factor = text.strip().lower(), 1
    if number[-1:] in ("k", "m"):
        number, factor = number[:-1], 1_000 if number.endswith("k") else 1_000_000
    if not number.isascii() or not number.isdigit() or not int(number):
        raise ConfigError(f"{option} {text} is not a number of tokens", hint="such as 200000, 200k or 1M")
    return int(number) * factor


def text_or_file(text: str | None, path: str | None) -> str | None:
    if text is not None and path is not None:
        raise ConfigError("both a system prompt and a system prompt file were given", hint="leave one of them out")
    return read(path).decode(errors="replace") if path is not None else text


def sources(text: str | None) -> tuple[str, ...] | None:
    """What --setting-sources names. `local` is Claude Code's second file of a project."""
    if text is None:
        return None
    names = tuple(name.strip() for name in text.split(",") if name.strip())
    if wrong := set(names) - {"user", "project", "local"}:
        raise ConfigError(f"there is no setting source {min(wrong)!r}", hint="user and project, with a comma between")
    return names


PREFIXES = ("openrouter", "anthropic", "openai", "ollama", "chat", "scripted")
"""The services of our own agent, as `agent.providers.names` has them: `treadle --help` must not load that."""


F = TypeVar("F", bound=Callable[..., Any])
SANDBOX = "Sandbox commands in the working directory. Default: on in auto-edit and full-auto, where available."
PORT = click.IntRange(0, 65535)
NETWORK = (
    "Network access of sandboxed commands: on, off, or a comma-separated list of hosts and groups (npm, pypi, crates, "
    "go, registries). Default in auto-edit, full-auto and orders: only what a person allows."
)
MODEL_WIRE = "How an external agent reaches its model. gateway: Treadle adds the API key and counts tokens."


class Amount(click.FloatRange):
    """A positive number. `nan` is refused: it would be a limit that is never reached."""

    def __init__(self) -> None:
        super().__init__(0, min_open=True)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if math.isfinite(amount := super().convert(value, param, ctx)):
            return amount
        self.fail(f"{value} is no limit.", param, ctx)


class OptionTable:
    """Options of a command, declared as fields of a struct: each is written once. One without a help is not listed."""

    def __init__(self) -> None:
        self._declared: list[tuple[str, dict[str, Any]]] = []

    def option(self, help_text: str = "", metavar: str | None = None, names: str = "", **how: Any) -> Any:
        """The default of a field whose value is typed after an option of its name, or of these names."""
        how = {"default": None, "help": help_text, "hidden": not help_text, "metavar": metavar, **how}
        self._declared.append((names, how))
        return how["default"]

    def flag(self, help_text: str = "", names: str = "") -> Any:
        return self.option(help_text, names=names, is_flag=True, default=False)

    def switch(self, help_text: str) -> Any:
        """`--name` and `--no-name`."""
        return self.option(help_text, names="/")

    def many(self, help_text: str, metavar: str | None = None, names: str = "", **how: Any) -> Any:
        return self.option(help_text, metavar, names, multiple=True, default=(), **how)

    def add_to(self, kind: type[msgspec.Struct], command: F) -> F:
        fields = kind.__struct_fields__[: len(self._declared)]
        for field, (names, how) in reversed(list(zip(fields, self._declared, strict=True))):
            usual = f"--{field.replace('_', '-')}"
            typed = [f"{usual}/--no-{usual[2:]}"] if names == "/" else names.split() or [usual]
            command = click.option(*typed, field, **how)(command)
        return command


RUN = OptionTable()


class RunOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What was typed: the options of every run. `spec` turns it into what a session is opened with."""

    agent: str = RUN.option(
        "The agent. Default: the one you chose with `treadle models use`, or native.", "NAME", default=""
    )
    model: str | None = RUN.option("The model: anthropic, anthropic:MODEL, openrouter:vendor/model.", "NAME")
    system_prompt: str | None = RUN.option("Replace the agent's own system prompt.", "TEXT")
    append_system_prompt: str | None = RUN.option("Add to the system prompt.", "TEXT")
    system_prompt_file: str | None = RUN.option(type=click.Path(exists=True, dir_okay=False))
    append_system_prompt_file: str | None = RUN.option(type=click.Path(exists=True, dir_okay=False))
    tools: str | None = RUN.option("Offer only these tools (comma-separated; '' for none).", "NAMES")
    allowed_tools: tuple[str, ...] = RUN.many(
        'Allow without asking: "Bash(git *),Write".', "RULES", names="--allowed-tools --allowedTools"
    )
    denied_tools: tuple[str, ...] = RUN.many(
        'Never allow: "Write(.env*)". Overrides allow rules. A bare tool name removes the tool.',
        "RULES",
        names="--denied-tools --disallowedTools --disallowed-tools",
    )
    permission_mode: str | None = RUN.option("suggest, auto-edit, full-auto, plan or yolo.", "MODE")
    dangerously_skip_permissions: bool = RUN.flag("The same as --permission-mode yolo.")
    effort: str | None = RUN.option("Reasoning effort: none, minimal, low, medium, high, xhigh, max.", "LEVEL")
    max_thinking_tokens: int | None = RUN.option(
        "Limit on reasoning tokens per model call; 0 turns it off.", "N", type=click.IntRange(0)
    )
    thinking: str | None = RUN.option(type=click.Choice(["adaptive", "enabled", "disabled"]))
    agents: str | None = RUN.option(
        'Subagents as JSON, {"NAME": {"description": ..., "prompt": ...}}, or a file.', "JSON"
    )
    mcp_config: tuple[str, ...] = RUN.many("MCP servers, as a file or as JSON.", "FILE")
    strict_mcp_config: bool = RUN.flag("Only the MCP servers of --mcp-config.")
    bare: bool = RUN.flag("Ignore the project's AGENTS.md, skills, hooks and MCP servers.")
    claude_settings: str | None = RUN.option(names="--settings")
    plugin_dir: tuple[str, ...] = RUN.many(
        "Load skills, commands and subagents from a Claude Code plugin.",
        type=click.Path(exists=True, file_okay=False),
    )
    setting_sources: str | None = RUN.option(
        "Load rules, hooks, servers, skills and AGENTS.md from: user,project.", "NAMES"
    )
    disable_slash_commands: bool = RUN.flag("Load no skills and no commands from files.")
    restricted: bool = RUN.flag("No bash, no web_fetch; ignore the user's and the project's settings.")
    safe_mode: bool = RUN.flag("Ignore AGENTS.md, skills, hooks and servers of the user and the project.")
    autocompact: str | None = RUN.option("Context size at which to compact: 200k, auto.", "TOKENS")
    max_turns: int | None = RUN.option("Stop after N model calls.", "N", type=click.IntRange(1))
    max_budget_usd: float | None = RUN.option("Stop at this cost.", "X", type=Amount())
    timeout: float | None = RUN.option("Stop after S seconds.", "S", type=Amount())
    retries: int | None = RUN.option("Retry a failing model service at most N times.", "N", type=click.IntRange(0))
    give_up_after: float | None = RUN.option("Retry it for at most S seconds.  [default: 300]", "S", type=Amount())
    continue_last: bool = RUN.flag("Continue the last session in this directory.", names="-c --continue")
    resume: str | None = RUN.option(
        "Continue a session, given by id, id prefix or name. AGENT:ID: another agent's session; atif:FILE: a "
        "trajectory.",
        "ID",
        names="-r --resume",
    )
    fork_session: bool = RUN.flag("With -c or -r: continue in a copy.")
    resume_session_at: str | None = RUN.option("With -r: continue after this message and drop later ones.", "UUID")
    session_id: str | None = RUN.option("The id of the new session.", "ID")
    name: str | None = RUN.option("Name the new session, for --resume.", "NAME", names="-n --name")
    no_session_persistence: bool = RUN.flag("Do not save the session.")
    add_dir: tuple[str, ...] = RUN.many("Another directory to work in.", type=click.Path(exists=True, file_okay=False))
    sandbox: bool | None = RUN.switch(SANDBOX)
    network: str | None = RUN.option(NETWORK, "WHAT")
    model_wire: str | None = RUN.option(MODEL_WIRE, "WAY", type=click.Choice(["gateway", "direct"]))
    record: bool = RUN.flag("Record an external agent's model calls, for `treadle replay`.")
    trust: bool = RUN.flag("Trust this project's settings for this run only.")
    as_agent: str = ""
    """The name of `--agent` if no program has it: the definition of an agent that ours shall be."""

    def loaded(self) -> LoadedSettings:
        from treadle.settings import config

        trusted = True if self.trust else None
        return config.load(here(), trusted=trusted, sources=self._sources())

    def settings(self) -> Settings:
        return self.loaded().settings

    def settled(self) -> RunOptions:
        """With the agent that was named, else that of the environment or the settings, else our own.

        A model of ours, such as `anthropic:...` or `local`, is for our own agent unless another one was named with it.
        """
        named = self.agent or ("" if self.model else os.environ.get("TREADLE_AGENT", "").strip())
        ours = (self.model or os.environ.get("TREADLE_MODEL", "").strip()).partition(":")[0] in PREFIXES
        agent = named or (None if ours else self.settings().agent) or "native"
        if self.agent and agent != "native" and not self._is_program(agent):
            return msgspec.structs.replace(self, agent="native", as_agent=agent)
        return msgspec.structs.replace(self, agent=agent)

    def _is_program(self, agent: str) -> bool:
        if any(_same_agent(agent, name) for name in self._programs()):
            return True
        from treadle.settings.extensions import extensions

        return any(each.name == agent.partition(":")[0] for each in extensions("agents"))

    def _programs(self) -> list[str]:
        from treadle.agents import names

        return names(self.settings().agents)

    def chosen(self) -> bool:
        """Whether the person has said, now or earlier, which agent or model to use."""
        going_on = self.continue_last or self.resume is not None
        named = self.agent != "native" or self.as_agent or self.model or self.theirs().model or going_on
        return bool(named or self.settings().model)

    def unasked(self) -> str:
        """What to say when a settings file of Claude Code allows everything; empty when none does."""
        if self.dangerously_skip_permissions or self.permission_mode or self.theirs().mode:
            return ""
        loaded = self.loaded()
        where = loaded.origins.get("permission_mode", "")
        if loaded.settings.mode != "yolo" or not where.endswith(".json"):  # in ours it was said to us
            return ""
        return f"everything is allowed without a question: {where} says so (--permission-mode MODE overrides it)"

    def theirs(self) -> ClaudeSettings:
        return claude_settings(self.claude_settings) if self.claude_settings else ClaudeSettings()

    def spec(self, *, answers: bool, default_mode: session.Mode) -> session.SessionSpec:
        self._agree()
        theirs = self.theirs()
        extra: dict[str, Any] = {"hooks": msgspec.to_builtins(theirs.hooks)} if theirs.hooks else {}
        extra |= {} if theirs.bypass else {"bypass": False}
        extra |= {"disabled_servers": theirs.disabled_servers} if theirs.disabled_servers else {}
        if extra and self.agent != "native":  # they may be there to forbid something: never skip them
            raise ConfigError(
                f"{self.agent} does not support {' and '.join(extra)} in --settings", hint="the native agent can"
            )
        if self.autocompact not in (None, "auto"):
            extra["context_tokens"] = tokens(str(self.autocompact), "--autocompact")
        styled = {"output_style": theirs.output_style, "language": theirs.language, "main_agent": theirs.main_agent}
        extra |= {name: value for name, value in styled.items() if value}
        asked = {"retries": self.retries, "give_up_after": self.give_up_after}
        extra |= {name: value for name, value in asked.items() if value is not None}
        if self.as_agent:
            hints = (f"programs are {', '.join(self._programs())}",)
            extra |= {"as_agent": self.as_agent, "agent_hints": hints}
        return session.SessionSpec(
            cwd=here(),
            model=self.model or theirs.model,
            instructions=session.Instructions(
                system=text_or_file(self.system_prompt, self.system_prompt_file),
                append=text_or_file(self.append_system_prompt, self.append_system_prompt_file),
                project=not self.bare and not self.safe_mode,
                sources=self._sources(),
                plugins=tuple(map(os.path.realpath, self.plugin_dir)),
                skills=() if self.disable_slash_commands else None,
                commands=not self.disable_slash_commands,
            ),
            tools=session.Toolset(
                offered=self._tools(),
                denied=("bash", "web_fetch") if self.restricted and self.tools is None else (),
                servers=servers(self.mcp_config),
                only_servers=self.strict_mcp_config or self.safe_mode,
            ),
            env=theirs.env,
            inherit_env=True,
            looks_freely=True,
            rules=session.Rules(
                allow=_split(self.allowed_tools) + theirs.rules.allow,
                ask=theirs.rules.ask,
                deny=_split(self.denied_tools) + theirs.rules.deny,
            ),
            mode=self._mode(theirs.mode) or default_mode,
            thinking=self._thinking(),
            subagents=subagents(self.agents) if self.agents else (),
            limits=session.Limits(
                max_iterations=self.max_turns, max_cost_usd=self.max_budget_usd, max_seconds=self.timeout
            ),
            add_dirs=tuple(map(os.path.realpath, self.add_dir + theirs.add_dirs)),
            start=session.Start(
                resume="" if self.continue_last else self.resume,
                fork=self.fork_session,
                at=self.resume_session_at or "",
                id=self.session_id,
                name=self.name,
                persist=not self.no_session_persistence,
            ),
            answers=answers,
            confinement=confinement(self.sandbox, self.network),
            model_wire=self.model_wire or "auto",  # type: ignore[arg-type]  # one of the choices
            record=self._recording(),
            trusted=self.trust,
            extra=extra,
        )

    def _recording(self) -> str:
        if not self.record:
            return ""
        if self.agent == "native":
            raise ConfigError("--record is for outside agents", hint="add --agent NAME")
        made = f"{time.strftime('%Y%m%d-%H%M%S')}-{os.urandom(3).hex()}"
        click.echo(f"recorded as {made}: treadle replay {made}", err=True)
        return made

    def _mode(self, theirs: str | None) -> session.Mode | None:
        if self.dangerously_skip_permissions:
            return "yolo"
        asked = self.permission_mode or theirs
        return session.parse_mode(asked) if asked else self.settings().mode

    def _sources(self) -> tuple[str, ...] | None:
        return () if self.restricted else sources(self.setting_sources)

    def _thinking(self) -> session.Reasoning:
        if self.thinking == "disabled":
            return session.Reasoning(tokens=0)
        effort = self.effort or ("medium" if self.thinking == "adaptive" and self.max_thinking_tokens is None else None)
        if effort is not None and effort not in get_args(session.Effort):
            raise ConfigError(f"there is no effort {effort!r}", hint=f"one of {', '.join(get_args(session.Effort))}")
        return session.Reasoning(effort=effort, tokens=self.max_thinking_tokens)  # type: ignore[arg-type]

    def _tools(self) -> tuple[str, ...] | None:
        if self.tools is None or self.tools == "default":
            return None
        names = tuple(OURS.get(name, name) for name in _split((self.tools,)))
        unknown = [name for name in names if name not in BUILTIN and not name.startswith("mcp__")]
        if unknown and self.agent == "native":
            raise ConfigError(f"there is no tool {unknown[0]!r}", hint=f"the tools are {', '.join(BUILTIN)}")
        return names

    def _agree(self) -> None:
        """Refuse combinations that would otherwise be silently ignored."""
        going_on = self.continue_last or self.resume is not None
        if "" in (self.resume, self.session_id):
            raise ConfigError(
                "the id of a session cannot be empty", hint="perhaps a variable of your script is not set"
            )
        if self.continue_last and self.resume is not None:
            raise ConfigError("--continue and --resume name two sessions", hint="give one of them")
        if self.fork_session and not going_on:
            raise ConfigError("--fork-session needs a session to copy", hint="add --resume ID or --continue")
        if self.resume_session_at and self.resume is None:
            raise ConfigError("--resume-session-at names a message of a session", hint="add --resume ID")
        if self.session_id is not None and going_on and not self.fork_session:
            raise ConfigError("--session-id is for a new session", hint="add --fork-session to continue in a copy")


def _same_agent(typed: str, name: str) -> bool:
    """Whether the name that was typed is that of this agent, which may be one such as `worker:COMMAND`."""
    return typed == name or typed.partition(":")[0] == name.partition(":")[0]


def confinement(sandbox: bool | None, network: str | None = None) -> session.Confinement:
    """The confinement asked for on the command line. Only a sandbox can limit the network, so a limit asks for one.

    Raises ConfigError when this machine cannot provide it.
    """
    from treadle.policy.network import parse_network

    reach: Literal["auto", "on", "off"]
    reach, hosts = parse_network(network) if network is not None else ("auto", ())
    if reach == "off":
        if sandbox is False:
            raise ConfigError("with --no-sandbox nothing can limit the network", hint="leave out --network")
        sandbox = True
    use: Literal["auto", "on", "off"] = "auto" if sandbox is None else "on" if sandbox else "off"
    asked = session.Confinement(use=use, network=reach, hosts=hosts)
    if use == "on":
        from treadle.io.sandbox import methods

        methods.wanted(asked, None)  # refuse now rather than at the first command
    return asked


def _split(values: tuple[str, ...]) -> tuple[str, ...]:
    """Split rules at commas and spaces, except inside parentheses, where they belong to the rule."""
    found, depth, word = [], 0, ""
    for character in ",".join(values) + ",":
        depth += (character == "(") - (character == ")")
        if (character == "," or character.isspace()) and depth <= 0:
            if word.strip():
                found.append(word.strip())
            word = ""
        else:
            word += character
    return tuple(found)


def serving_options(command: F) -> F:
    """Options of the commands that serve an agent on their standard streams."""
    command = click.version_option(__version__, message="%(prog)s %(version)s")(command)
    command = click.option("--network", metavar="WHAT", help=NETWORK)(command)
    command = click.option("--sandbox/--no-sandbox", default=None, help=SANDBOX)(command)
    return click.option(
        "--agent",
        default=lambda: os.environ.get("TREADLE_AGENT") or "native",
        show_default="$TREADLE_AGENT, or native",
        help="The agent to serve.",
    )(command)


def run_options(command: F) -> F:
    """Add the shared options to a click command; `take` then makes RunOptions of them."""
    return RUN.add_to(RunOptions, command)


def take(values: dict[str, Any]) -> RunOptions:
    """Remove the shared options from a click command's arguments."""
    return RunOptions(**{name: values.pop(name) for name in RunOptions.__struct_fields__ if name in values}).settled()


# What a person should know before the first turn: ignored settings, servers that did not start.


def opening_notes(session: Session) -> list[str]:
    """The warnings of a session that was just opened."""
    return [event.message for event in session.events().ready() if isinstance(event, Warned)]
