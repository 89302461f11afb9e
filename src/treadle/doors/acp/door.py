"""Any agent for an editor that speaks the Agent Client Protocol on our stdin and stdout.

Sessions run side by side.
"""

import os
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import msgspec

from treadle import __version__
from treadle.doors.acp.session import ClientAbilities, Served
from treadle.doors.rpc import RpcDoor
from treadle.errors import AuthFailed, NotFound
from treadle.io.rpc import Then
from treadle.io.streams import Stream
from treadle.session import Agent, Keeping, SessionSpec, Start
from treadle.settings import config
from treadle.wire.acp.connection import PROTOCOL_VERSION, Connection
from treadle.wire.acp.servers import as_table
from treadle.wire.common.jsonrpc import INVALID_PARAMS, METHOD_NOT_FOUND, Fault
from treadle.wire.common.rpc import RpcNotice

RESOURCE_NOT_FOUND = -32002
AUTH_REQUIRED = -32000
LISTED = 100


class AcpDoor(RpcDoor[Served]):
    """`base` is what every session is opened with, besides what the editor says."""

    def __init__(self, agent: Agent, stream: Stream, *, base: SessionSpec, warn: Callable[[str], None]) -> None:
        super().__init__(Connection("agent"), stream, warn)
        self._agent = agent
        self._base = base
        self._client = ClientAbilities(None)
        self._methods = {
            "initialize": self._initialize,
            "authenticate": self._authenticate,
            "session/new": self._new,
            "session/load": self._load,
            "session/resume": self._resume,
            "session/fork": self._fork,
            "session/list": self._list,
            "session/close": self._close,
            "session/prompt": self._prompt,
            "session/set_mode": self._set_mode,
            "session/set_config_option": self._set_option,
        }

    def _notice(self, notice: RpcNotice) -> None:
        if notice.method == "session/cancel" and (served := self._sessions.get(str(notice.params.get("sessionId")))):
            self._help(served.cancel())

    # The connection

    async def _initialize(self, params: dict[str, Any]) -> dict[str, Any]:
        self._client = ClientAbilities(params.get("clientCapabilities"))
        info = await self._agent.probe()
        can = info.capabilities
        sessions: dict[str, Any] = {"close": {}}
        if can.get("resume", "unsupported") != "unsupported":
            sessions["resume"] = {}
            if isinstance(self._agent, Keeping):
                sessions["list"] = {}
        if can.get("fork", "unsupported") != "unsupported":
            sessions["fork"] = {}
        return {
            "protocolVersion": PROTOCOL_VERSION,
            "agentCapabilities": {
                "loadSession": "resume" in sessions,
                "promptCapabilities": {
                    "image": can.get("images", "unsupported") != "unsupported",
                    "audio": False,
                    "embeddedContext": True,
                },
                "mcpCapabilities": {"http": False, "sse": False},
                "sessionCapabilities": sessions,
            },
            "agentInfo": {"name": "treadle", "title": f"Treadle ({self._agent.name})", "version": __version__},
            "authMethods": [],
        }

    async def _authenticate(self, params: dict[str, Any]) -> dict[str, Any]:
        raise Fault(INVALID_PARAMS, "there is nothing to sign in to here: keys come from the environment or settings")

    # Sessions

    async def _new(self, params: dict[str, Any]) -> Then:
        served = await self._open(params, Start(persist=self._base.start.persist))
        return Then({"sessionId": served.session.id, **await served.setup()}, served.offer_commands)

    async def _load(self, params: dict[str, Any]) -> Then:
        served = await self._open(params, Start(resume=_session_id(params)))
        await served.replay()
        return Then(await served.setup(), served.offer_commands)

    async def _resume(self, params: dict[str, Any]) -> Then:
        served = await self._open(params, Start(resume=_session_id(params)))
        return Then(await served.setup(), served.offer_commands)

    async def _fork(self, params: dict[str, Any]) -> Then:
        served = await self._open(params, Start(resume=_session_id(params), fork=True))
        return Then({"sessionId": served.session.id, **await served.setup()}, served.offer_commands)

    async def _open(self, params: dict[str, Any], start: Start) -> Served:
        cwd = params.get("cwd")
        if not isinstance(cwd, str) or not os.path.isabs(cwd) or not os.path.isdir(cwd):
            raise Fault(INVALID_PARAMS, f"cwd is {cwd!r}, which is not the absolute path of a directory")
        if start.resume is not None and not start.fork and (known := self._sessions.pop(start.resume, None)):
            await known.close()
        more = params.get("additionalDirectories")
        added = tuple(path for path in (more if isinstance(more, list) else []) if isinstance(path, str))
        mode = self._base.mode or config.load(cwd).settings.mode or "suggest"
        spec = msgspec.structs.replace(
            self._base, cwd=cwd, mode=mode, start=start, answers=True, add_dirs=(*self._base.add_dirs, *added)
        )
        if servers := params.get("mcpServers"):
            tools = msgspec.structs.replace(spec.tools, servers={**spec.tools.servers, **as_table(servers)})
            spec = msgspec.structs.replace(spec, tools=tools)
        try:
            session = await self._agent.open(spec)
        except NotFound as error:
            raise Fault(RESOURCE_NOT_FOUND, str(error)) from error
        except AuthFailed as error:
            raise Fault(AUTH_REQUIRED, str(error)) from error
        served = Served(
            session, cwd, mode, client=self._client, call=self._rpc.call, tell=self._rpc.tell, warn=self._warn
        )
        self._sessions[session.id] = served
        return served

    async def _list(self, params: dict[str, Any]) -> dict[str, Any]:
        if not isinstance(self._agent, Keeping):
            raise Fault(METHOD_NOT_FOUND, f"{self._agent.name} keeps no list of its sessions")
        cwd, cursor = params.get("cwd"), params.get("cursor")
        stored = await self._agent.stored_sessions(cwd if isinstance(cwd, str) else None)
        first = int(cursor) if isinstance(cursor, str) and cursor.isascii() and cursor.isdigit() else 0
        page = stored[first : first + LISTED]
        listed = [
            {
                "sessionId": one.id,
                "cwd": one.cwd,
                "title": one.title or None,
                "updatedAt": datetime.fromtimestamp(one.updated, UTC).isoformat(),
            }
            for one in page
        ]
        more = {"nextCursor": str(first + LISTED)} if len(stored) > first + LISTED else {}
        return {"sessions": listed, **more}

    async def _close(self, params: dict[str, Any]) -> dict[str, Any]:
        served = self._find(params)
        del self._sessions[served.session.id]
        await served.close()
        return {}

    async def _prompt(self, params: dict[str, Any]) -> dict[str, Any]:
        return await self._find(params).prompt(params.get("prompt"))

    async def _set_mode(self, params: dict[str, Any]) -> dict[str, Any]:
        await self._find(params).set_mode(params.get("modeId"))
        return {}

    async def _set_option(self, params: dict[str, Any]) -> dict[str, Any]:
        return await self._find(params).set_option(params.get("configId"), params.get("value"))

    def _find(self, params: dict[str, Any]) -> Served:
        served = self._sessions.get(_session_id(params))
        if served is None:
            raise Fault(RESOURCE_NOT_FOUND, f"no open session {params.get('sessionId')!r}")
        return served


def _session_id(params: dict[str, Any]) -> str:
    given = params.get("sessionId")
    if not isinstance(given, str) or not given:
        raise Fault(INVALID_PARAMS, "a sessionId is needed")
    return given
