"""Shared by tests of process trees: a mark by which to count what is left, hostile trees, and owners to kill."""

import marshal
import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

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


def in_copy(act: Callable[[], object]) -> Any:
    """What a function gives in a copy of this process, or the copy's exit code if it ends before."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.write(write, marshal.dumps(act()))
        finally:
            os._exit(99)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        said = pipe.read()
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    return marshal.loads(said) if said else code


KEEPER = """
import os, pty, sys, time
from treadle.io.process.tree import fork_reaper
waiting = fork_reaper()
master, slave = os.openpty()
file = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT)
tree = waiting.start(
    ["sh", "-c", sys.argv[2]], env=dict(os.environ), cwd="/", terminal=slave, inherited=[file],
    afterwards=["/bin/sh", "-c", 'echo "killed: $1" >&3', "sh"],
)
os.close(slave)
def run(what):
    exec(what)
run(sys.argv[3])
"""


def keep(tmp_path: Path, script: str, act: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "PYTHONPATH": SOURCES}
    command = [sys.executable, "-c", KEEPER, str(tmp_path / "after"), script, act]
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=60)
