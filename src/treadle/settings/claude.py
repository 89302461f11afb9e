"""The settings files of Claude Code: the same rules, variables and hooks hold here.

They are `settings.json` of the user's `~/.claude` (`CLAUDE_CONFIG_DIR`), `.claude/settings.json` and
`.claude/settings.local.json` of the project, and the machine's managed file. Each becomes a table in the shape of our
own settings, so that `config.py` merges them and applies its trust rules. A setting that is not used is named.
"""

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

from treadle.errors import ConfigError, TreadleError
from treadle.io.files import read_if_there
from treadle.io.paths import homes
from treadle.session import Rules
from treadle.settings import trust

MANAGED = "/etc/claude-code/managed-settings.json"
NAMES = ("settings.json", "settings.local.json")
TIMEOUT = 60.0
_PATH_TOOLS = ("read", "write", "edit", "multiedit", "glob", "grep", "notebookedit")

EVENTS = (
    *("PreToolUse", "PostToolUse", "PostToolUseFailure", "UserPromptSubmit", "Stop", "SubagentStart", "SubagentStop"),
    *("PreCompact", "PostCompact", "PermissionRequest", "Notification"),
    *("SessionStart", "SessionEnd", "UserPromptExpansion", "PreModelSwitch", "PostModelSwitch", "PostToolBatch"),
    *("StopFailure", "InstructionsLoaded"),
)
"""The events whose hooks are run."""
NOT_CALLED = (
    *("Setup", "PermissionDenied", "TeammateIdle", "TaskCreated", "TaskCompleted", "ConfigChange", "CwdChanged"),
    *("FileChanged", "WorktreeCreate", "WorktreeRemove", "Elicitation", "ElicitationResult"),
    *("DirectoryAdded", "MessageDisplay"),
)
"""Events that never come here, or that only look on. Their hooks are accepted but not called, with a warning."""
FORBIDDING = ("PreToolUse", "PermissionRequest", "UserPromptSubmit", "UserPromptExpansion", "PreModelSwitch")
"""Events whose hooks can forbid what would happen: our own agent does not begin if one of them cannot be run."""


class Reading(msgspec.Struct, frozen=True, kw_only=True):
    """What was found in a file, in its front matter or in the environment, by what becomes of it here. What changes
    only looks, or what Claude Code does for itself, is in none of the lists: no one misses it."""

    used: tuple[str, ...] = ()
    unused: tuple[str, ...] = ()
    forbids: tuple[str, ...] = ()
    """It forbids something, or may, and is not kept here: what would begin with it does not begin."""
    unknown: tuple[str, ...] = ()

    @classmethod
    def of(cls, kind: str, names: Iterable[str]) -> "Reading":
        found: dict[str, list[str]] = {verdict: [] for verdict in (*cls.__struct_fields__, "looks")}
        for name in dict.fromkeys(names):
            found[_VERDICTS[kind].get(name, "unknown")].append(name)
        return cls(**{verdict: tuple(found[verdict]) for verdict in cls.__struct_fields__})

    def __add__(self, other: "Reading") -> "Reading":
        return Reading(**{name: getattr(self, name) + getattr(other, name) for name in self.__struct_fields__})

    @property
    def notice(self) -> str:
        """One line; empty when there is nothing to say."""
        lists = {"not used here": self.unused, "not known here": self.unknown}
        return "; ".join(f"{what}: {', '.join(names)}" for what, names in lists.items() if names)

    def refusals(self, where: str) -> list[str]:
        return [f"{where}: {name} may forbid something, and is not kept here" for name in self.forbids]


