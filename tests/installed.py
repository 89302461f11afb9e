"""The installed program, run as a person or a script runs it: nothing on stdin unless told, its output kept as text."""

import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

from tests import forked

TREADLE = str(Path(sys.executable).with_name("treadle"))
QUICK = {"env", "cwd", "input", "timeout"}
"""What a copy of a loaded process can be given."""


def treadle(*arguments: str, program: str = TREADLE, **more: Any) -> subprocess.CompletedProcess[str]:
    """Run it to its end."""
    env = dict(more.get("env") or os.environ)
    if program == TREADLE and "TESTS_FORKED" in os.environ and not more.keys() - QUICK and forked.fits(env):
        with suppress(FileNotFoundError):  # this directory may be gone
            cwd, stdin = str(more.get("cwd") or os.getcwd()), more.get("input")
            return forked.run([str(argument) for argument in arguments], env, cwd, stdin, more.get("timeout", 100))
    if not {"input", "stdin"} & more.keys():
        more["stdin"] = subprocess.DEVNULL
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "timeout": 100}
    return subprocess.run([program, *arguments], **{**streams, **more})


def started(*arguments: str, program: str = TREADLE, **more: Any) -> subprocess.Popen[str]:
    """Start it."""
    streams = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen([program, *arguments], **{**streams, **more})
