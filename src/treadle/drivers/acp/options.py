"""What an agent offers when a session is opened: modes, models, settings, sessions, options of a question."""

from datetime import datetime
from typing import Any, Literal

from treadle.errors import ConfigError, Unsupported
from treadle.io.rpc import Rpc
from treadle.session import ModelMenu, OfferedModel, StoredSession
from treadle.wire.acp.servers import transport

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