_NAMES: dict[str, dict[str, str]] = {
    "settings": {
        "used": "permissions.allow permissions.ask permissions.deny permissions.defaultMode model env hooks agent"
        " permissions.additionalDirectories permissions.disableBypassPermissionsMode disabledMcpjsonServers"
        " disableAllHooks sandbox.enabled sandbox.filesystem.denyRead sandbox.filesystem.denyWrite language"
        " outputStyle",
        "unused": "apiKeyHelper awsAuthRefresh awsCredentialExport otelHeadersHelper alwaysThinkingEnabled effortLevel"
        " enabledPlugins extraKnownMarketplaces enableAllProjectMcpServers enabledMcpjsonServers fileSuggestion"
        " forceLoginMethod forceLoginOrgUUID plansDirectory respectGitignore autoMemoryEnabled advisorModel"
        " sandbox.autoAllowBashIfSandboxed sandbox.excludedCommands sandbox.network.allowedDomains"
        " sandbox.network.allowUnixSockets sandbox.network.allowLocalBinding sandbox.filesystem.allowWrite"
        " sandbox.allowUnsandboxedCommands",
        "forbids": "allowManagedHooksOnly allowManagedPermissionRulesOnly allowManagedMcpServersOnly availableModels"
        " allowedMcpServers deniedMcpServers allowedHttpHookUrls httpHookAllowedEnvVars strictKnownMarketplaces"
        " blockedMarketplaces sandbox.network.deniedDomains sandbox.network.allowManagedDomainsOnly"
        " sandbox.credentials",
        "looks": "$schema statusLine theme cleanupPeriodDays includeCoAuthoredBy spinnerTipsEnabled verbose attribution"
        " feedbackSurveyRate autoUpdatesChannel terminalTitleFromRename viewMode prefersReducedMotion tipsEnabled"
        " preferredNotifChannel spinnerVerbs showThinkingSummaries permissions.disableAutoMode",
    },
    "skill": {
        "used": "name description when_to_use disable-model-invocation user-invocable argument-hint",
        "unused": "allowed-tools model agent context effort arguments paths shell mode",
        "forbids": "disallowed-tools disallowedTools hooks",
        "looks": "license version author metadata compatibility tags category keywords",
    },
    "agent": {
        "used": "name description tools disallowedTools model maxTurns skills",
        "unused": "effort initialPrompt",
        "forbids": "permissionMode mcpServers memory background hooks isolation",
        "looks": "color version author tags category license metadata",
    },
    "plugin": {
        "used": "name hooks commands agents skills outputStyles",
        "unused": "mcpServers lspServers monitors channels settings dependencies"
        " userConfig .mcp.json .lsp.json settings.json monitors bin",
        "looks": "$schema version description author homepage repository license keywords displayName category tags",
    },
    "environment": {
        "used": "ANTHROPIC_API_KEY ANTHROPIC_AUTH_TOKEN ANTHROPIC_BASE_URL ANTHROPIC_CUSTOM_HEADERS ANTHROPIC_MODEL"
        " ANTHROPIC_SMALL_FAST_MODEL ANTHROPIC_DEFAULT_OPUS_MODEL ANTHROPIC_DEFAULT_SONNET_MODEL"
        " ANTHROPIC_DEFAULT_HAIKU_MODEL CLAUDE_CODE_SUBAGENT_MODEL CLAUDE_CODE_MAX_OUTPUT_TOKENS"
        " CLAUDE_CODE_MAX_RETRIES BASH_DEFAULT_TIMEOUT_MS MAX_THINKING_TOKENS",
        "unused": "CLAUDE_CODE_USE_BEDROCK CLAUDE_CODE_USE_VERTEX CLAUDE_CODE_USE_FOUNDRY CLAUDE_CODE_OAUTH_TOKEN"
        " ANTHROPIC_BETAS CLAUDE_CODE_EXTRA_BODY API_TIMEOUT_MS DISABLE_PROMPT_CACHING BASH_MAX_OUTPUT_LENGTH"
        " CLAUDE_CODE_SHELL CLAUDE_CODE_SHELL_PREFIX MAX_MCP_OUTPUT_TOKENS MCP_TIMEOUT MCP_TOOL_TIMEOUT"
        " CLAUDE_CODE_EFFORT_LEVEL CLAUDE_AUTOCOMPACT_PCT_OVERRIDE CLAUDE_CODE_FILE_READ_MAX_OUTPUT_TOKENS"
        " BASH_MAX_TIMEOUT_MS CLAUDE_CODE_DISABLE_1M_CONTEXT CLAUDE_BASH_MAINTAIN_PROJECT_WORKING_DIR CLAUDE_ENV_FILE"
        " DISABLE_AUTO_COMPACT DISABLE_COMPACT",
        "looks": "CLAUDE_CODE_ENTRYPOINT CLAUDE_CODE_SSE_PORT CLAUDE_CODE_SESSION_ID CLAUDE_CODE_STREAM_CLOSE_TIMEOUT"
        " CLAUDE_CODE_EXECUTABLE CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC CLAUDE_CODE_DISABLE_TERMINAL_TITLE"
        " CLAUDE_CODE_DISABLE_FEEDBACK_SURVEY CLAUDE_CODE_ENABLE_TELEMETRY CLAUDE_CODE_AUTO_CONNECT_IDE"
        " CLAUDE_CODE_ENABLE_ASK_USER_QUESTION_TOOL CLAUDE_CODE_CHILD_SESSION CLAUDE_CODE_EXECPATH"
        " CLAUDE_CODE_SDK_READS_SESSION_STATE",
    },
}
_VERDICTS = {
    kind: {name: verdict for verdict, names in lists.items() for name in names.split()}
    for kind, lists in _NAMES.items()
}
"""Of each kind, what becomes of a name; what is not here is unknown, and is said."""


