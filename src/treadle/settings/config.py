"""Settings: defaults, then the user's `config.toml`, then the project's `.treadle/config.toml`, the environment, flags.

A project's file comes with a cloned repository, so until a person trusts it (`settings/trust.py`) it may only narrow
what is allowed: forbid more, ask more, lower limits. Anything beyond that is ignored and listed in
`LoadedSettings.ignored`. API keys never come from a project's file, trusted or not.
"""

import os
import re
from collections.abc import Mapping
from functools import cache
from typing import Annotated, Any, Literal, TypeAlias, get_args, get_type_hints

import msgspec
from msgspec import Meta

from treadle.errors import ConfigError, StorageError, TreadleError
from treadle.io.files import read
from treadle.io.paths import config_file
from treadle.policy.network import parse_network
from treadle.policy.rules import stricter
from treadle.redact import is_secret_name
from treadle.session import Limits, Mode, Rules, parse_mode
from treadle.settings import claude, trust
from treadle.settings.claude import ClaudeFile, CommandHook

# `[sandbox]` of the settings. `sandbox = true` and `sandbox = false` are short for its `use`.

Size: TypeAlias = Annotated[str, Meta(pattern=r"^(off|\d+ ?([KMGT]B?)?)$", description="off, or as 4GB")]
UNITS = {"": 0, "K": 10, "M": 20, "G": 30, "T": 40}


class SandboxSettings(msgspec.Struct, frozen=True, kw_only=True):
    use: bool | None = None
    """True: always, else refuse to run; False: never; None: in auto-edit and full-auto, if the machine supports it."""
    read: tuple[str, ...] = ()
    """Places of the home directory that confined programs may read, beside programs and packages: `~/.aws`."""
    sockets: tuple[str, ...] = ()
    """Unix sockets outside that confined programs may reach: absolute, below `~`, or the `$VARIABLE` that names one."""
    memory: Size | None = None
    """How much memory one command and all that it starts may use: `4GB`, `off`; None: 90 % of the machine's."""
    processes: Annotated[int, Meta(ge=0)] | None = None
    """How many processes and threads, at once; 0: no limit; None: 8192."""
    disk: Size | None = None
    """How much one command may write; None: until little is left on the disk; `off`: all of it."""


def size(text: str | None) -> int | None:
    """Bytes; 0 for `off`."""
    if text is None or text == "off":
        return None if text is None else 0
    number = text.rstrip("BKMGT ")
    return int(number) << UNITS[text[len(number) :].strip(" B")]


def written_out(table: dict[str, Any]) -> dict[str, Any]:
    """A table of settings with the short form replaced."""
    use = table.get("sandbox")
    return {**table, "sandbox": {"use": use}} if isinstance(use, bool) else table


class Hook(msgspec.Struct, frozen=True, kw_only=True):
    command: str
    matcher: str = "*"
    """A permission rule. The hook runs for the tool calls that match it."""
    timeout: float = 10.0


class HookSettings(msgspec.Struct, frozen=True, kw_only=True):
    pre_tool: tuple[Hook, ...] = ()
    post_tool: tuple[Hook, ...] = ()
    turn_end: tuple[Hook, ...] = ()
    events: tuple[CommandHook, ...] = ()
    """Hooks in Claude Code's form: `event`, `matcher`, `command`, `timeout`."""


class McpServer(msgspec.Struct, frozen=True, kw_only=True):
    """Either a command that speaks on its standard streams, or a URL."""

    command: str = ""
    args: tuple[str, ...] = ()
    env: dict[str, str] = {}
    cwd: str = ""
    url: str = ""
    headers: dict[str, str] = {}
    type: str = ""
    """For files written for other programs: stdio, http, streamable-http. Not needed, because the rest implies it."""
    disabled: bool = False


class BackendCommand(msgspec.Struct, frozen=True, kw_only=True):
    """A sidecar that `treadle host` can start."""

    command: str
    args: tuple[str, ...] = ()
    env: tuple[str, ...] = ()
    """Names of further environment variables that it may see."""
    timeout_secs: float | None = None


