"""Finds out, by trying, how this machine can confine a program."""

from __future__ import annotations

import os
import sys
from functools import cache
from typing import TYPE_CHECKING, Literal, TypeAlias

import msgspec

from treadle.errors import ConfigError, TreadleError
from treadle.session import Confinement, Mode

if TYPE_CHECKING:
    from treadle.io.sandbox import bubblewrap

Method: TypeAlias = Literal["bubblewrap", "landlock"]
PROC = "/proc"
PROBE_SECONDS = 20.0
UNDIVIDED = "let programs use Unix sockets that they make themselves: making any is refused ({})"
CONFINED_MODES = ("auto-edit", "full-auto")


class Availability(msgspec.Struct, frozen=True, kw_only=True):
    method: Method | None
    problems: tuple[str, ...] = ()
    """Why each better method cannot be used."""
    cannot: tuple[str, ...] = ()
    """What this method does not enforce, but a better one would."""
    divides: bool = False
    """Whether Unix sockets that programs make inside work, while those outside cannot be reached. If not, no Unix
    socket can be made inside."""

    @property
    def network(self) -> bool:
        """Whether it can keep programs off the network."""
        return self.method == "bubblewrap"


@cache
def available() -> Availability:
    """Tried once per process; takes a few milliseconds."""
    from treadle.io.sandbox import landlock, seccomp

    undivided = _problem_of(divided=True)
    first = _problem_of(divided=False) if undivided is not None else None
    if first is None:
        cannot = [] if seccomp.program() else ["refuse rarely used system calls (no filter for this processor)"]
        if undivided is not None:
            cannot += [UNDIVIDED.format(undivided), "keep programs from FIFOs outside"]
        return Availability(method="bubblewrap", cannot=tuple(cannot), divides=undivided is None)
    second = landlock.problem()
    problems = (f"bubblewrap: {first}",)
    if second is None:
        return Availability(method="landlock", problems=problems, cannot=landlock.CANNOT)
    return Availability(method=None, problems=(*problems, f"landlock: {second}"))


def asked_for(confinement: Confinement, mode: Mode | None) -> bool:
    """Whether a program that is started now should be confined, as far as this machine can."""
    use = confinement.use
    return use == "on" or (use == "auto" and mode in CONFINED_MODES) or (use == "possible" and mode != "yolo")


def wanted(confinement: Confinement, mode: Mode | None) -> bool:
    """Whether a program that is started now is confined. Raises ConfigError when that is required but not possible."""
    if not asked_for(confinement, mode):
        return False
    found = available()
    if confinement.use in ("auto", "possible"):
        return found.method is not None
    if found.method is None:
        raise ConfigError(
            "--sandbox cannot be enforced on this machine: " + "; ".join(found.problems),
            hint="install bubblewrap (bwrap) or use a kernel with Landlock, or run without --sandbox",
        )
    if confinement.network == "off" and not found.network:
        raise ConfigError(
            "the network cannot be switched off on this machine: " + "; ".join(found.problems),
            hint="install bubblewrap (bwrap), or run with --network on",
        )
    return True


def _problem_of(*, divided: bool, again: bool = True) -> str | None:
    """Why bubblewrap cannot confine a program here, with or without Unix sockets kept apart."""
    if sys.platform != "linux":
        return f"not on {sys.platform}"
    from treadle.io.sandbox import bubblewrap

    program = bubblewrap.find(os.curdir)
    if program is None:
        return "there is no program bwrap"
    walls = Confinement(network="off")
    try:
        mounts = bubblewrap.Mounts(walls, divided=divided)
        argv = bubblewrap.command(program, walls, "/", filtered=False, mounts=mounts)
        code, complaint = _tried([*argv, "/bin/sh", "-c", "exit 7"], mounts)
    except (TreadleError, OSError) as error:
        return str(error)
    if code == 7:
        return None
    if again and mounts.vanished():
        return _problem_of(divided=divided, again=False)
    return _explained(complaint or f"bwrap exits with {code}")


def _tried(argv: list[str], mounts: bubblewrap.Mounts) -> tuple[int, str]:
    import tempfile

    from treadle.io.process import tree

    view = mounts.view.plan() if mounts.view is not None else None
    with tempfile.TemporaryFile() as errors:
        with tree.spawn(argv, env={"PATH": os.defpath}, cwd="/", stderr=errors.fileno(), view=view) as tried:
            code = tried.wait(PROBE_SECONDS)
        errors.seek(0)
        return code, errors.read()[-2000:].decode("utf-8", "replace").strip()


def _explained(complaint: str) -> str:
    """bubblewrap's own message, with the machine's setting that causes it."""
    switches = {
        "user/max_user_namespaces": ("0", "sysctl user.max_user_namespaces is 0"),
        "kernel/unprivileged_userns_clone": ("0", "sysctl kernel.unprivileged_userns_clone is 0"),
        "kernel/apparmor_restrict_unprivileged_userns": ("1", "AppArmor wants a profile for bwrap"),
    }
    for name, (value, why) in switches.items():
        try:
            with open(f"{PROC}/sys/{name}", encoding="ascii") as file:
                if file.read().strip() == value:
                    return f"{complaint} ({why})"
        except OSError:
            continue
    with open(f"{PROC}/self/status", encoding="ascii", errors="replace") as status:
        filtered = any(line.split() == ["Seccomp:", "2"] for line in status)
    return f"{complaint} (a container's system call filter may forbid user namespaces)" if filtered else complaint
