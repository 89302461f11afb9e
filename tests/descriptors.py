"""What this process has open, by what it leads to: something that an earlier test left may be closed at any moment."""

import os


def opened() -> set[tuple[int, str]]:
    found = set()
    for name in os.listdir("/proc/self/fd"):
        try:
            found.add((int(name), os.readlink(f"/proc/self/fd/{name}")))
        except FileNotFoundError:
            continue  # the one with which the names were read
    return found
