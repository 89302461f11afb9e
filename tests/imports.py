"""What a command loads, told by the interpreter itself: a command of ours ends before anyone could ask it."""

import os
import re
import subprocess
import sys
from pathlib import Path

MAIN = "from treadle.cli import main; main()"
LOADED = re.compile(r"^import time:.*\| +(\S+)$", re.MULTILINE)


def loaded_by(*arguments: str, cwd: Path | None = None, given: str = "") -> tuple[str, set[str]]:
    """What `treadle ARGUMENTS` printed, `given` on its stdin, and the names of all modules that it loaded."""
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-c", MAIN, *arguments],
        input=given, capture_output=True, text=True, timeout=60, cwd=cwd, env=os.environ,
    )  # fmt: skip
    assert done.returncode == 0, LOADED.sub("", done.stderr)
    return done.stdout, set(LOADED.findall(done.stderr))
