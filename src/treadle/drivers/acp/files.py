"""Files and commands that an agent reads, writes and runs through us: under our rules, and reported as events."""

import asyncio
import codecs
import os
import shlex
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any, Protocol

from treadle.drivers.acp.options import DENIED, NOT_FOUND
from treadle.errors import Denied, StorageError, TreadleError
from treadle.events import Event, FileChanged
from treadle.io import files
from treadle.io.process.child import Child, Tail
from treadle.io.sandbox.start import start
from treadle.io.tasks import end_tasks
from treadle.policy.environment import reduced
from treadle.policy.rules import is_under
from treadle.session import Access, Confinement, SessionSpec
from treadle.wire.acp.tools import unified
from treadle.wire.common.jsonrpc import INTERNAL_ERROR, INVALID_PARAMS, METHOD_NOT_FOUND, Fault

MOST = 8 << 20
"""The largest file in bytes that an agent is given, so that the answer fits on a line."""


class Host(Protocol):
    """The session that they belong to."""

    spec: SessionSpec

    async def use(self, access: Access, call: str) -> str: ...

    def confined(self) -> Confinement | None: ...

    def emit(self, event: Event) -> None: ...


class Files:
    def __init__(self, host: Host) -> None:
        self._host = host
        self._calls = 0
        self.written: set[str] = set()
        """What was written in this turn, by its real path."""

    async def read(self, params: dict[str, Any]) -> dict[str, Any]:
        path = self._path(params)
        if not os.path.lexists(path):  # agents look for many files, and no one wants to be asked about each
            raise Fault(NOT_FOUND, f"no such file: {path}")
        await self._host.use(Access(tool="read", kind="read", paths=(path,)), self._call())
        text = await asyncio.to_thread(_read, path)
        line, limit = params.get("line"), params.get("limit")
        if isinstance(line, int) or isinstance(limit, int):
            lines = text.splitlines(keepends=True)
            first = max(line - 1, 0) if isinstance(line, int) else 0
            text = "".join(lines[first : first + limit] if isinstance(limit, int) else lines[first:])
        return {"content": text}

    async def write(self, params: dict[str, Any]) -> dict[str, Any]:
        path, content = self._path(params), params.get("content")
        if not isinstance(content, str):
            raise Fault(INVALID_PARAMS, "content must be a text")
        args = {"file_path": path, "content": content}
        call = await self._host.use(Access(tool="write", kind="write", paths=(path,), args=args), self._call())
        writing = self._host.spec.guards.writing
        try:
            with writing((os.path.realpath(path),)) if writing is not None else nullcontext():
                old = await asyncio.to_thread(_write, path, content)
        except Denied as error:
            raise Fault(DENIED, f"not allowed: {error}") from error
        self.written.add(os.path.realpath(path))
        change = unified(path, old or "", content)
        event = FileChanged(path=path, change="added" if old is None else "modified", diff=change, call=call)
        self._host.emit(event)
        return {}

    def _path(self, params: dict[str, Any]) -> str:
        path = params.get("path")
        if not isinstance(path, str) or "\0" in path:
            raise Fault(INVALID_PARAMS, "path must be a text")
        return os.path.normpath(os.path.join(self._host.spec.cwd, path))

    def _call(self) -> str:
        self._calls += 1
        return f"fs-{self._calls}"


def _read(path: str) -> str:
    try:
        data = files.read_at_most(path, MOST + 1)
    except FileNotFoundError:
        raise Fault(NOT_FOUND, f"no such file: {path}") from None
    except OSError as error:
        raise Fault(INTERNAL_ERROR, f"{path} cannot be read: {error.strerror}") from error
    if len(data) > MOST:
        raise Fault(INTERNAL_ERROR, f"{path} is larger than {MOST} bytes")
    return data.decode("utf-8", "replace")


def _write(path: str, content: str) -> str | None:
    """Write the file. Returns what was there before; None when there was nothing."""
    try:
        old = files.read_at_most(path, MOST).decode("utf-8", "replace")
    except FileNotFoundError:
        old = None
    except OSError as error:
        raise Fault(INTERNAL_ERROR, f"{path} cannot be written: {error.strerror}") from error
    try:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        files.write_atomic(path, content.encode("utf-8", "replace"), 0o644, keep_mode=True)
    except (OSError, StorageError) as error:
        raise Fault(INTERNAL_ERROR, f"{path} cannot be written: {error}") from error
    return old


# Commands that an agent runs through us: checked by our rules, run under our keeper, ended with the session.

OUTPUT = 1 << 20
"""How many bytes of output are kept when the agent does not say."""
STOP_GRACE = 1.0
"""How many seconds a command has to end by itself when its turn is stopped."""


