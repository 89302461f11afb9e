"""What this process has open, by what it leads to: something that an earlier test left may be closed at any moment."""

import os
from collections.abc import Iterator

import pytest


def opened() -> set[tuple[int, str]]:
    found = set()
    for name in os.listdir("/proc/self/fd"):
        try:
            found.add((int(name), os.readlink(f"/proc/self/fd/{name}")))
        except FileNotFoundError:
            continue  # the one with which the names were read
    return found


@pytest.fixture(autouse=True)
def nothing_left_open() -> Iterator[None]:
    """No file or directory stays open after a test: in a process that lives for months, one for each call is too many.

    Pipes and sockets are not looked at: the other end closes them, maybe a moment later.
    """
    before = opened()
    yield
    assert not [path for _, path in opened() - before if path.startswith("/") and not path.startswith("/dev/")]
