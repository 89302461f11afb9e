"""A workspace with secrets and a repository, and one way to run a command in it, confined."""

import asyncio
import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from treadle.io.sandbox import bubblewrap, methods, places
from treadle.io.sandbox.places import protected_in
from treadle.io.sandbox.start import start
from treadle.session import Confinement


def _in_memory(place: str) -> bool:
    seen = subprocess.run(["stat", "-f", "-c", "%T", place], capture_output=True, text=True, check=True)
    return seen.stdout.strip() in ("tmpfs", "ramfs")


def _wraps() -> bool:
    words = ["bwrap", "--unshare-all", "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "true"]
    return shutil.which("bwrap") is not None and subprocess.run(words, capture_output=True).returncode == 0


HAS_BUBBLEWRAP = _wraps()
"""Tried by hand: a sandbox of ours that does not work must fail its tests, and not skip them."""
needs_bubblewrap = pytest.mark.skipif(not HAS_BUBBLEWRAP, reason="needs bubblewrap")
CONFINES = HAS_BUBBLEWRAP or methods.available().method is not None
needs_sandbox = pytest.mark.skipif(not CONFINES, reason="nothing to confine programs with")
writing_counts = pytest.mark.skipif(
    not CONFINES or _in_memory(tempfile.gettempdir()),
    reason="needs a sandbox, and temporary files on a disk",
)
WRITES_TOO_MUCH = "head -c 20M /dev/zero > f; sync f; sleep 60"
ENV = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "LC_ALL": "C.UTF-8"}


class Done(NamedTuple):
    code: int
    text: str


def room(workspace: Path, **more: object) -> Confinement:
    place = str(workspace)
    return Confinement(**{"write": (place,), "read_only": protected_in(place), **more})  # type: ignore[arg-type]


def repository(workspace: Path) -> Path:
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b", "-C", str(workspace)]
    subprocess.run(["git", "init", "-q", "-b", "main", str(workspace)], check=True)
    (workspace / "file.txt").write_text("one\n")
    subprocess.run([*git, "add", "."], check=True)
    subprocess.run([*git, "commit", "-qm", "one"], check=True)
    return workspace


async def sh(confinement: Confinement | None, command: str, cwd: Path, **more: object) -> Done:
    options = {"env": ENV, "stderr": "stdout", **more}
    child = await start(confinement, ["bash", "-c", command], cwd=str(cwd), **options)  # type: ignore[arg-type]
    said = b""
    async with child, asyncio.timeout(60):
        while data := await child.stdio.read():
            said += data
        code = await child.wait()
    return Done(code, said.decode(errors="replace"))


def shown_place() -> Path:
    """A directory that a sandbox shows: not below /tmp and similar places, of which a sandbox has its own."""
    candidates = [Path(__file__).parent, Path("/opt"), Path("/srv"), Path("/var/lib"), Path.home()]
    for place in candidates:
        if os.access(place, os.W_OK) and not places.is_under(str(place.resolve()), *places.PRIVATE):
            return place
    return candidates[0]


@contextmanager
def vanishing_socket(bin_directory: Path) -> Iterator[str]:
    """A visible socket with a listener, which disappears as soon as the `bwrap` of this PATH starts."""
    with tempfile.TemporaryDirectory(dir=shown_place()) as home, socket.socket(socket.AF_UNIX) as listener:
        listener.bind(f"{home}/s")
        listener.listen()
        wrapper = bin_directory / "bwrap"
        wrapper.write_text(f'#!/bin/sh\nrm -f {home}/s\nexec {bubblewrap.find()} "$@"\n')
        wrapper.chmod(0o755)
        yield f"{bin_directory}:{os.environ['PATH']}"
        assert not os.path.exists(f"{home}/s")
