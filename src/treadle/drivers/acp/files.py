"""Files that an agent reads and writes through us: under our rules, and reported as file events."""

import asyncio
import os
from contextlib import nullcontext
from typing import Any, Protocol

from treadle.drivers.acp.failures import DENIED, NOT_FOUND
from treadle.errors import Denied, StorageError
from treadle.events import Event, FileChanged
from treadle.io import files
from treadle.session import Access, Confinement, SessionSpec
from treadle.wire.acp.tools import unified
from treadle.wire.common.jsonrpc import INTERNAL_ERROR, INVALID_PARAMS, Fault

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
