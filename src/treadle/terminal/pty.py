"""The master side of a pty: reading its output, and queueing input for it."""

import errno
import fcntl
import os
import termios
from collections.abc import Mapping

from treadle.terminal.output import FRAME

SHORT = 1024
"""A shorter read has very likely taken everything: reading again would cost more than it finds."""


class Pty:
    """The master side, non-blocking. Nothing here waits."""

    def __init__(self, cols: int, rows: int) -> None:
        self.master, self.slave = os.openpty()
        self._path = os.ttyname(self.slave)
        os.set_blocking(self.master, False)
        self.hung_up = False
        self._input: list[memoryview] = []
        self.input_queued = 0
        self.resize(cols, rows)

    def resize(self, cols: int, rows: int) -> None:
        """The kernel notifies the foreground group if the size has changed."""
        try:
            termios.tcsetwinsize(self.master, (rows, cols))
        except termios.error:
            pass  # hung up

    @property
    def canonical(self) -> bool:
        """Whether the program reads whole lines, like a shell's `read`, rather than single keys."""
        return self._is_set(termios.ICANON)

    @property
    def echo(self) -> bool:
        """Whether the kernel shows what is typed."""
        return self._is_set(termios.ECHO)

    def _is_set(self, flag: int) -> bool:
        try:
            return bool(termios.tcgetattr(self.master)[3] & flag)
        except termios.error:
            return False

    @property
    def foreground(self) -> int:
        """The process group that has the terminal now; 0 when there is none."""
        try:
            return max(0, os.tcgetpgrp(self.master))
        except OSError:
            return 0

    def read(self, most: int = FRAME) -> bytes:
        """The available output, up to `most`; the kernel gives about 4 KiB at a time. Sets `hung_up` at the end."""
        parts: list[bytes] = []
        total = 0
        while total < most:
            try:
                data = os.read(self.master, most)
            except BlockingIOError:
                break
            except OSError as error:
                # Linux reports EIO when the last process has closed its side. Pending data comes before that.
                if error.errno != errno.EIO:
                    raise
                self.hung_up = True
                break
            if not data:
                self.hung_up = True
                break
            parts.append(data)
            total += len(data)
            if len(data) < SHORT:
                break
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def type(self, data: bytes) -> bool:
        """Type this after what is queued. True when some of it has to wait until the program reads."""
        if not self._input:  # usually a single key: it is passed on before anything else is done
            try:
                data = data[os.write(self.master, data) :]
            except BlockingIOError:
                pass
            except OSError:
                return False
        if data:
            self._input.append(memoryview(data))
            self.input_queued += len(data)
        return bool(data)

    @property
    def unread(self) -> bool:
        """Whether there are keys that the program has not read. Only the program's own side of the pty tells."""
        try:
            fd = os.open(self._path, os.O_RDWR | os.O_NOCTTY | os.O_NONBLOCK)
        except OSError:
            return bool(self._input)
        try:
            return bool(self._input) or fcntl.ioctl(fd, termios.FIONREAD, bytes(4)) != bytes(4)
        finally:
            os.close(fd)

    def flush(self) -> None:
        """Write as much queued input as the terminal takes, in order; the rest stays queued."""
        while self._input:
            first = self._input[0]
            try:
                written = os.write(self.master, first)
            except BlockingIOError:
                return
            except OSError:
                self.drop_input()
                return
            self.input_queued -= written
            if written < len(first):
                self._input[0] = first[written:]
                return
            del self._input[0]

    def drop_input(self) -> None:
        """No one is left to read it."""
        self._input.clear()
        self.input_queued = 0


def run_in_background(command: str, env: Mapping[str, str]) -> int:
    """Start a shell command that no one reads or waits for. The pid is that of a shell that exits at once."""
    null = ((os.POSIX_SPAWN_OPEN, fd, os.devnull, os.O_RDWR, 0) for fd in (0, 1, 2))
    line = ["sh", "-c", '(eval "$1") &', "sh", command]
    return os.posix_spawn("/bin/sh", line, dict(env), file_actions=list(null), setsid=True)
