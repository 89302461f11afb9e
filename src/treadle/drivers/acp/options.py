"""What an agent that speaks the Agent Client Protocol offers, how it signs in, its known traits, and how it fails."""

import re
from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime
from typing import Any, Literal, TypeAlias

import msgspec

from treadle.errors import (
    AuthFailed,
    Cancelled,
    ConfigError,
    LimitReached,
    MaxIterations,
    NotFound,
    ProviderError,
    RateLimited,
    RemoteError,
    TreadleError,
    Unsupported,
)
from treadle.events import ErrorInfo
from treadle.io.rpc import CallFailed, Rpc
from treadle.session import ModelMenu, OfferedModel, StoredSession
from treadle.wire.acp.connection import text_of, transport
from treadle.wire.acp.tools import Span

# Translates how each agent says that something went wrong into our errors.

AUTH_REQUIRED = -32000
NOT_FOUND = -32002
DENIED = -32003
_AUTH = re.compile(r"\b(401|403)\b|unauthori[sz]ed|authenticat|api key", re.I)
_RATE = re.compile(r"\b429\b|rate limit|too many requests|quota", re.I)


def of_call(agent: str, error: CallFailed) -> TreadleError:
    """Codes differ by agent, and one even uses the HTTP status, so the words are read too."""
    code, words = error.rpc_code, f"{error.message} {error.data}"
    message = f"{agent}: {error.message}"
    details = {"method": error.method, "code": code}
    if code in (401, 403) or code == AUTH_REQUIRED or error.method == "session/prompt" and _AUTH.search(words):
        return AuthFailed(message, provider=agent, details=details, hint="sign in to it, or give it its key")
    if code == 429 or _RATE.search(words):
        return RateLimited(message, provider=agent, details=details)
    if code == NOT_FOUND or error.method in ("session/load", "session/resume", "session/fork"):
        return NotFound(message, details=details)
    if error.method == "session/prompt":
        return ProviderError(message, provider=agent, details=details)
    return RemoteError(message, details=details)


def of_stop(agent: str, stop: Any, text: str, failure: str | None) -> TreadleError | None:
    """The error behind the way a turn stopped; None when it stopped well or was cancelled."""
    if stop == "max_turn_requests":
        return MaxIterations(f"{agent} stopped at its own limit of model calls")
    if stop == "max_tokens":
        return LimitReached(f"{agent} stopped at its limit of tokens")
    if stop == "refusal":
        return ProviderError(f"{agent}: the model refuses to continue", provider=agent)
    if failure is not None and text.startswith(failure):
        kind = AuthFailed if _AUTH.search(text) else RateLimited if _RATE.search(text) else ProviderError
        return kind(f"{agent}: {text}", provider=agent)
    if stop not in ("end_turn", "cancelled"):
        return RemoteError(f"{agent} ended the turn without a reason", details={"stopReason": stop})
    return None


def cancelled(why: str) -> ErrorInfo:
    return ErrorInfo(code=Cancelled.code, message=why)


# Known traits of agents that speak the Agent Client Protocol, by the name that each gives in its greeting.
#
# All of this was observed by running them. An unknown agent is taken at its word.

_COPILOT_MODES = "https://agentclientprotocol.com/protocol/session-modes#"


class Traits(msgspec.Struct, frozen=True, kw_only=True):
    asking_mode: str | None = None
    """The mode in which it asks before it acts. Two agents start in one in which a model gives permission instead."""
    plan_mode: str | None = None
    options: dict[str, str] = {}
    """Settings that must have these values, for the same reason."""
    counts: Span = "session"
    """What the token counts in the answer to a prompt cover."""
    loads: bool = True
    """Whether `session/load` works. With one agent it destroys the session."""
    title_is_command: bool = False
    """Whether the title of a call that runs a command is that command; nothing else contains it."""
    failure: str | None = None
    """An answer that begins like this is an error: the agent ends failed turns as if they had succeeded."""
    refused: str | None = None
    """How a text begins with which it ends the turn after a call was denied."""
    known: bool = True

    def says_refused(self, update: dict[str, Any]) -> bool:
        if self.refused is None or update.get("sessionUpdate") != "agent_message_chunk":
            return False
        return text_of(update.get("content")).startswith(self.refused)


UNKNOWN = Traits(known=False)

TRAITS: dict[str, Traits] = {
    "gemini-cli": Traits(asking_mode="default", plan_mode="plan", counts="turn", loads=False, title_is_command=True),
    "OpenCode": Traits(asking_mode="build", plan_mode="plan", counts="step"),
    "qwen-code": Traits(asking_mode="default", plan_mode="plan", counts="turn"),
    "Copilot": Traits(
        asking_mode=f"{_COPILOT_MODES}agent",
        plan_mode=f"{_COPILOT_MODES}plan",
        options={"allow_all": "off"},
        counts="session",
        failure="Error:",
        refused="Info: Operation cancelled",
    ),
    "Kimi Code CLI": Traits(asking_mode="default", plan_mode="plan", counts="none"),
    "@agentclientprotocol/claude-agent-acp": Traits(asking_mode="default", plan_mode="plan", counts="turn"),
    "@agentclientprotocol/codex-acp": Traits(asking_mode="read-only", counts="turn"),
    "treadle": Traits(asking_mode="suggest", plan_mode="plan", counts="session"),
}


