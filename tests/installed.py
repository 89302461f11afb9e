"""The installed program, run as a person or a script runs it: nothing on stdin unless told, its output kept as text."""

import subprocess
import sys
from pathlib import Path
from typing import Any

TREADLE = str(Path(sys.executable).with_name("treadle"))


def treadle(*arguments: str, program: str = TREADLE, **more: Any) -> subprocess.CompletedProcess[str]:
    """Run it to its end."""
    if not {"input", "stdin"} & more.keys():
        more["stdin"] = subprocess.DEVNULL
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "timeout": 100}
    return subprocess.run([program, *arguments], **{**streams, **more})


def started(*arguments: str, program: str = TREADLE, **more: Any) -> subprocess.Popen[str]:
    """Start it."""
    streams = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen([program, *arguments], **{**streams, **more})