class Terminal:
    def __init__(self, child: Child, limit: int) -> None:
        self.child = child
        self.output = Tail(limit)
        self.on_text: Callable[[str], None] | None = None
        """Called with each piece of output, once it is known which call it belongs to."""
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self.reading = asyncio.create_task(self._read())

    async def _read(self) -> None:
        while data := await self.child.stdio.read():
            self.output.feed(data)
            if self.on_text is not None and (text := self._decoder.decode(data)):
                self.on_text(text)

    def attach(self, on_text: Callable[[str], None]) -> None:
        if self.on_text is None:
            self.on_text = on_text
            if text := self._decoder.decode(self.output.content):
                on_text(text)

    async def wait(self) -> dict[str, Any]:
        await self.child.wait()
        await asyncio.wait([self.reading], timeout=1.0)
        return self.status() or {}

    def status(self) -> dict[str, Any] | None:
        code = self.child.exit_code
        if code is None:
            return None
        return {"exitCode": code, "signal": None} if code >= 0 else {"exitCode": None, "signal": str(-code)}

    async def end(self) -> None:
        await self.child.stop()
        await end_tasks(self.reading)
        self.child.close()


class Terminals:
    def __init__(self, host: Host) -> None:
        self._host = host
        self._open: dict[str, Terminal] = {}
        self._ended: dict[str, Terminal] = {}
        """Terminals released in this turn: the call that used one may end later."""
        self._made = 0
        self._before: set[str] = set()
        """Terminals that were open when the turn began."""
        self._stopped = False

    def begin(self) -> None:
        """A turn begins."""
        self._ended.clear()
        self._before = set(self._open)
        self._stopped = False

    async def stop(self) -> None:
        """The turn is stopped, so end what it runs. Not every agent does, least of all when it has just begun."""
        self._stopped = True
        fresh = [terminal for name, terminal in self._open.items() if name not in self._before]
        await asyncio.gather(*(terminal.child.stop(STOP_GRACE) for terminal in fresh))

    def find(self, name: str) -> Terminal | None:
        return self._open.get(name) or self._ended.get(name)

    async def answer(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        if method == "terminal/create":
            return await self._create(params)
        terminal = self._open.get(str(params.get("terminalId")))
        if terminal is None:
            raise Fault(NOT_FOUND, f"there is no terminal {params.get('terminalId')!r}")
        match method:
            case "terminal/output":
                return _output(terminal)
            case "terminal/wait_for_exit":
                return await terminal.wait()
            case "terminal/kill":
                await terminal.child.stop()
                return {}
            case "terminal/release":
                await self._release(str(params["terminalId"]))
                return {}
        raise Fault(METHOD_NOT_FOUND, f"unknown method: {method}")

    async def _create(self, params: dict[str, Any]) -> dict[str, Any]:
        command, args = params.get("command"), params.get("args") or []
        if not isinstance(command, str) or not command or not _all_texts(args):
            raise Fault(INVALID_PARAMS, "a terminal needs a command, and arguments that are texts")
        # With arguments it is a program; without, agents send a whole line for a shell.
        argv = [command, *args] if args else ["/bin/sh", "-c", command]
        line = shlex.join(argv) if args else command
        spec = self._host.spec
        cwd = os.path.realpath(os.path.join(spec.cwd, str(params.get("cwd") or "")))
        if not any(is_under(cwd, os.path.realpath(base)) for base in (spec.cwd, *spec.add_dirs)):
            raise Fault(INVALID_PARAMS, f"{cwd} is outside of the workspace")
        self._made += 1
        name = f"terminal-{self._made}"
        await self._host.use(Access(tool="bash", kind="execute", command=line, args={"command": line}), name)
        limit = params.get("outputByteLimit")
        try:
            child = await start(
                self._host.confined(),
                argv,
                cwd=cwd,
                env={**reduced(os.environ), **spec.env, **_variables(params.get("env"))},
                stderr="stdout",
            )
        except TreadleError as error:
            raise Fault(INVALID_PARAMS, str(error)) from error
        self._open[name] = Terminal(child, limit if isinstance(limit, int) and 0 < limit < OUTPUT else OUTPUT)
        if self._stopped:  # it was stopped while the command was being started
            await self.stop()
        return {"terminalId": name}

    async def _release(self, name: str) -> None:
        terminal = self._ended[name] = self._open.pop(name)
        await terminal.end()

    async def close(self) -> None:
        while self._open:
            await self._release(next(iter(self._open)))


def _output(terminal: Terminal) -> dict[str, Any]:
    text = terminal.output.text
    status = terminal.status()
    answer: dict[str, Any] = {"output": text, "truncated": terminal.output.dropped > 0}
    return answer if status is None else {**answer, "exitStatus": status}


def _all_texts(args: Any) -> bool:
    return isinstance(args, list) and all(isinstance(arg, str) for arg in args)


def _variables(entries: Any) -> dict[str, str]:
    return {
        one["name"]: one["value"]
        for one in (entries if isinstance(entries, list) else [])
        if isinstance(one, dict) and isinstance(one.get("name"), str) and isinstance(one.get("value"), str)
    }
