"""Control requests that only ask, or change little: versions, cost, models, rules, files, styles, skills, the name."""

import os
from typing import Any

from treadle import __version__
from treadle.doors.oneshot.adaptable import Adaptable
from treadle.errors import ConfigError, NotFound
from treadle.io.files import read_at_most
from treadle.session import Change, Session, parse_mode
from treadle.settings.claude import EVENTS
from treadle.wire.oneshot import records as wire
from treadle.workspace import file_names

MOST = 1 << 20


class Inquiries:
    def __init__(self, session: Session) -> None:
        self._session = session

    async def answer(self, request: dict[str, Any]) -> dict[str, Any] | None:
        """None: it is another kind of request."""
        info = self._session.info
        lists = wire.command_lists(info, self._session.commands())
        match request.get("subtype"):
            case "get_binary_version":
                return {"version": __version__, "buildTime": None}
            case "get_session_cost":
                cost = await self._session.command("cost", "")
                return {"text": cost.message if cost is not None else ""}
            case "list_models":
                return {"models": lists["models"]}
            case "list_permission_rules":
                return {"state": self._rules()}
            case "read_file":
                return self._file(request)
            case "reload_output_styles":
                return {"available_output_styles": lists["available_output_styles"]}
            case "reload_skills":
                skills = [command for command in self._session.commands() if command.skill]
                return {"skills": [{"name": skill.name, "description": skill.description} for skill in skills]}
            case "reload_plugins":
                servers = [{"name": name, "status": state} for name, state in info.mcp_servers.items()]
                return {
                    "commands": lists["commands"],
                    "agents": lists["agents"],
                    "plugins": [],
                    "mcpServers": servers,
                    "error_count": 0,
                }
            case "rename_session":
                await self._session.command("rename", str(request.get("title") or ""))
                return {}
            case "apply_flag_settings":
                await self._apply(request.get("settings"))
                return {}
            case "background_tasks":
                return {"backgrounded": False}  # a command that runs cannot be put in the background afterwards
            case "set_has_subscribers" | "seed_read_state":  # a file need not be read here before it is edited
                return {}
            case "file_suggestions":
                return self._suggestions(str(request.get("query") or ""))
            case "get_hooks_listing":
                return {"events": [], "hooks": [], "eventCatalog": [{"name": name} for name in EVENTS], "policy": {}}
        return None

    def _rules(self) -> dict[str, Any]:
        rules = self._session.every_rule() if isinstance(self._session, Adaptable) else []
        listed = [
            {"behavior": verdict, "source": "session", "rule": rule, "editability": "session"}
            for verdict, rule in rules
        ]
        return {"rules": listed, "workspaceDirectories": [], "originalCwd": self._cwd(), "managedOnly": False}

    def _cwd(self) -> str:
        return self._session.place() if isinstance(self._session, Adaptable) else os.getcwd()

    def _suggestions(self, begun: str) -> dict[str, Any]:
        found = file_names.matching(file_names.listed(self._cwd()), begun)
        return {"suggestions": [{"path": path} for path in found], "cwd": self._cwd()}

    def _file(self, request: dict[str, Any]) -> dict[str, Any]:
        """A file that the agent may read without a question, for a host that shows it."""
        asked = str(request.get("path") or "")
        path = os.path.join(self._cwd(), asked)
        if not isinstance(self._session, Adaptable) or not self._session.may_read(path):
            raise NotFound(f"{asked} is not a file that the agent may read without a question")
        wanted = request.get("max_bytes")
        try:
            data = read_at_most(path, min(wanted, MOST) if isinstance(wanted, int) and wanted > 0 else MOST)
        except OSError as error:
            raise NotFound(f"{asked}: {error.strerror}") from error
        text = data.decode(errors="replace")
        return {"contents": text, "absPath": path, "lossy": text.encode() != data, "requested_path": asked}

    async def _apply(self, settings: Any) -> None:
        """Settings for the rest of the session: the model, the mode and rules. What else is wanted is refused."""
        if not isinstance(settings, dict):
            raise ConfigError("settings must be an object")
        permissions = settings.get("permissions") or {}
        known = ("allow", "ask", "deny", "defaultMode")
        unknown = [name for name in settings if name not in ("model", "permissions")]
        unknown += [f"permissions.{name}" for name in permissions if name not in known]
        if unknown:
            raise ConfigError(f"these settings cannot be changed in a session: {', '.join(unknown)}")
        if model := settings.get("model"):
            await self._session.configure(Change(model=str(model)))
        if mode := permissions.get("defaultMode"):
            await self._session.configure(Change(mode=parse_mode(str(mode))))
        for verdict in ("deny", "ask", "allow"):
            for rule in permissions.get(verdict) or ():
                if not isinstance(self._session, Adaptable):
                    raise ConfigError("this agent takes no rules after it was opened")
                self._session.add_rule(verdict, str(rule))