class AgentSettings(msgspec.Struct, frozen=True, kw_only=True):
    """An outside agent, `[agents.NAME]`: changes to one that we know, or an agent of the person's own."""

    speaks: str = ""
    """The agent whose driver to use, such as `acp` or `claude`; required for a name that we do not know."""
    command: str = ""
    arguments: tuple[str, ...] = ()
    env: tuple[str, ...] = ()
    """Names of further environment variables that it may see."""
    set: dict[str, str] = {}
    """Environment variables to set for it."""
    model: str | None = None
    models: dict[str, str] = {}
    """Your name for a model -> the agent's name for it."""
    permission_mode: str | None = None
    options: dict[str, Any] = {}
    """Options that only this agent understands; its page in the docs lists them."""
    writes: tuple[str, ...] = ()
    """Directories of its own that it may write in a sandbox, beside the workspace: `~/.x` or `$VARIABLE`."""
    hosts: tuple[str, ...] = ()
    """The hosts of its service, which it reaches where the network is limited."""

    @property
    def mode(self) -> Mode | None:
        return None if self.permission_mode is None else parse_mode(self.permission_mode)


class Timeouts(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds."""

    tool: float = 120.0
    mcp_start: float = 10.0
    question: float = 300.0
    interrupt: float = 5.0
    agent_start: float = 60.0
    """For an outside agent to open a session; up to four times as long where more runs than the machine has cores."""


class ChatSettings(msgspec.Struct, frozen=True, kw_only=True):
    notify: tuple[Literal["bell", "desktop", "title"], ...] = ("bell", "title")
    """How a chat calls you when it waits for you, or is done after a long turn: bell, desktop (OSC 9 or 777), title."""
    theme: Literal["auto", "light", "dark"] = "auto"
    """auto: as the terminal says in COLORFGBG, else dark."""
    vim: bool = False
    keys: dict[str, str] = {}
    """What to do -> the key that does it, such as `mode = "c-t"`."""


class ContextSettings(msgspec.Struct, frozen=True, kw_only=True):
    protect_tokens: Annotated[int, msgspec.Meta(ge=0)] = 40_000
    compact_at: Annotated[float, msgspec.Meta(gt=0, le=1)] = 0.8
    mcp_tokens: Annotated[int, msgspec.Meta(ge=0)] = 10_000
    """If the tools of MCP servers take more tokens than this, the agent finds them by search instead."""


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    agent: str | None = None
    """The agent of `treadle` and `treadle -p`; None: our own."""
    model: str | None = None
    weak_model: str | None = None
    models: dict[str, Any] = {}
    """base_url, api_key, headers, prices ...: checked by the providers that use them."""
    key_command: str | None = None
    """A command that prints the API key; run when no variable and no setting has it."""
    system_prompt: str | None = None
    append_system_prompt: str | None = None
    permission_mode: str | None = None
    permissions: Rules = Rules()
    tools: tuple[str, ...] | None = None
    add_dirs: tuple[str, ...] = ()
    sandbox: SandboxSettings = SandboxSettings()
    network: str | None = None
    """on, off, or a comma-separated list of the hosts that programs in the sandbox may reach."""
    model_wire: Literal["auto", "gateway", "direct"] = "auto"
    """How outside agents reach their models: through our gateway where that can be (auto), always, or by themselves."""
    web_fetch_private: bool = False  # whether web_fetch may reach this machine and the local network
    env: tuple[str, ...] = ()
    """Names (or `PREFIX_*`) of further environment variables that children may see."""
    variables: dict[str, str] = {}  # environment variables to set for tools, hooks and servers
    language: str | None = None  # in which the agent answers
    main_agent: str | None = None  # the subagent whose prompt, tools and model the conversation itself has
    output_style: str | None = None
    """The name of an output style: what it says is added to the system prompt."""
    bypass: bool = True
    """False: no session may skip all permissions (mode yolo)."""
    limits: Limits = Limits()
    timeouts: Timeouts = Timeouts()
    context: ContextSettings = ContextSettings()
    chat: ChatSettings = ChatSettings()
    hooks: HookSettings = HookSettings()
    mcp_servers: dict[str, McpServer] = {}
    backends: dict[str, BackendCommand] = {}
    agents: dict[str, AgentSettings] = {}
    extensions: dict[str, str] = {}
    """Distributions whose agents, doors and forges may be used, each in this version."""
    terminal: dict[str, Any] = {}
    """Checked by the terminals, which read it themselves."""
    verify: dict[str, Any] = {}
    """Read from the project's commit, trusted or not, by what verifies work."""

    @property
    def mode(self) -> Mode | None:
        return None if self.permission_mode is None else parse_mode(self.permission_mode)

    def check_bypass(self) -> None:
        """Raises ConfigError when no session may skip all permissions."""
        if not self.bypass:
            raise ConfigError("the settings forbid skipping all permissions", hint="choose another --permission-mode")


class LoadedSettings(msgspec.Struct, frozen=True, kw_only=True):
    settings: Settings
    files: tuple[str, ...] = ()
    """The files that were read, in order."""
    warnings: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()
    """What an untrusted project asked for and was not given."""
    project: str | None = None
    """The directory that holds the project's `.treadle`."""
    trusted: bool = False
    forbids: tuple[str, ...] = ()
    """What of Claude Code's files may forbid something and is not kept by our own agent, a sentence each."""
    unreachable: tuple[str, ...] = ()
    """Models of Claude Code's files that cannot be used here, with their file."""
    origins: dict[str, str] = {}
    """Where the `model` and the `permission_mode` come from: a file, or a variable."""


ENVIRONMENT: dict[str, tuple[str, ...]] = {
    "TREADLE_AGENT": ("agent",),
    "TREADLE_MODEL": ("model",),
    "TREADLE_WEAK_MODEL": ("weak_model",),
    "TREADLE_PERMISSION_MODE": ("permission_mode",),
    "TREADLE_SYSTEM_PROMPT": ("system_prompt",),
    "TREADLE_SANDBOX": ("sandbox", "use"),
    "TREADLE_NETWORK": ("network",),
    "TREADLE_MODEL_WIRE": ("model_wire",),
    "TREADLE_TOOLS": ("tools",),
    "TREADLE_MAX_ITERATIONS": ("limits", "max_iterations"),
    "TREADLE_MAX_COST_USD": ("limits", "max_cost_usd"),
    "TREADLE_MAX_TOKENS": ("limits", "max_tokens"),
    "TREADLE_MAX_SECONDS": ("limits", "max_seconds"),
}
"""Environment variables for settings. Providers read their own variables themselves."""
_SECRETS = (("key_command",), ("models", "api_key"), ("models", "headers"), ("extensions",))
_GROWING = ("permissions", "hooks", "mcp_servers", "add_dirs", "sandbox")
"""Lists, and tables with them, to which every layer adds; elsewhere a later layer replaces an earlier one."""


def load(
    cwd: str,
    environ: Mapping[str, str] | None = None,
    flags: Mapping[str, Any] | None = None,
    *,
    trusted: bool | None = None,
    sources: tuple[str, ...] | None = None,
) -> LoadedSettings:
    """All layers combined. `flags` has the shape of the file. `trusted` None: as `treadle trust` recorded it.

    With `sources`, the project's file is read only if `project` is among them; and only if `user` is, the user's own
    file runs hooks, starts servers and allows something. Models, keys and what the user forbids always hold.
    """
    environ = os.environ if environ is None else environ
    if sources is None or "user" in sources:
        environ = {**claude.own_variables(environ), **environ}
    warnings: list[str] = []
    ignored: list[str] = []
    files: list[str] = []
    theirs = _Theirs(reaches=_reaches(environ), warnings=warnings, ignored=ignored, files=files)
    merged = _own(environ, sources, theirs)
    project = find_project(cwd) if sources is None or "project" in sources else None
    others = claude.project_files(cwd, sources, ignored) if sources is None or {"project", "local"} & {*sources} else []
    place = project or (others[-1].project if others else None)
    if place is not None and not trusted and (owner := trust.foreign_owner(place)):
        ignored.append(f"{place}: {owner}")
        project, others = None, []
    given = trusted
    for file in others:
        trusted = trust.is_trusted(file.project or cwd) if given is None else given
        merged = _with_claude(merged, file, trusted, theirs)
    if project is not None:
        path = os.path.join(project, ".treadle", "config.toml")
        files.append(path)
        trusted = trust.is_trusted(project) if given is None else given
        try:
            table = _without_secrets(read_file(path, warnings), path, warnings)
            merged = _over(merged, table if trusted else _narrowed(merged, table, path, ignored), path)
        except TreadleError as error:
            if trusted:
                raise
            ignored.append(str(error))  # the file is not trusted, so a mistake in it must not keep people from working
    merged = _over(merged, _from_environment(environ), "")
    merged = _over(merged, dict(flags or {}), "the command line")
    if (managed := claude.managed_file()) is not None:
        merged = _with_claude(merged, managed, True, theirs)
    origins = merged.pop(_ORIGINS, {})
    return LoadedSettings(
        settings=_convert(merged, "the command line"),
        files=tuple(files),
        warnings=tuple(warnings),
        ignored=tuple(ignored),
        project=project or place,
        trusted=bool(trusted),
        forbids=tuple(theirs.forbids),
        unreachable=() if merged.get("model") else tuple(theirs.unreachable),
        origins=origins,
    )


_ORIGINS = "came from"
"""Beside the settings, while they are merged: which layer each comes from."""


class _Theirs(msgspec.Struct, kw_only=True):
    """What is to be reported about Claude Code's files, and what of them can be used."""

    reaches: bool
    """Whether Claude Code's models can be reached: it has a login of its own, which we cannot use."""
    files: list[str]
    warnings: list[str]
    ignored: list[str]
    model: str | None = None
    """The model that Claude Code's variables name, which goes before those of its files."""
    forbids: list[str] = []
    unreachable: list[str] = []


def _reaches(environ: Mapping[str, str]) -> bool:
    if environ.get("TREADLE_BASE_URL"):  # then every model is asked for there
        return False
    return any(environ.get(f"ANTHROPIC_{name}") for name in ("API_KEY", "AUTH_TOKEN", "BASE_URL"))


def _over(merged: dict[str, Any], table: dict[str, Any], where: str) -> dict[str, Any]:
    """Merged with a further layer, remembering which one each comes from; an empty `where` is the environment."""
    origins = {key: where or f"TREADLE_{key.upper()}" for key in ("model", "permission_mode") if key in table}
    return _merge(merged, {**written_out(table), _ORIGINS: origins})


def _own(environ: Mapping[str, str], sources: tuple[str, ...] | None, theirs: _Theirs) -> dict[str, Any]:
    """The user's own files: Claude Code's first, then ours."""
    merged: dict[str, Any] = {}
    used = sources is None or "user" in sources
    user = config_file()
    table = read_file(user, theirs.warnings) if os.path.exists(user) else None
    theirs.reaches = theirs.reaches and not (table or {}).get("models", {}).get("base_url")
    if theirs.reaches and (named := claude.ClaudeVariables.read(environ).model) and claude.reachable(named):
        theirs.model = named
        merged = _over(merged, {"model": named}, "ANTHROPIC_MODEL")
    if used and (file := claude.own_file(environ)) is not None:
        merged = _with_claude(merged, file, True, theirs)
    if table is None:
        return merged
    theirs.files.append(user)
    if not used:
        forbidden = {name: rules for name, rules in table.get("permissions", {}).items() if name != "allow"}
        table = {**table, "permissions": forbidden, "hooks": {}, "mcp_servers": {}}
    return _over(merged, table, user)


def _with_claude(merged: dict[str, Any], file: ClaudeFile, trusted: bool, theirs: _Theirs) -> dict[str, Any]:
    """Add what a settings file of Claude Code says."""
    theirs.files.append(file.path)
    table = file.settings.table()
    try:
        _convert(table, file.path)
    except ConfigError as error:
        if trusted:
            raise
        theirs.ignored.append(str(error))
        return merged
    reading = file.settings.reading + (file.settings.of_hooks if trusted else claude.Reading())
    if reading.notice:
        theirs.warnings.append(f"{file.path}: {reading.notice}")
    theirs.forbids += reading.refusals(file.path)
    if not trusted:
        return _over(merged, _narrowed(merged, table, file.path, theirs.ignored), file.path)
    if (model := file.settings.model) and (theirs.model or not (theirs.reaches and claude.reachable(model))):
        del table["model"]
        if theirs.reaches and not theirs.model:
            theirs.unreachable.append(f"{file.path}: the model {model!r} of Claude Code cannot be used here")
    return _over(merged, table, file.path)


def find_project(cwd: str) -> str | None:
    """The nearest directory with a `.treadle/config.toml`, from here up to the top of the git repository."""
    for directory in trust.up_to_top(cwd):
        if os.path.isfile(os.path.join(directory, ".treadle", "config.toml")):
            return directory
    return None


def read_file(path: str, warnings: list[str]) -> dict[str, Any]:
    """One file as a table that has only known keys, with the right types."""
    import tomllib  # imported late: most projects have no such file

    try:
        table = tomllib.loads(read(path).decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} is not valid TOML: {error}") from error
    known = _known_part(table, Settings, path, warnings)
    _convert(known, path)
    return known


_hints = cache(get_type_hints)


def _known_part(
    table: dict[str, Any], shape: type[msgspec.Struct], path: str, warnings: list[str], at: str = ""
) -> dict[str, Any]:
    hints = _hints(shape)
    known = {}
    for key, value in table.items():
        if key not in hints:
            warnings.append(f"{path}: there is no setting {at}{key}")
            continue
        known[key] = _known_value(value, hints[key], path, warnings, f"{at}{key}.")
    return known


def _known_value(value: Any, hint: Any, path: str, warnings: list[str], at: str) -> Any:
    inner = [hint, *get_args(hint)]
    shape = next((one for one in inner if isinstance(one, type) and issubclass(one, msgspec.Struct)), None)
    if shape is None:
        return value
    if isinstance(value, list):
        return [_known_value(item, shape, path, warnings, at) for item in value]
    if isinstance(value, dict) and hint is not shape:
        return {name: _known_value(item, shape, path, warnings, f"{at}{name}.") for name, item in value.items()}
    return _known_part(value, shape, path, warnings, at) if isinstance(value, dict) else value


def _convert(table: dict[str, Any], path: str) -> Settings:
    try:
        settings = msgspec.convert(written_out(table), Settings)
    except msgspec.ValidationError as error:
        what, _, where = str(error).partition(" - at `")
        key = where.rstrip("`").removeprefix("$").removeprefix(".") or "a setting"
        raise ConfigError(f"{path}: {key}: {what}") from error
    try:
        _ = settings.mode, [agent.mode for agent in settings.agents.values()]
        if settings.network is not None:
            parse_network(settings.network)
        rules, hooks = settings.permissions, settings.hooks
        matchers = [hook.matcher for hook in (*hooks.pre_tool, *hooks.post_tool, *hooks.turn_end)]
        if written := [*rules.allow, *rules.ask, *rules.deny, *matchers]:
            from treadle.policy.rules import parse_rule

            for rule in written:
                parse_rule(rule)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error.message}", hint=error.hint) from error
    return settings


