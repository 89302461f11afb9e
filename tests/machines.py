"""Machines that lack something, made from this one: a kernel that refuses a call, a PATH without a program."""

import os
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from treadle.io import descriptors
from treadle.io.sandbox import methods

OPENAT2, LANDLOCK_CREATE_RULESET = 437, 444
"""Numbers of system calls, the same on every architecture."""


def refusing(call: int) -> str:
    """Python code that makes this system call fail with EPERM from then on, as an old container's filter does."""
    load, jump, give = 0x20, 0x15, 0x06
    steps = [(load, 0, 0, 0), (jump, 0, 1, call), (give, 0, 0, 0x00050001), (give, 0, 0, 0x7FFF0000)]
    packed = b"".join(struct.pack("HBBI", *step) for step in steps)
    return f"""
import ctypes
class Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("steps", ctypes.c_char_p)]
libc = ctypes.CDLL(None)
libc.prctl(38, 1, 0, 0, 0)
assert libc.prctl(22, 2, ctypes.byref(Program({len(steps)}, {packed!r})), 0, 0) == 0
"""


@pytest.fixture
def no_bubblewrap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A PATH on which there is nothing, and a process that has not looked yet how it can confine programs."""
    monkeypatch.setenv("PATH", str(tmp_path / "no-programs"))
    methods.available.cache_clear()
    yield
    methods.available.cache_clear()


@pytest.fixture
def old_kernel(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A kernel without openat2, for what opens files in this process."""
    monkeypatch.setattr(descriptors, "_OPENAT2", 1 << 20)
    descriptors._openat2.cache_clear()
    yield
    descriptors._openat2.cache_clear()


def path_without(program: str, directory: Path) -> str:
    """A PATH with everything that is on ours, but for this program."""
    directory.mkdir()
    for place in os.environ["PATH"].split(":"):
        for name in os.listdir(place) if os.path.isdir(place) else ():
            if name != program and not os.path.lexists(directory / name):
                os.symlink(os.path.join(place, name), directory / name)
    return str(directory)
