"""What a short program prints, for the small commands: `subprocess` costs more to import than git takes to run."""

from __future__ import annotations

import os


def ask(arguments: list[str]) -> str | None:
    """Its standard output without the last newline, or None when it failed or is not there. Its stderr is dropped."""
    read, write = os.pipe()
    nothing = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    actions = [(os.POSIX_SPAWN_DUP2, here, there) for here, there in ((nothing, 0), (write, 1), (nothing, 2))]
    try:
        child = os.posix_spawnp(arguments[0], arguments, os.environ, file_actions=actions)
    except OSError:
        os.close(read)
        return None
    finally:
        os.close(write)
        os.close(nothing)
    with os.fdopen(read, "rb") as pipe:
        said = pipe.read()
    _, status = os.waitpid(child, 0)
    return said.decode(errors="surrogateescape").removesuffix("\n") if status == 0 else None