def _merge(below: dict[str, Any], above: dict[str, Any], grows: bool = False) -> dict[str, Any]:
    merged = dict(below)
    for key, value in above.items():
        old, adds = merged.get(key), grows or key in _GROWING
        if isinstance(value, dict) and isinstance(old, dict):
            merged[key] = _merge(old, value, adds)
        elif adds and isinstance(value, list | tuple) and isinstance(old, list | tuple):
            merged[key] = [*old, *(item for item in value if item not in old)]
        else:
            merged[key] = value
    return merged


def _from_environment(environ: Mapping[str, str]) -> dict[str, Any]:
    table: dict[str, Any] = {}
    for variable, place in ENVIRONMENT.items():
        text = environ.get(variable, "").strip()
        if not text:
            continue
        inner = table
        for key in place[:-1]:
            inner = inner.setdefault(key, {})
        inner[place[-1]] = _value_of(variable, place[-1], text)
    _convert(table, "the environment")
    return table


def _value_of(variable: str, key: str, text: str) -> Any:
    if key == "tools":
        return [name.strip() for name in text.split(",") if name.strip()]
    if key == "use":
        if text.lower() not in ("0", "1", "true", "false"):
            raise ConfigError(f"{variable} is {text!r}", hint="set it to 1 or 0")
        return text.lower() in ("1", "true")
    if key.startswith("max_"):
        try:
            return float(text) if key in ("max_cost_usd", "max_seconds") else int(text)
        except ValueError:
            raise ConfigError(f"{variable} is {text!r}, which is not a number") from None
    return text