class CommandHook(msgspec.Struct, frozen=True, kw_only=True):
    """A command that learns of an event and may forbid it: exit 0 with JSON is its answer, exit 2 blocks.

    Or a question to a model, if there is a `prompt`; or a POST, if there is a `url`, whose answer is the JSON.
    """

    event: str
    matcher: str = ""
    command: str = ""
    timeout: float = TIMEOUT
    args: tuple[str, ...] | None = None
    """The command is a program that is started with these, without a shell."""
    condition: str = ""
    """A permission rule: the hook is for tool calls that it names."""
    once: bool = False
    background: bool = False
    """It is not waited for, and can forbid nothing."""
    strict: bool = False
    """Whether its own failure blocks as well."""
    prompt: str = ""
    """What a model is asked; `$ARGUMENTS` stands for what the hook is told."""
    model: str = ""
    goes_on: bool = False
    """Whether the turn goes on after the model said no."""

    root: str = ""
    """The directory of the plugin that it belongs to."""
    url: str = ""
    headers: dict[str, str] = {}
    variables: tuple[str, ...] = ()
    """The environment variables that may be filled into the headers."""

    @property
    def label(self) -> str:
        return repr(self.command or self.prompt or self.url.partition("?")[0])


class ClaudeSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The part of Claude Code's settings that means the same here."""

    rules: Rules = Rules()
    mode: str | None = None
    model: str | None = None
    env: dict[str, str] = {}
    add_dirs: tuple[str, ...] = ()
    hooks: tuple[CommandHook, ...] = ()
    sandbox: bool = False
    output_style: str | None = None
    language: str | None = None
    main_agent: str | None = None
    bypass: bool = True
    """False: no session may skip all permissions."""
    reading: Reading = Reading()
    of_hooks: Reading = Reading()
    """The same of its hooks, which count only where they may run."""
    disabled_servers: tuple[str, ...] = ()
    """Servers of `.mcp.json` that are not to be started."""

    def table(self) -> dict[str, Any]:
        """The same in the shape of our own settings."""
        found: dict[str, Any] = {
            "permissions": {name: list(rules) for name, rules in msgspec.structs.asdict(self.rules).items() if rules},
            "variables": self.env,
            "add_dirs": list(self.add_dirs),
            "hooks": {"events": [msgspec.to_builtins(hook) for hook in self.hooks]} if self.hooks else {},
            "permission_mode": self.mode,
            "model": self.model,
            "output_style": self.output_style,
            "language": self.language,
            "main_agent": self.main_agent,
            "sandbox": self.sandbox or None,
            "mcp_servers": {name: {"disabled": True} for name in self.disabled_servers},
            "bypass": None if self.bypass else False,
        }
        return {name: value for name, value in found.items() if value is not None and value not in ({}, [])}


