"""An earlier version as an installation of its own: its sources from its commit, this interpreter's libraries."""

import os
import signal
import subprocess
import sysconfig
import tarfile
import tomllib
import venv
from contextlib import suppress
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

from treadle.io.process import table

ROOT = Path(__file__).parents[2]
COMMIT = "4b5020e2"
"""The last commit of 0.2.0."""
SECONDS = 180


class Earlier:
    """Its commands, in a directory with a home and a project of their own."""

    def __init__(self, place: Path) -> None:
        wanted = ["git", "archive", COMMIT, "src", "pyproject.toml"]
        done = subprocess.run(wanted, cwd=ROOT, capture_output=True, timeout=SECONDS)
        if done.returncode:
            pytest.skip(f"needs the commit {COMMIT}: {done.stderr.decode().strip()}")
        program = place / "program"
        with tarfile.open(fileobj=BytesIO(done.stdout)) as sources:
            sources.extractall(program, filter="data")
        venv.create(program, symlinks=True)
        libraries = sysconfig.get_path("purelib")
        (inside,) = program.glob("lib/python*/site-packages")
        # The files in `libraries` that would add our own sources to the path are not read this way.
        (inside / "earlier.pth").write_text(f"{program / 'src'}\n{libraries}\n")
        self.bin = program / "bin"
        for name in ("nats-server", "rg"):
            if (found := Path(sysconfig.get_path("scripts"), name)).exists():
                (self.bin / name).symlink_to(found)
        scripts = tomllib.loads((program / "pyproject.toml").read_text())["project"]["scripts"]
        for name, where in scripts.items():
            module, _, function = where.partition(":")
            start = f"from {module} import {function}"
            (self.bin / name).write_text(f"#!{self.bin / 'python'}\n{start}\n{function}()\n")
            (self.bin / name).chmod(0o755)
        self.home = place / "home"
        self.home.mkdir(mode=0o700)
        self.env = environment(self.bin, self.home)

    def run(self, *argv: str, **more: Any) -> str:
        return ran(*argv, env=self.env, **more)

    def start(self, *argv: str, **more: Any) -> subprocess.Popen[str]:
        streams = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        return subprocess.Popen(argv, text=True, start_new_session=True, **{"env": self.env, **streams, **more})


def environment(programs: Path, home: Path) -> dict[str, str]:
    """For the commands that are in `programs`."""
    known = {name: value for name, value in os.environ.items() if name in ("LD_LIBRARY_PATH", "TMPDIR")}
    own = {"HOME": str(home), "TREADLE_HOME": str(home / "treadle"), "TREADLE_WARM": "0", "LC_ALL": "C.UTF-8"}
    git = {"GIT_CONFIG_NOSYSTEM": "1", "GIT_AUTHOR_DATE": "2026-01-01T00:00:00Z"}
    return {**known, "PATH": f"{programs}:/usr/bin:/bin", **own, **git}


def ran(*argv: str, code: int | None = 0, **more: Any) -> str:
    """What it printed; it ended with this code, or with any."""
    streams = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    done = subprocess.run(argv, text=True, timeout=SECONDS, **{**streams, **more})
    assert code in (None, done.returncode), f"{' '.join(argv)}: {done.returncode}\n{done.stdout}"
    return str(done.stdout)


def belonging(place: Path) -> list[tuple[int, list[str]]]:
    """The processes that have this directory in their environment or arguments, with their arguments."""
    found = []
    for one in table.processes():
        words, given = table.command_line(one.pid), b""
        with suppress(OSError):
            given = Path(f"/proc/{one.pid}/environ").read_bytes()
        if os.fsencode(place) in given or any(str(place) in word for word in words):
            found.append((one.pid, words))
    return found


def end_all(place: Path) -> None:
    """What is left after a failure; a test that passes has looked that nothing is."""
    for pid, _ in belonging(place):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
