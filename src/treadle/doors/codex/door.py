"""Any agent for clients of Codex's app-server: its SDK for Python, and editors whose plug-ins drive Codex.

They start us as they would start `codex app-server`. Methods that only Codex has are refused with the reason.
"""

import os
import platform
from collections.abc import Callable
from typing import Any, get_args

import msgspec

from treadle import __version__
from treadle.doors.codex.thread import AS_SET, OpenThread, not_used, refuse, refused, spec_of, terms
from treadle.doors.rpc import RpcDoor
from treadle.errors import NotFound, TreadleError
from treadle.io.paths import state_dir
from treadle.io.rpc import Then
from treadle.io.streams import Stream
from treadle.session import Agent, Choosing, Effort, Keeping, ModelMenu, SessionSpec, Start, StoredSession
from treadle.sessions.abilities import can
from treadle.settings import config
from treadle.wire.codex import outgoing
from treadle.wire.codex.connection import SPEAKS, Connection
from treadle.wire.common.rpc import CallKey

LISTED = 50
"""How many threads a list has, unless the client says otherwise."""


class AppServerDoor(RpcDoor[OpenThread]):
    """`base` is what every thread is opened with, besides what the client says."""

    def __init__(self, agent: Agent, stream: Stream, *, base: SessionSpec, warn: Callable[[str], None]) -> None:
        super().__init__(Connection("server"), stream, warn)
        self._agent = agent
        self._base = base
        self._unwanted: set[str] = set()
        """Notifications that the client does not want."""
        self._named: set[str] = set()
        self._models: list[dict[str, Any]] | None = None
        self._methods = {
            "initialize": self._initialize,
            "thread/start": self._start,
            "thread/resume": self._resume,
            "thread/fork": self._fork,
            "thread/list": self._list,
            "thread/loaded/list": self._loaded,
            "thread/read": self._read_thread,
            "thread/turns/list": self._turns,
            "thread/unsubscribe": self._unsubscribe,
            "thread/compact/start": self._compact,
            "turn/start": self._start_turn,
            "turn/steer": self._steer,
            "turn/interrupt": self._interrupt,
            "model/list": self._list_models,
            "account/read": self._account,
            "config/read": self._config,
            "skills/list": _none_of_these,
            "hooks/list": _none_of_these,
            "mcpServerStatus/list": _none_of_these,
            "experimentalFeature/list": _none_of_these,
            "permissionProfile/list": _none_of_these,
        }

    def _unknown(self, method: str) -> str:
        return f"{method} is not offered here; offered are {', '.join(sorted(self._methods))}"

    async def _tell(self, method: str, params: dict[str, Any]) -> None:
        if method not in self._unwanted:
            await self._rpc.tell(method, params)

    async def _ask(self, method: str, params: dict[str, Any], noted: Callable[[CallKey], None]) -> Any:
        return await self._rpc.call(method, params, noted)

    # The connection

    async def _initialize(self, params: dict[str, Any]) -> dict[str, Any]:
        given = params.get("capabilities")
        unwanted = given.get("optOutNotificationMethods") if isinstance(given, dict) else None
        self._unwanted = set(map(str, unwanted)) if isinstance(unwanted, list) else set()
        return {
            "userAgent": f"treadle/{SPEAKS} (treadle {__version__}; {self._agent.name})",
            "codexHome": state_dir(),
            "platformFamily": "unix",
            "platformOs": platform.system().lower(),
        }

    async def _account(self, params: dict[str, Any]) -> dict[str, Any]:
        """Keys come from the environment or settings: there is nothing to sign in to here."""
        return {"account": None, "requiresOpenaiAuth": False}

    async def _config(self, params: dict[str, Any]) -> dict[str, Any]:
        return {"config": {"model": self._base.model}, "origins": {}, "layers": None}

    async def _list_models(self, params: dict[str, Any]) -> dict[str, Any]:
        if self._models is None:
            opened = next(iter(self._sessions.values()), None)
            if opened is not None:
                self._models = await _menu(opened.session)
            else:  # the agent knows them only in a session
                looking = ("unsaved",)
                base = msgspec.structs.replace(self._base, mode="suggest", start=Start(persist=False), routine=looking)
                session = await self._agent.open(base)
                try:
                    self._models = await _menu(session)
                finally:
                    await session.close()
        return {"data": self._models, "nextCursor": None}

    # Threads

    async def _start(self, params: dict[str, Any]) -> Then:
        persist = self._base.start.persist and not params.get("ephemeral")
        return await self._opened(params, Start(persist=persist))

    async def _resume(self, params: dict[str, Any]) -> Then:
        wanted = _thread_id(params)
        if (known := self._sessions.get(wanted)) is not None:
            refuse(params)
            return Then(_resumed(known, params), known.listen)
        return await self._opened(params, Start(resume=wanted))

    async def _fork(self, params: dict[str, Any]) -> Then:
        return await self._opened(params, Start(resume=_thread_id(params), fork=True))

    async def _opened(self, params: dict[str, Any], start: Start) -> Then:
        refuse(params)
        cwd = params.get("cwd") or (await self._place(start.resume) if start.resume else self._base.cwd)
        if not isinstance(cwd, str) or not os.path.isabs(cwd) or not os.path.isdir(cwd):
            raise refused(f"cwd is {cwd!r}, which is not the absolute path of a directory")
        agreed = terms(params, self._base.mode or config.load(cwd).settings.mode or "suggest")
        spec = msgspec.structs.replace(spec_of(params, self._base, agreed), cwd=cwd, start=start)
        try:
            session = await self._agent.open(spec)
        except NotFound as error:
            raise refused(f"no rollout found for thread id {start.resume}: {error}") from error
        thread = OpenThread(session, spec, agreed, tell=self._tell, ask=self._ask)
        await thread.look()
        self._sessions[thread.id] = thread

        async def then() -> None:
            await self._name(thread.id, params)
            await self._tell("thread/started", {"thread": thread.view()})
            await thread.listen()

        return Then(thread.opened(turns=False) if start.resume is None else _resumed(thread, params), then)

    async def _place(self, thread: str) -> str:
        """Where a thread was at work. An agent that keeps no list is told the directory by its client."""
        stored = await self._agent.stored_sessions() if isinstance(self._agent, Keeping) else []
        return next((one.cwd for one in stored if one.id == thread and one.cwd), self._base.cwd)

    async def _name(self, thread: str, params: dict[str, Any]) -> None:
        """Say once what the client asks for and does not get."""
        for sentence in not_used(params):
            if sentence not in self._named:
                self._named.add(sentence)
                await self._tell("warning", {"threadId": thread, "message": sentence})

    async def _list(self, params: dict[str, Any]) -> dict[str, Any]:
        wanted = params.get("cwd")
        places = [wanted] if isinstance(wanted, str) else wanted
        stored = await self._stored(places[0] if isinstance(places, list) and len(places) == 1 else None)
        word, archived = str(params.get("searchTerm") or "").lower(), bool(params.get("archived"))
        found = [
            one for one in stored if not archived and (not places or one.cwd in places) and word in one.title.lower()
        ]
        limit, cursor = params.get("limit"), params.get("cursor")
        count = limit if isinstance(limit, int) and limit > 0 else LISTED
        first = int(cursor) if isinstance(cursor, str) and cursor.isascii() and cursor.isdigit() else 0
        page = [self._listed(one) for one in found[first : first + count]]
        more = str(first + count) if len(found) > first + count else None
        return {"data": page, "nextCursor": more, "backwardsCursor": None}

    async def _stored(self, cwd: str | None) -> list[StoredSession]:
        return await self._agent.stored_sessions(cwd) if isinstance(self._agent, Keeping) else []

    def _listed(self, one: StoredSession) -> dict[str, Any]:
        if (opened := self._sessions.get(one.id)) is not None:
            return opened.view()
        return outgoing.thread(one, status="notLoaded", model=None, version=SPEAKS)

    async def _loaded(self, params: dict[str, Any]) -> dict[str, Any]:
        return {"data": list(self._sessions), "nextCursor": None}

    async def _read_thread(self, params: dict[str, Any]) -> dict[str, Any]:
        wanted, whole = _thread_id(params), bool(params.get("includeTurns"))
        if (opened := self._sessions.get(wanted)) is not None:
            return {"thread": opened.view(turns=whole)}
        if whole:
            raise refused(f"thread {wanted} is not loaded: its turns can be read after thread/resume")
        found = next((one for one in await self._stored(None) if one.id == wanted), None)
        if found is None:
            raise refused(f"no rollout found for thread id {wanted}")
        return {"thread": self._listed(found)}

    async def _turns(self, params: dict[str, Any]) -> dict[str, Any]:
        turns = self._find(params).turns
        newest = turns if params.get("sortDirection") == "asc" else turns[::-1]
        return {"data": newest, "nextCursor": None, "backwardsCursor": None}

    async def _unsubscribe(self, params: dict[str, Any]) -> Then:
        thread = self._sessions.pop(_thread_id(params), None)
        if thread is None:
            return Then({"status": "notLoaded"}, _nothing)
        name = thread.id
        await thread.close()
        return Then({"status": "unsubscribed"}, lambda: self._tell("thread/closed", {"threadId": name}))

    async def _compact(self, params: dict[str, Any]) -> Then:
        session = self._find(params).session
        if not any(command.name == "compact" for command in session.commands()):
            raise refused(f"{self._agent.name} has no command to compact a conversation")

        async def compact() -> None:
            try:
                await session.command("compact", "")
            except TreadleError as error:
                await self._tell("warning", {"threadId": session.id, "message": str(error)})

        async def then() -> None:
            self._help(compact())

        return Then({}, then)

    # Turns

    async def _start_turn(self, params: dict[str, Any]) -> Then:
        refuse(params)
        thread = self._find(params)
        await self._name(thread.id, params)
        return await thread.start(params)

    async def _steer(self, params: dict[str, Any]) -> dict[str, Any]:
        return await self._find(params).steer(params)

    async def _interrupt(self, params: dict[str, Any]) -> dict[str, Any]:
        await self._find(params).interrupt(str(params.get("turnId")))
        return {}

    def _find(self, params: dict[str, Any]) -> OpenThread:
        thread = self._sessions.get(_thread_id(params))
        if thread is None:
            raise refused(f"thread not found: {params.get('threadId')}")
        return thread


def _resumed(thread: OpenThread, params: dict[str, Any]) -> dict[str, Any]:
    more = dict.fromkeys(("collaborationMode", "turnsBackwardsCursor", "itemsBackwardsCursor"))
    return {**thread.opened(turns=not params.get("excludeTurns")), **more}


async def _menu(session: Any) -> list[dict[str, Any]]:
    able = session.info.capabilities
    efforts = [AS_SET, *(get_args(Effort) if can(able, "effort") else ())]
    menu = (
        await session.menu() if isinstance(session, Choosing) else ModelMenu(current="".join(session.info.models[:1]))
    )
    return outgoing.models(menu, efforts, images=can(able, "images"))


async def _none_of_these(params: dict[str, Any]) -> dict[str, Any]:
    """Lists that editors ask for; those of an agent are not known to us."""
    return {"data": [], "nextCursor": None}


def _thread_id(params: dict[str, Any]) -> str:
    given = params.get("threadId")
    if not isinstance(given, str) or not given:
        raise refused("a threadId is needed")
    return given


async def _nothing() -> None:
    """Nothing follows the answer."""