def traits_of(name: str) -> Traits:
    return TRAITS.get(name, UNKNOWN)


# What an agent offers when a session is opened: modes, models, settings, sessions, options of a question.

KEEPS_TO_ITSELF = ("gemini", "opencode")
"""Agents, by card name, that we do not offer files and terminals. One cannot write any more once it may read through
us; the other writes a file itself and then again through us.
"""


class Setup:
    """The answer to `session/new` and the like. Modes and models come in three forms; some agents use two at once."""

    def __init__(self, answer: dict[str, Any]) -> None:
        self._options = [option for option in _list(answer.get("configOptions")) if isinstance(option, dict)]
        modes, models = _dict(answer.get("modes")), _dict(answer.get("models"))
        self.id = _text(answer.get("sessionId"))
        option = self._by_category("mode")
        self.has_modes = bool(modes)
        self.modes = _ids(modes.get("availableModes"), "id") or _ids(_dict(option).get("options"), "value")
        self.mode = _text(modes.get("currentModeId")) or _text(_dict(option).get("currentValue"))
        option = self._by_category("model")
        self.model_option = _text(_dict(option).get("id")) or None
        self._named = _names(_dict(option).get("options"), "value") or _names(models.get("availableModels"), "modelId")
        self.models = list(self._named)
        self.model = _text(_dict(option).get("currentValue")) or _text(models.get("currentModelId"))

    def value(self, option: str) -> Any:
        """The current value of a setting; None when there is none of that name."""
        return next((one.get("currentValue") for one in self._options if one.get("id") == option), None)

    def find_model(self, wanted: str) -> str | None:
        """A model by its id, or by the name that people use."""
        if wanted in self._named:
            return wanted
        return next((key for key, name in self._named.items() if name == wanted), None)

    def menu(self) -> ModelMenu:
        offered = tuple(OfferedModel(id=key, name=name or key) for key, name in self._named.items())
        return ModelMenu(current=self.model, offered=offered)

    def _by_category(self, category: str) -> Any:
        return next((one for one in self._options if one.get("category") == category), None)


async def set_option(rpc: Rpc, session: str, option: str, value: str) -> None:
    await rpc.call("session/set_config_option", {"sessionId": session, "configId": option, "value": value})


async def set_model(rpc: Rpc, session: str, setup: Setup, model: str, agent: str) -> None:
    wanted = setup.find_model(model)
    if wanted is None:
        known = ", ".join(setup.models) or "none that it tells of"
        raise ConfigError(f"{agent} has no model {model!r}", hint=f"it has {known}")
    if wanted == setup.model:
        return
    if setup.model_option is not None:
        await set_option(rpc, session, setup.model_option, wanted)
    else:
        await rpc.call("session/set_model", {"sessionId": session, "modelId": wanted})
    setup.model = wanted


def images(can: dict[str, Any]) -> Literal["native", "unsupported"]:
    """Whether an agent with these capabilities takes images with a prompt."""
    return "native" if _dict(can.get("promptCapabilities")).get("image") is True else "unsupported"


def continuing(can: dict[str, Any]) -> dict[str, Literal["native", "unsupported"]]:
    """Whether an agent with these capabilities can go on with a session or a copy of one, or work in more places."""
    of_sessions = _dict(can.get("sessionCapabilities"))
    found = {
        "resume": can.get("loadSession") is True or of_sessions.get("resume") is not None,
        "fork": of_sessions.get("fork") is not None,
        "add_dirs": of_sessions.get("additionalDirectories") is not None,
    }
    return {name: "native" if able else "unsupported" for name, able in found.items()}


def chosen(offered: Any, allowed: bool) -> dict[str, Any]:
    """The option to choose, by its kind. Never one that lasts: we would not be asked the next time."""
    kinds = ("allow_once", "allow_always") if allowed else ("reject_once", "reject_always")
    given = [option for option in _list(offered) if isinstance(option, dict)]
    for kind in kinds:
        for option in given:
            if option.get("kind") == kind and isinstance(option.get("optionId"), str):
                return {"outcome": {"outcome": "selected", "optionId": option["optionId"]}}
    return {"outcome": {"outcome": "cancelled"}}


def listed(answer: Any) -> list[StoredSession]:
    """The sessions that an agent lists, latest first."""
    found = [
        StoredSession(
            id=one["sessionId"],
            cwd=_text(one.get("cwd")),
            title=_text(one.get("title")),
            updated=_seconds(one.get("updatedAt")),
        )
        for one in _list(_dict(answer).get("sessions"))
        if isinstance(one, dict) and isinstance(one.get("sessionId"), str)
    ]
    return sorted(found, key=lambda session: -session.updated)


