"""What a short program prints, for the small commands: `subprocess` costs more to import than git takes to run."""

from __future__ import annotations

import os


def answer(arguments: list[str]) -> tuple[int, bytes]:
    """Its exit code and standard output; 127 when there is no such program. It reads nothing; its stderr is ours."""
    read, write = os.pipe()
    nothing = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    try:
        actions = [(os.POSIX_SPAWN_DUP2, nothing, 0), (os.POSIX_SPAWN_DUP2, write, 1)]
        child = os.posix_spawnp(arguments[0], arguments, os.environ, file_actions=actions)
    except OSError:
        os.close(read)
        return 127, b""
    finally:
        os.close(write)
        os.close(nothing)
    with os.fdopen(read, "rb") as pipe:
        said = pipe.read()
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status), said


def ask(arguments: list[str]) -> str | None:
    """Its standard output without the last newline, or None when it failed."""
    code, said = answer(arguments)
    return said.decode(errors="surrogateescape").removesuffix("\n") if code == 0 else None