class ClaudeVariables(msgspec.Struct, frozen=True, kw_only=True):
    """The part of Claude Code's environment variables that means the same here."""

    model: str | None = None
    weak_model: str | None = None
    subagent_model: str | None = None
    output_tokens: int | None = None
    tries: int | None = None
    bash_seconds: float | None = None
    reading: Reading = Reading()

    @classmethod
    def read(cls, environ: Mapping[str, str]) -> "ClaudeVariables":
        """A number that cannot be read is not used."""
        numbers = {name: int(environ[name]) for name in _NUMBERS if environ.get(name, "").strip().isdecimal()}
        wrong = [name for name in _NUMBERS if environ.get(name, "").strip() and name not in numbers]
        retries, bash = numbers.get("CLAUDE_CODE_MAX_RETRIES"), numbers.get("BASH_DEFAULT_TIMEOUT_MS")
        return cls(
            model=environ.get("ANTHROPIC_MODEL") or None,
            weak_model=environ.get("ANTHROPIC_SMALL_FAST_MODEL") or None,
            subagent_model=environ.get("CLAUDE_CODE_SUBAGENT_MODEL") or None,
            output_tokens=numbers.get("CLAUDE_CODE_MAX_OUTPUT_TOKENS") or None,
            tries=None if retries is None else retries + 1,
            bash_seconds=bash / 1000 if bash else None,
            reading=Reading(unused=tuple(wrong))
            + Reading.of("environment", [*filter(environ.get, _of_claude(environ))]),
        )


_NUMBERS = (
    "CLAUDE_CODE_MAX_OUTPUT_TOKENS",
    "CLAUDE_CODE_MAX_RETRIES",
    "BASH_DEFAULT_TIMEOUT_MS",
    "MAX_THINKING_TOKENS",
)


def _of_claude(environ: Mapping[str, str]) -> Iterator[str]:
    """The names that are Claude Code's, also those that we have never heard of."""
    known = _VERDICTS["environment"]
    yield from (name for name in known if name in environ)
    yield from (name for name in environ if name not in known and name.startswith(("ANTHROPIC_", "CLAUDE_CODE_")))


_FOR_ITSELF = re.compile(
    r"ANTHROPIC_|CLAUDE_CODE_|BASH_\w+_MS|MAX_THINKING_TOKENS|DISABLE_PROMPT_CACHING|API_TIMEOUT_MS"
)
"""Variables that Claude Code reads itself: in `env` of its settings, too."""


def own_variables(environ: Mapping[str, str]) -> dict[str, str]:
    """What `env` of the user's and the machine's files sets for Claude Code itself. A project's may not: it could send
    the user's key elsewhere."""
    files = (own_file(environ), managed_file())
    found = {name: value for file in files if file is not None for name, value in file.settings.env.items()}
    return {name: value for name, value in found.items() if _FOR_ITSELF.match(name)}


class ClaudeFile(msgspec.Struct, frozen=True, kw_only=True):
    path: str
    project: str | None
    """The directory of the project that it belongs to; None: the user's or the machine's."""
    settings: ClaudeSettings


def user_directory(environ: Mapping[str, str]) -> str:
    return environ.get("CLAUDE_CONFIG_DIR") or os.path.join((homes() or ["/"])[0], ".claude")


def own_file(environ: Mapping[str, str]) -> ClaudeFile | None:
    return _file(os.path.join(user_directory(environ), "settings.json"), None)


def own_servers(cwd: str, environ: Mapping[str, str]) -> tuple[str, dict[str, Any], dict[str, Any]]:
    """Where the person's MCP servers are: the file, those for all projects, those for the one around this directory."""
    path = os.path.join(environ.get("CLAUDE_CONFIG_DIR") or (homes() or ["/"])[0], ".claude.json")
    table = _table(_json(path) or {}, path)
    projects = _table(table.get("projects") or {}, f"{path}: projects")
    near: Any = next((projects[place] for place in trust.up_to_top(cwd) if place in projects), {})
    given = [_table(found, path).get("mcpServers") or {} for found in (table, near)]
    return path, *(_table(servers, f"{path}: mcpServers") for servers in given)  # type: ignore[return-value]


def managed_file() -> ClaudeFile | None:
    return _file(MANAGED, None)


def project_files(cwd: str, sources: tuple[str, ...] | None, broken: list[str]) -> list[ClaudeFile]:
    """Those of the project, from its top down to here. What cannot be read is listed in `broken`."""
    names = [name for name, source in zip(NAMES, ("project", "local"), strict=True) if not sources or source in sources]
    found = []
    for directory in reversed(list(trust.up_to_top(cwd))):
        for name in names:
            try:
                file = _file(os.path.join(directory, ".claude", name), directory)
            except TreadleError as error:
                broken.append(str(error))
                continue
            if file is not None:
                found.append(file)
    return found