def _without_secrets(table: dict[str, Any], path: str, warnings: list[str]) -> dict[str, Any]:
    for *outer, key in _SECRETS:
        inner: Any = table
        for name in outer:
            inner = inner.get(name, {})
        if key in inner:
            del inner[key]
            name = ".".join([*outer, key])
            warnings.append(f"{path}: {name} is never taken from a project; set it in {config_file()}")
    return table


def _narrowed(base: dict[str, Any], table: dict[str, Any], path: str, ignored: list[str]) -> dict[str, Any]:
    """The part of an untrusted project's file that is applied."""
    narrowed: dict[str, Any] = {}

    def ignore(key: str) -> None:
        ignored.append(f"{path}: {key}")

    for key, value in written_out(table).items():
        if key == "permissions":
            narrowed[key] = {name: rules for name, rules in value.items() if name != "allow"}
            if value.get("allow"):
                ignore("permissions.allow")
        elif key == "limits":
            narrowed[key] = {name: limit for name, limit in value.items() if limit < _limit(base, name)}
            for name in value.keys() - narrowed[key].keys():
                ignore(f"limits.{name}")
        elif key == "permission_mode" and _narrower(base.get(key), value):
            narrowed[key] = value
        elif key == "sandbox" and value.get("use"):
            narrowed[key] = {"use": True}
            for name in value.keys() - {"use"}:
                ignore(f"sandbox.{name}")
        elif (key, value) in (("network", "off"), ("bypass", False), ("model_wire", "gateway")):
            narrowed[key] = value
        elif key == "tools":
            offered = base.get("tools")
            narrowed[key] = [name for name in value if offered is None or name in offered]
        elif key != "verify":
            ignore(key)
    return narrowed


