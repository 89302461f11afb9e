"""`treadle clean`: what ended terminals have left."""

import json
import os
from pathlib import Path

from tests.cli.terminal.shells import Shell
from tests.terminal.support import until


def test_clean_only_looks_unless_told_and_spares_the_living_and_the_young(shell: Shell) -> None:
    shell("run", "--detach", "--id", "alive", "--", "sleep", "60")
    for name in ("old", "young"):
        shell("run", "--detach", "--id", name, "--linger", "0", "--", "echo", "x")
        until(lambda name=name: not os.path.exists(shell.place(name).pid))
    for path in shell.directory.glob("old.*"):
        os.utime(path, (1, 1))
    os.utime(shell.place("alive").log, (1, 1))
    assert "old.log" in shell("clean") and (shell.directory / "old.log").exists()
    found = json.loads(shell("clean", "--force", "--json"))
    assert {Path(path).name for path in found["files"]} == {"old.exit", "old.log", "old.out"}
    left = {path.stem for path in shell.directory.iterdir()}
    assert left == {"alive", "young"}
    assert shell.run("clean", "--older-than", "10").returncode == 1