def _file(path: str, project: str | None) -> ClaudeFile | None:
    hint = "correct it; or leave it out, with what it forbids: --setting-sources project,local"
    if not os.path.exists(path):
        return None
    settings = parse(_json(path, None if project else hint) or {}, path, project or os.path.dirname(path))
    if project is not None and (of_itself := [f"env.{name}" for name in settings.env if _FOR_ITSELF.match(name)]):
        settings = msgspec.structs.replace(settings, reading=settings.reading + Reading(unused=tuple(of_itself)))
    return ClaudeFile(path=path, project=project, settings=settings)


_OWN_MODEL = re.compile(r"(opus|sonnet|haiku)(\[1m\])?|claude-[\w.-]+")


def reachable(model: str) -> bool:
    """Whether a model of Claude Code's settings is one that Anthropic's service has by this name.

    Not so `opusplan`, `default`, and the names that Bedrock, Vertex and other services have for their models.
    """
    return _OWN_MODEL.fullmatch(model) is not None


def parse(table: Any, where: str, base: str) -> ClaudeSettings:
    """`base` is the directory that a path rule with one leading slash begins at."""
    from treadle.policy.patterns import escape  # for those who have such a file

    table = _table(table, where)
    permissions = _table(table.get("permissions") or {}, f"{where}: permissions")
    sandbox = _table(table.get("sandbox") or {}, f"{where}: sandbox")
    hooks, of_hooks = _hooks(table.get("hooks") or {} if table.get("disableAllHooks") is not True else {}, where)
    files = _table(sandbox.get("filesystem") or {}, f"{where}: sandbox.filesystem")
    reading = Reading.of("settings", _named(table, sandbox))
    if sandbox.get("allowUnsandboxedCommands") is False and sandbox.get("enabled") is not False:
        reading += Reading(forbids=("sandbox.allowUnsandboxedCommands",))
    base = escape(base.rstrip("/"))
    rules = {
        verdict: tuple(_rule(str(rule), base) for rule in _list(permissions.get(verdict) or [], f"{where}: {verdict}"))
        for verdict in ("allow", "ask", "deny")
    }
    idle = {rule: why for rule in rules["allow"] for form, why in _IDLE.items() if re.match(form, rule)}
    rules["allow"] = tuple(rule for rule in rules["allow"] if rule not in idle)
    reading += Reading(unused=tuple(f"{rule} ({why})" for rule, why in idle.items()))
    # What may not be read may not be written either, as there.
    rules["deny"] += tuple(f"Edit{rule[4:]}" for rule in rules["deny"] if rule.lower().startswith("read("))
    for name, tool in _HIDING.items():
        paths = map(str, _list(files.get(name) or [], f"{where}: {name}"))
        rules["deny"] += tuple(f"{tool}({_hidden(path, base)})" for path in paths)
    return ClaudeSettings(
        rules=Rules(**rules),
        mode=_text(permissions.get("defaultMode")),
        model=_text(table.get("model")),
        env={str(name): str(value) for name, value in _table(table.get("env") or {}, f"{where}: env").items()},
        add_dirs=tuple(map(str, _list(permissions.get("additionalDirectories") or [], where))),
        hooks=hooks,
        sandbox=sandbox.get("enabled") is True,
        output_style=_text(table.get("outputStyle")),
        language=_text(table.get("language")),
        main_agent=_text(table.get("agent")),
        bypass=permissions.get("disableBypassPermissionsMode") != "disable",
        reading=reading,
        of_hooks=of_hooks,
        disabled_servers=tuple(map(str, _list(table.get("disabledMcpjsonServers") or [], where))),
    )


def _named(table: dict[str, Any], sandbox: dict[str, Any], at: str = "") -> Iterator[str]:
    """The names of what is set, those inside of tables after a dot. What would forbid something and is empty or off
    forbids nothing."""
    for key, value in table.items():
        name = f"{at}{key}"
        if name in _TABLES and isinstance(value, dict):
            yield from _named(value, sandbox, f"{name}.")
        elif name == "sandbox.allowUnsandboxedCommands" and value is False:
            continue  # in the place of what it allows otherwise, it forbids
        elif name.startswith("sandbox.") and sandbox.get("enabled") is False:
            continue
        elif value or _VERDICTS["settings"].get(name) != "forbids" and not name.startswith("permissions."):
            yield name


