"""Shared by tests of process trees: a mark by which to count what is left, hostile trees, and owners to kill."""

import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

import treadle
from tests.io.process.hostile import SELF, await_none_left
from treadle.io.process import tree

SOURCES = str(Path(treadle.__file__).parents[1])
"""Of the treadle that is tested, which need not be the one that is installed."""


@pytest.fixture
def mark(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A mark in the environment of everything that a test starts; nothing that carries it may be left at the end."""
    value = f"mark-{uuid.uuid4()}"
    monkeypatch.setenv("HOSTILE_MARK", value)
    yield value
    found = await_none_left(value)
    for pid in found:
        os.kill(pid, signal.SIGKILL)
    assert found == []


def output(argv: list[str], **more: object) -> tuple[bytes, int]:
    """What a command prints, read through a pipe of our own, and its exit code."""
    read, write = os.pipe()
    try:
        with tree.spawn(argv, stdout=write, **more) as started:  # type: ignore[arg-type]
            os.close(write)
            said = b""
            while chunk := os.read(read, 65536):
                said += chunk
            return said, started.wait(60)
    finally:
        os.close(read)


def hostile(*modes: str, env: Mapping[str, str] | None = None) -> tree.Tree:
    """A hostile tree that is set up."""
    read, write = os.pipe()
    try:
        started = tree.spawn([sys.executable, "-I", "-S", SELF, *modes], stdout=write, env=env)
        os.close(write)
        assert os.read(read, 100) == b"ready\n"
    finally:
        os.close(read)
    return started


OWNER = """
import os, sys, time
from treadle.io.process import tree
read, write = os.pipe()
started = tree.spawn([sys.executable, "-I", "-S", sys.argv[1], *sys.argv[2:]], stdout=write)
os.read(read, 100)
if os.environ.get("OWNER_FORKS") and os.fork() == 0:
    os.read(0, 1)
    os._exit(0)
print(tree.own.pid, flush=True)
time.sleep(100)
"""


def owner(
    *modes: str, forks: bool = False, env: Mapping[str, str] | None = None
) -> tuple[subprocess.Popen[bytes], int]:
    """A process that owns a hostile tree and leads its own group; and its keeper's pid.

    Its fork, if it has one, lives until the stdin of both is closed.
    """
    env = {**(env or os.environ), "PYTHONPATH": SOURCES, "OWNER_FORKS": "1" if forks else ""}
    argv = [sys.executable, "-c", OWNER, SELF, *modes]
    pipe = subprocess.PIPE
    process = subprocess.Popen(argv, stdin=pipe if forks else None, stdout=pipe, start_new_session=True, env=env)
    assert process.stdout is not None
    return process, int(process.stdout.readline())