def newest(sessions: list[StoredSession], agent: str) -> str:
    if not sessions:
        raise Unsupported(f"{agent} does not say which session of this directory is the newest")
    return sessions[0].id


def reachable(servers: dict[str, dict[str, Any]], can: dict[str, Any]) -> tuple[dict[str, dict[str, Any]], list[str]]:
    """The MCP servers that an agent with these capabilities can reach, and the names of the others."""
    ways = {"stdio", *(way for way, offered in _dict(can.get("mcpCapabilities")).items() if offered)}
    found = {name: server for name, server in servers.items() if transport(server) in ways}
    return found, [name for name in servers if name not in found]


def _seconds(value: Any) -> float:
    try:
        return datetime.fromisoformat(value).timestamp() if isinstance(value, str) else 0.0
    except ValueError:
        return 0.0


def _ids(entries: Any, key: str) -> list[str]:
    return list(_names(entries, key))


def _names(entries: Any, key: str) -> dict[str, str]:
    """Ids and names, also of options that are in groups."""
    found: dict[str, str] = {}
    for one in _list(entries):
        if isinstance(one, dict) and isinstance(one.get("options"), list):
            found |= _names(one["options"], key)
        elif isinstance(one, dict) and isinstance(one.get(key), str):
            found[one[key]] = _text(one.get("name"))
    return found


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


# Signing in to an agent that speaks the Agent Client Protocol: the methods that it offers in its greeting.
#
# A method that takes a key from an environment variable needs no person, so it is tried when the agent asks for it.
# The others are for `treadle agents login`.

_VARIABLE = re.compile(r"\b[A-Z][A-Z0-9]*_(?:[A-Z0-9]+_)*(?:KEY|TOKEN)\b")
Kind: TypeAlias = Literal["variable", "terminal", "agent"]


class SignIn(msgspec.Struct, frozen=True, kw_only=True):
    """A way to sign in. `agent`: it does it itself when told to; `terminal`: by a command that a person types."""

    id: str
    name: str = ""
    description: str = ""
    kind: Kind = "agent"
    variables: tuple[str, ...] = ()
    """Where it takes a key from."""
    arguments: tuple[str, ...] = ()
    """For a terminal: what follows its command."""


def offered(greeting: Mapping[str, Any]) -> tuple[SignIn, ...]:
    """The methods in the answer to `initialize`."""
    methods = greeting.get("authMethods")
    return tuple(_method(one) for one in (methods if isinstance(methods, list) else []) if _has_id(one))


def by_variable(methods: tuple[SignIn, ...], env: Mapping[str, str]) -> SignIn | None:
    """The first method for which the agent has everything that it needs."""
    return next((one for one in methods if one.variables and all(env.get(name) for name in one.variables)), None)


async def opened(
    agent: str, rpc: Rpc, methods: tuple[SignIn, ...], env: Mapping[str, str], open_: Callable[[], Awaitable[None]]
) -> None:
    """Open the session; if that needs a sign-in which needs no person, sign in first."""
    try:
        await open_()
    except CallFailed as error:
        method = by_variable(methods, env)
        if error.rpc_code != AUTH_REQUIRED or method is None:
            raise explained(agent, error, methods) from error
        try:
            await rpc.call("authenticate", {"methodId": method.id})
            await open_()
        except CallFailed as again:
            raise explained(agent, again, methods) from again


def explained(agent: str, error: CallFailed, methods: tuple[SignIn, ...]) -> Exception:
    found = of_call(agent, error)
    if isinstance(found, AuthFailed) and methods:
        variables = [f"set {' and '.join(one.variables)}" for one in methods if one.variables]
        found.hint = " or ".join([f"`treadle agents login {agent}`", *variables])
    return found


def _method(method: dict[str, Any]) -> SignIn:
    """Newer agents say what kind it is and name the variables; others say it in words."""
    words = " ".join(str(method.get(name) or "") for name in ("name", "description"))
    named = [one.get("name") for one in method.get("vars") or [] if isinstance(one, dict)]
    named += (
        [method["varName"]] if isinstance(method.get("varName"), str) else _VARIABLE.findall(words) if not named else []
    )
    variables = tuple(name for name in dict.fromkeys(named) if isinstance(name, str))
    arguments = tuple(map(str, method.get("args") or ()))
    kind: Kind = "terminal" if method.get("type") == "terminal" else "variable" if variables else "agent"
    return SignIn(
        id=method["id"],
        name=str(method.get("name") or ""),
        description=str(method.get("description") or ""),
        kind=kind,
        variables=variables if kind == "variable" else (),
        arguments=arguments,
    )


def _has_id(method: Any) -> bool:
    return isinstance(method, dict) and isinstance(method.get("id"), str)