_IDLE = {
    r"\s*(?!mcp__)[a-z]": "names of tools begin with a capital letter",
    r"\s*(?:Write|MultiEdit|NotebookEdit)\((?!\*+\))": "Edit(...) allows paths",
}
"""What allows nothing in Claude Code, and why."""
_TABLES = ("permissions", "sandbox", "sandbox.filesystem", "sandbox.network")
_HIDING = {"denyRead": "Read", "denyWrite": "Edit"}
"""What the sandbox of Claude Code hides or keeps from being written, by the rule that does the same."""


def _hidden(path: str, base: str) -> str:
    """Its paths are not those of rules: `/x` is absolute, as `//x` is; `x` begins at the settings' own directory."""
    return path if path.startswith("~") else os.path.normpath(os.path.join(base or "/", re.sub("^/+", "/", path)))


def plugin_settings(directory: str) -> ClaudeSettings:
    """The hooks of a plugin: `hooks/hooks.json`, and what its manifest names or has; and what of it is unused."""
    manifest = _table(
        _json(os.path.join(directory, ".claude-plugin", "plugin.json")) or {}, f"{directory}: plugin.json"
    )
    given = manifest.get("hooks", [])
    sources = ["hooks/hooks.json", *(given if isinstance(given, list) else [given])]
    hooks: list[CommandHook] = []
    reading = Reading.of("plugin", [*(name for name in manifest if manifest[name]), *_parts(directory)])
    for source in sources:
        path = os.path.join(directory, source) if isinstance(source, str) else directory
        if source in sources[1:] and not os.path.exists(path):
            raise ConfigError(f"{path} is not there, and the plugin names it: its hooks might forbid something")
        table = _table((_json(path) if isinstance(source, str) else source) or {}, path)
        if "hooks" not in table and isinstance(source, str):
            reading += Reading(unused=(f"{source} without the key `hooks`",) if table else ())
            continue
        found, wrong = _hooks(table.get("hooks", table) or {}, path)
        own = [msgspec.structs.replace(hook, root=directory) for hook in found]
        hooks += [hook for hook in own if hook not in hooks]
        reading += wrong
    return ClaudeSettings(hooks=tuple(hooks), reading=reading)


def _parts(directory: str) -> list[str]:
    """What a plugin has besides hooks and the usual folders of skills, commands, agents and output styles."""
    parts = (".mcp.json", ".lsp.json", "settings.json", "monitors", "bin")
    return [name for name in parts if os.path.exists(os.path.join(directory, name))]


def _json(path: str, hint: str | None = None) -> Any:
    data = (read_if_there(path) or b"").removeprefix(b"\xef\xbb\xbf").strip()
    try:
        return msgspec.json.decode(data) if data else None
    except msgspec.DecodeError as error:
        raise ConfigError(f"{path} is not valid JSON: {error}", hint=hint) from None


def all_run(settings: ClaudeSettings) -> ClaudeSettings:
    """The same settings; ConfigError when one of their hooks cannot be run."""
    hooks, uncalled = settings.of_hooks, {f"hooks of {event}" for event in NOT_CALLED}
    not_run = (*hooks.forbids, *hooks.unknown, *(name for name in hooks.unused if name not in uncalled))
    hint = f'leave it out; a hook is {{"type": "command", "command": "..."}} of {", ".join(EVENTS)}'
    for refusal in Reading(forbids=settings.reading.forbids + not_run).refusals("--settings"):
        raise ConfigError(refusal, hint=hint)
    return settings