def _limit(base: dict[str, Any], name: str) -> float:
    limit = base.get("limits", {}).get(name, getattr(Limits(), name))
    return float("inf") if limit is None else float(limit)


def _narrower(base: str | None, mode: str) -> bool:
    return stricter(parse_mode(base or "suggest"), parse_mode(mode)) == parse_mode(mode)


# The keys that this machine's user has in their settings, so that they are removed from what is sent and kept.


def known(environ: Mapping[str, str] | None = None) -> tuple[str, ...]:
    """The values of all settings of the user whose names say that they are secrets.

    A file that cannot be read gives none: then nothing here can use its keys either.
    """
    try:
        settings = load("/", os.environ if environ is None else environ).settings
    except TreadleError:
        return ()
    tables: list[Mapping[str, Any]] = [settings.models, settings.models.get("headers") or {}, settings.variables]
    for server in settings.mcp_servers.values():
        tables += [server.env, server.headers]
    tables += [agent.set for agent in settings.agents.values()]
    return tuple(value for table in tables for value in _secrets(table))


def _secrets(table: Mapping[str, Any]) -> list[str]:
    """Of `Bearer KEY` only the key: the word before it is in many texts."""
    found = {name: value for name, value in table.items() if isinstance(value, str) and value.strip()}
    return [value.split()[-1] for name, value in found.items() if is_secret_name(name) or "AUTH" in name.upper()]


