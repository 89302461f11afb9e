"""The installed `treadle-worker` as a client sees it: a process with pipes. Every wait is bounded."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Any

COMMAND = [str(Path(sys.executable).parent / "treadle-worker")]


class WorkerProcess:
    def __init__(self, cwd: Path, env: dict[str, str] | None = None, command: list[str] | None = None) -> None:
        self.process = subprocess.Popen(
            command or COMMAND,
            cwd=cwd,
            env={**os.environ, **(env or {})},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        self.cwd = os.path.realpath(cwd)
        self._buffer = b""
        self.lines: list[Any] = []

    def __enter__(self) -> WorkerProcess:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.process.kill()
        self.process.communicate()

    def write(self, data: bytes, piece: int | None = None) -> None:
        assert self.process.stdin is not None
        try:
            for at in range(0, len(data), piece or len(data) or 1):
                os.write(self.process.stdin.fileno(), data[at : at + (piece or len(data))])
        except BrokenPipeError:
            pass  # it has ended, which the reader will see

    def ask(self, *requests: Any) -> None:
        self.write(b"".join(json.dumps(request).encode() + b"\n" for request in requests))

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.stdin = None

    def stop_reading(self) -> None:
        assert self.process.stdout is not None
        self.process.stdout.close()
        self.process.stdout = None

    def raw_line(self, seconds: float = 60.0) -> bytes | None:
        """The next line; None at the end of output."""
        assert self.process.stdout is not None
        fd, deadline = self.process.stdout.fileno(), time.monotonic() + seconds
        while b"\n" not in self._buffer:
            left = deadline - time.monotonic()
            assert left > 0 and select.select([fd], [], [], left)[0], f"no line came; so far: {self.lines[-5:]}"
            data = os.read(fd, 1 << 20)
            if not data:
                assert not self._buffer, f"cut off: {self._buffer!r}"
                return None
            self._buffer += data
        line, self._buffer = self._buffer.split(b"\n", 1)
        return line

    def line(self, seconds: float = 60.0) -> Any:
        raw = self.raw_line(seconds)
        if raw is None:
            return None
        self.lines.append(json.loads(raw))
        return self.lines[-1]

    def until(self, kind: str) -> Any:
        """Read up to the first response or event of this kind."""
        while (line := self.line()) is not None:
            if kind in (line["type"], line["event"]["event"] if line["type"] == "event" else None):
                return line
        raise AssertionError(f"the worker ended before {kind}; stderr: {self.end()}")

    def rest(self) -> list[Any]:
        while self.line() is not None:
            pass
        return self.lines

    def end(self) -> tuple[int, str]:
        """Exit code and stderr of a worker that is about to end."""
        _, errors = self.process.communicate(timeout=60)
        return self.process.returncode, errors.decode()