def _hooks(table: Any, where: str) -> tuple[tuple[CommandHook, ...], Reading]:
    """The commands in the `hooks` of a settings file; and what of them cannot be run."""
    found: list[CommandHook] = []
    reading = Reading()
    for event, groups in _table(table, f"{where}: hooks").items():
        if event not in EVENTS + NOT_CALLED:
            reading += Reading(unknown=(f"hooks of the event {event!r}",))
            continue
        if event in NOT_CALLED and groups:
            reading += Reading(unused=(f"hooks of {event}",))
        for group in _list(groups, f"{where}: {event}"):
            entry = _table(group, f"{where}: {event}")
            matcher = str(entry.get("matcher") or "")
            for one in _list(entry.get("hooks"), f"{where}: {event}"):
                made = _hook(event, matcher, _table(one, f"{where}: {event}"))
                if made is not None:
                    found.append(made)
                    continue
                name = (f"a hook of {event} {_described(one)}",)
                reading += Reading(forbids=name) if event in FORBIDDING else Reading(unused=name)
    return tuple(found), reading


def _described(entry: Any) -> str:
    kind = str(entry.get("type", "command"))
    unknown = [name for name in entry if name not in _FIELDS.get(kind, ())]
    if kind not in _FIELDS:
        return f"of the type {kind!r}"
    return f"with {', '.join(unknown)}" if unknown else f"that is a {kind} without its text or for another shell"


_SHARED = {"type", "timeout", "if", "once", "statusMessage"}
_FIELDS = {
    "command": _SHARED | {"command", "args", "async", "onFailure", "shell"},
    "prompt": _SHARED | {"prompt", "model", "continueOnBlock"},
    "http": _SHARED | {"url", "headers", "allowedEnvVars", "onFailure"},
}


def _hook(event: str, matcher: str, entry: dict[str, Any]) -> CommandHook | None:
    """None: it is of a kind, or has a field, that is not known here."""
    kind, timeout, given = str(entry.get("type", "command")), entry.get("timeout"), entry.get("args")
    patience = float(timeout) if isinstance(timeout, int | float) and timeout > 0 else TIMEOUT
    used = {name for name, value in entry.items() if value not in (None, False)}
    if not used <= _FIELDS.get(kind, set()):
        return None
    if entry.get("shell") == "powershell" or not isinstance(entry.get("if", ""), str):
        return None
    hook = CommandHook(
        event=event,
        matcher=matcher,
        timeout=patience,
        condition=entry.get("if", ""),
        once=entry.get("once") is True,
    )
    if kind == "command" and isinstance(text := entry.get("command"), str) and text.strip():
        return msgspec.structs.replace(
            hook,
            command=text,
            args=tuple(map(str, given)) if isinstance(given, list) else None,
            background=entry.get("async") is True,
            strict=entry.get("onFailure") == "block",
        )
    if kind == "prompt" and isinstance(text := entry.get("prompt"), str) and text.strip():
        goes_on = entry.get("continueOnBlock") is True
        return msgspec.structs.replace(hook, prompt=text, model=str(entry.get("model") or ""), goes_on=goes_on)
    if kind == "http" and re.match("https?://", str(entry.get("url"))):
        headers, variables = entry.get("headers") or {}, entry.get("allowedEnvVars") or ()
        if isinstance(headers, dict) and isinstance(variables, list | tuple):
            return msgspec.structs.replace(
                hook,
                url=entry["url"],
                headers={str(name): str(value) for name, value in headers.items()},
                variables=tuple(map(str, variables)),
                strict=entry.get("onFailure") == "block",
            )
    return None


def _rule(rule: str, base: str) -> str:
    """Claude Code's paths: `//x` is absolute, `/x` begins at the settings' own directory."""
    tool, parenthesis, pattern = rule.partition("(")
    if not parenthesis or tool.strip().lower() not in _PATH_TOOLS or not pattern.startswith("/"):
        return rule
    return f"{tool}({pattern[1:]}" if pattern.startswith("//") else f"{tool}({base}{pattern}"


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def _table(value: Any, where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ConfigError(f"{where} must be an object, not {type(value).__name__}")
    return value


def _list(value: Any, where: str) -> list[Any]:
    if not isinstance(value, list):
        raise ConfigError(f"{where} must be a list, not {type(value).__name__}")
    return value


def entrypoint_of(environ: Mapping[str, str]) -> str:
    """Which SDK of Claude drives us, such as `sdk-py`; empty when none does."""
    name = environ.get("CLAUDE_CODE_ENTRYPOINT", "")
    return name if name.startswith("sdk-") else ""
