"""Codex without an app-server: `codex exec --json`, one process per turn. It never asks.

Our rules cannot deny anything here; the mode chooses Codex's own sandbox, and a warning at the start says so.
"""

from functools import partial
from typing import Any

import msgspec

from treadle.drivers.card import Card, Level
from treadle.drivers.confined import enclosure, is_sealed, started, watched
from treadle.drivers.launch import Launch
from treadle.errors import PeerExited, RemoteError, RemoteProtocolError, TimedOut
from treadle.events import CommandRun, ErrorInfo, Message, TextDelta, ToolEnded, ToolStarted, TurnEnded, Warned
from treadle.io.peer import Patience, Peer
from treadle.io.within import within
from treadle.session import AgentInfo, Mode, SessionSpec
from treadle.sessions import abilities
from treadle.sessions.session import BaseSession, Turn, new_id
from treadle.wire.codex import events as reading
from treadle.wire.codex.records import CodexOutput, as_item, as_usage

SANDBOX: dict[Mode | None, str] = {
    "plan": "read-only",
    "suggest": "read-only",
    "auto-edit": "workspace-write",
    "full-auto": "workspace-write",
}
CAPABILITIES: dict[str, Level] = dict.fromkeys(
    (
        *("streaming", "permissions", "questions", "rules", "steer", "fork", "servers", "images"),
        *("mode", "switch_model", "system_prompt", "add_dirs", "unsaved", "effort"),
    ),
    "unsupported",
)
"""What it cannot do, unlike an app-server."""


class ExecSession(BaseSession):
    def __init__(self, card: Card, spec: SessionSpec, launch: Launch, env: dict[str, str], patience: Patience) -> None:
        info = AgentInfo(name=card.name, capabilities={**card.capabilities, **CAPABILITIES}, mode=spec.mode)
        abilities.check(card.name, info.capabilities, spec)
        super().__init__(spec.start.resume or new_id("session"), info)
        self._spec, self._env, self._patience = spec, env, patience
        self._program = launch.argv[0]
        self._writes = (*card.writes, *launch.writes)
        self._hosts = launch.hosts
        self._thread = spec.start.resume or ""
        self._before: dict[str, Any] = {}
        """Its counts at the end of the last turn, because they cover the whole thread."""
        self._counted = not self._thread
        self._open: dict[str, str] = {}
        """Running tools: call and name."""
        warning = (
            "this codex has no app-server and is driven by `codex exec`: it asks no one, and the rules do not bind it"
        )
        for each in (warning, *abilities.gaps(card.name, info.capabilities, spec)):
            self.emit(Warned(message=each, code="not_enforced"))

    def _argv(self) -> list[str]:
        sandbox = SANDBOX.get(self._spec.mode, "danger-full-access")
        if self._spec.confinement.use == "on":  # our sandbox is around it, and Codex cannot make its own inside
            sandbox = "danger-full-access"
        argv = [self._program, "exec", "--json", "--skip-git-repo-check", "--sandbox", sandbox]
        argv += ["--model", self._spec.model] if self._spec.model else []
        return [*argv, "resume", self._thread, "-"] if self._thread else [*argv, "-"]

    async def _turn(self, turn: Turn) -> TurnEnded:
        argv = self._argv()
        made = enclosure(self._spec, self._info.name, argv, self._env, self._writes, self._hosts)
        name, cwd = self._info.name, self._spec.cwd
        start = partial(Peer.start, argv, CodexOutput(), name=name, cwd=cwd, env=self._env, patience=self._patience)
        peer = await started(made, start)
        self._info = msgspec.structs.replace(self._info, sealed=self._info.sealed is not False and is_sealed(peer))
        async with watched(peer, self.emit, self):
            return await self._whole_turn(peer, turn)

    async def _whole_turn(self, peer: Peer[Any, str], turn: Turn) -> TurnEnded:
        seconds = self._spec.limits.max_seconds
        try:
            async with within(seconds):
                await peer.say(turn.prompt.text)
                peer.child.stdio.close_write()
                return await self._follow(turn, peer)
        except TimeoutError:
            raise TimedOut(f"the turn took more than {seconds:g} s") from None
        finally:
            await peer.end()
            for call, name in self._open.items():
                self.emit(ToolEnded(call=call, name=name, result="the turn ended before it did", ok=False))
            self._open.clear()

    async def _follow(self, turn: Turn, peer: Peer[Any, str]) -> TurnEnded:
        error: ErrorInfo | None = None
        done = False
        while True:
            try:
                heard = await peer.hear()
            except PeerExited as gone:
                if done:
                    return turn.ending("completed")
                raise RemoteError(error.message if error else str(gone)) from gone
            while heard:
                record = heard.popleft()
                if isinstance(record, RemoteProtocolError):
                    continue
                match record.get("type"):
                    case "thread.started":
                        self._thread = self._id = str(record["thread_id"])
                    case "item.started" | "item.completed":
                        self._item(turn, as_item(record["item"]), ended=record["type"] == "item.completed")
                    case "turn.completed":
                        done = True
                        self._used(record.get("usage") or {})
                    case "turn.failed" | "error":
                        details = record.get("error") or record
                        error = ErrorInfo(code="provider_error", message=str(details.get("message")))
            await self.room()

    def _used(self, usage: dict[str, Any]) -> None:
        now = as_usage(usage)
        if self._counted:
            since = {name: (count or 0) - (self._before.get(name) or 0) for name, count in now.items()}
            self.emit(reading.usage(since, self._spec.model or ""))
        self._before, self._counted = now, True

    def _item(self, turn: Turn, item: dict[str, Any], *, ended: bool) -> None:
        kind, id = item.get("type"), f"{turn.id}:{item.get('id')}"
        if kind == "agentMessage" and ended:
            turn.text = str(item.get("text"))
            turn.iterations += 1
            self.emit(TextDelta(text=turn.text))
            self.emit(Message(text=turn.text))
        elif kind == "reasoning" and ended:
            self.emit(Message(text=str(item.get("text")), kind="thinking"))
        elif kind == "error" and ended:
            self.emit(Warned(message=str(item.get("message")), code="agent"))
        elif kind in reading.TOOLS:
            self._tool(item, id, str(kind), ended)

    def _tool(self, item: dict[str, Any], id: str, kind: str, ended: bool) -> None:
        name, args = reading.tool_name(item), reading.tool_args(item)
        command = reading.plain_command(item.get("command")) if kind == "commandExecution" else None
        if id not in self._open:  # some calls, such as patches, are reported when they are done
            self._open[id] = name
            self.emit(
                ToolStarted(
                    call=id,
                    name=name,
                    args=args,
                    kind=reading.TOOLS[kind][1],
                    paths=reading.paths(item),
                    command=command,
                )
            )
        if ended:
            text = reading.result_text(item)
            if command is not None:
                self.emit(CommandRun(command=command, exit_code=item.get("exitCode"), output=text, call=id))
            for change in reading.file_changes(item) if kind == "fileChange" else []:
                self.emit(msgspec.structs.replace(change, call=id))
            self._open.pop(id, None)
            self.emit(ToolEnded(call=id, name=name, result=text, ok=item.get("status") == "completed"))