# The MCP servers that a project's `.mcp.json`, the settings and the one who opens a session ask for.


class FoundServers(msgspec.Struct, frozen=True, kw_only=True):
    """The servers that a project's `.mcp.json` and the settings ask for."""

    servers: dict[str, McpServer] = {}
    warnings: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()
    """What an untrusted project asked for."""


def find_servers(
    cwd: str | None,
    configured: Mapping[str, McpServer],
    environ: Mapping[str, str],
    *,
    trusted: bool | None = None,
    own: str | None = None,
) -> FoundServers:
    """The settings' servers, and those of the nearest `.mcp.json` if it is trusted (None: ask `treadle trust`).
    Without a directory, only those of the settings. `own`: with those that the person has in Claude Code, for all
    projects and for that of this directory.
    """
    warnings: list[str] = []
    ignored: list[str] = []
    path, everywhere, here = claude.own_servers(own, environ) if own is not None else ("", {}, {})
    servers = {**_servers_of(everywhere, path, warnings), **configured}
    configured = {**_servers_of(here, path, warnings), **configured}
    places = trust.up_to_top(cwd) if cwd is not None else ()
    place = next((here for here in places if os.path.isfile(os.path.join(here, ".mcp.json"))), None)
    if place is not None:
        path = os.path.join(place, ".mcp.json")
        wanted = _read_servers(path, warnings)
        if not trusted and (owner := trust.foreign_owner(place)):
            ignored = [f"{path}: {owner}"]
        elif trusted or trusted is None and trust.is_trusted(place):
            servers |= wanted
        else:
            ignored = [f"{path}: mcpServers.{name}" for name in wanted]
    named = {name: _filled(server, environ) for name, server in (servers | configured).items() if not server.disabled}
    return FoundServers(servers=named, warnings=tuple(warnings), ignored=tuple(ignored))


