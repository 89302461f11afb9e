"""A clock of a process that is wrong, by libfaketime. What it is ahead by, `FAKETIME` says."""

import os
import shutil
import subprocess
from pathlib import Path

LIBRARY = "/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1"
SLEEP = """
#define _GNU_SOURCE
#include <errno.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
int clock_nanosleep(clockid_t clock, int flags, const struct timespec *until, struct timespec *left) {
    return syscall(SYS_clock_nanosleep, clock, flags, until, left) ? errno : 0;
}
"""
"""In place of libfaketime's, with which each sleep of Python 3.11 fails: it moves the end of a sleep on the monotonic
clock, too, and then asks the kernel for a time before zero (wolfcw/libfaketime#426)."""


def preloaded(place: Path) -> dict[str, str] | None:
    """The environment of such a process, whose monotonic clock is right; None where the library or cc is missing."""
    if not os.path.exists(LIBRARY) or shutil.which("cc") is None:
        return None
    words = ["cc", "-shared", "-fPIC", "-o", str(place / "sleep.so"), "-xc", "-"]
    subprocess.run(words, input=SLEEP, text=True, check=True)
    return {"LD_PRELOAD": f"{place / 'sleep.so'}:{LIBRARY}", "FAKETIME_DONT_FAKE_MONOTONIC": "1"}