def _read_servers(path: str, warnings: list[str]) -> dict[str, McpServer]:
    try:
        content = msgspec.json.decode(read(path), type=dict[str, Any])
        entries = msgspec.convert(content.get("mcpServers", {}), dict[str, Any])
    except StorageError as error:
        warnings.append(str(error))
        return {}
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        warnings.append(f"{path} cannot be read: {error}")
        return {}
    return _servers_of(entries, path, warnings)


def _servers_of(entries: Mapping[str, Any], path: str, warnings: list[str]) -> dict[str, McpServer]:
    servers = {}
    for name, entry in entries.items():
        try:
            servers[name] = msgspec.convert(entry, McpServer)
            if unused := [key for key in entry if key not in McpServer.__struct_fields__]:
                warnings.append(f"{path}: mcpServers.{name}: not used here: {', '.join(unused)}")
        except msgspec.ValidationError as error:
            warnings.append(f"{path}: mcpServers.{name}: {error}")
    return servers


def given_servers(entries: Mapping[str, Any], environ: Mapping[str, str], warnings: list[str]) -> dict[str, McpServer]:
    """The servers that the one who opened the session asks for, without those inside its own process."""
    outside = {name: entry for name, entry in entries.items() if entry.get("type") != "sdk"}
    servers = _servers_of(outside, "the MCP configuration that was given", warnings)
    return {name: _filled(server, environ) for name, server in servers.items() if not server.disabled}


def _filled(server: McpServer, environ: Mapping[str, str]) -> McpServer:
    """`${NAME}` and `${NAME:-default}` replaced, so that keys need not be in the file."""

    def fill(value: Any) -> Any:
        if isinstance(value, str):
            return re.sub(r"\$\{(\w+)(?::-([^}]*))?\}", lambda found: environ.get(found[1]) or found[2] or "", value)
        if isinstance(value, dict):
            return {key: fill(item) for key, item in value.items()}
        return tuple(map(fill, value)) if isinstance(value, tuple) else value

    return McpServer(**{name: fill(getattr(server, name)) for name in server.__struct_fields__})
