"""The second choice, where user namespaces are closed: Landlock, in a helper process that becomes the command.

It restricts writes to the given places, of the home directory it lets only programs and packages be read, and it keeps
others' processes safe from signals and their abstract sockets out of reach. It cannot hide anything below a readable
place, and it does not end a process tree. It cannot tell sockets made inside from those outside, so a filter refuses to
make any.
"""

from __future__ import annotations

import errno
import json
import os
import sys

from treadle.io.paths import state_dir
from treadle.io.sandbox import places, seccomp
from treadle.io.sandbox.places import OWN, Home, at_home, on_path
from treadle.light import TYPE_CHECKING, NoReturn
from treadle.policy.environment import PACKAGES

if TYPE_CHECKING:
    from treadle.session import Confinement

_PR_CAPBSET_READ, _PR_CAPBSET_DROP, _PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL = 23, 24, 47, 4
CACHES = {
    "XDG_CACHE_HOME": ".cache",
    "PIP_CACHE_DIR": ".cache/pip",
    "npm_config_cache": ".cache/npm",
    "GOCACHE": ".cache/go-build",
    "UV_CACHE_DIR": ".cache/uv",
    "GRADLE_USER_HOME": ".gradle",
}
DOWNLOADS = {"GOMODCACHE": ".cache/go-mod", "CARGO_HOME": ".cargo"}
"""What is read from the home directory where nothing can be downloaded."""
SETTINGS_FILES = {
    "GIT_CONFIG_GLOBAL": ".gitconfig",
    "npm_config_userconfig": ".npmrc",
    "PIP_CONFIG_FILE": ".config/pip/pip.conf",
    "UV_CONFIG_FILE": ".config/uv/uv.toml",
    "GOENV": ".config/go/env",
}
DEVICES = ("null", "zero", "full", "random", "urandom", "tty", "ptmx", "pts", "shm")
CANNOT = (
    "hide files that rules deny to read",
    "show an empty home directory: what is not shown there is refused, and nothing can be written",
    "show commands a git repository of their own: in a checkout `.git` is read-only, so commits are refused, and "
    "no new file can be made beside it",
    "keep other files inside the workspace from being changed; what a command did to those that programs obey is "
    "undone when it has ended",
    "let programs use Unix sockets that they make themselves: making any is refused",
    "keep programs from FIFOs outside",
    "keep programs from shared memory outside (/dev/shm, System V memory and queues)",
    "keep programs from writing to other terminals of the same user",
    "hide other processes of the same user",
    "keep permissions and times of files outside from being changed",
    "limit the network",
    "end all processes when everything of ours is killed at once",
)


def problem() -> str | None:
    if sys.platform != "linux":
        return f"not on {sys.platform}"
    try:
        import sandlock  # type: ignore[import-untyped]
    except (ImportError, OSError, RuntimeError) as error:  # it looks for a home directory, and there may be none
        from treadle.installation import adding

        return f"sandlock is not usable ({error}); {adding('sandbox')}"
    has, needs = sandlock.landlock_abi_version(), sandlock.min_landlock_abi()
    if has < needs:
        return f"this kernel has version {max(has, 0)} of it, {needs} is needed"
    return None


def command(confinement: Confinement) -> list[str]:
    """Everything up to the program to run. The helper reports when it is confined and waits for our signal."""
    write = places.writable(confinement.write)
    git = [place for place in confinement.read_only if os.path.basename(place) == ".git"]
    granted = [one for place in write for one in _granted(place, git)]
    ours = [*(f"/dev/{name}" for name in DEVICES), *([confinement.temp] if confinement.temp else [])]
    ours += [state_dir()] if confinement.state else []
    real = [os.path.realpath(place) for place in ours if os.path.exists(place)]
    keep = [places.CAP_DAC_OVERRIDE] if places.needs_override(write) else []
    home = Home(None, confinement.readable, write)
    shown = [*home.programs, *on_path(), *at_home(PACKAGES), *confinement.read_only, *places.running(), *write, *real]
    shown += [*filter(None, (confinement.home,)), *_beside("/", home.emptied)]
    readable = [os.path.realpath(place) for place in shown if os.path.exists(place)]
    plan = {"readable": [*dict.fromkeys(readable)], "writable": [*dict.fromkeys((*granted, *real))], "keep": keep}
    return [sys.executable, "-I", "-m", "treadle.io.sandbox.landlock", json.dumps(plan)]


def _beside(place: str, left: list[str]) -> list[str]:
    """All of `place` but for what is `left` out, as directories and files that are granted whole. Where a home
    lies in /tmp, nothing of that: its names come and go."""
    if not any(places.is_under(one, place) for one in left):
        return [place]
    names = sorted(os.listdir(place)) if place not in (*left, *places.PRIVATE) else []
    return [one for name in names for one in _beside(os.path.join(place, name), left)]


def environment(env: dict[str, str], confinement: Confinement) -> dict[str, str]:
    """With caches in the session's own /tmp, except where a person chose a place: the home directory cannot be written.
    Tools find their settings, as far as these hold no secret, in the home directory that was prepared."""
    temp = confinement.temp
    if temp is None:
        return env
    moved = {name: os.path.join(temp, place) for name, place in CACHES.items() if name not in env}
    if confinement.network != "off":
        moved |= {name: os.path.join(temp, place) for name, place in DOWNLOADS.items() if name not in env}
    own = os.path.join(confinement.home or temp, OWN)
    named = {name: os.path.join(own, place) for name, place in SETTINGS_FILES.items()}
    return {**env, **moved, **{name: place for name, place in named.items() if os.path.exists(place)}, "TMPDIR": temp}


def _granted(place: str, protected: list[str]) -> list[str]:
    """What can be written in `place` without writing to what is protected in it. Landlock grants whole directories
    only, so beside something protected each name that exists is granted, and no new one can be made."""
    inside = [one for one in protected if places.is_under(one, place)]
    if not inside or os.path.islink(place):
        return [] if os.path.islink(place) else [place]
    if place in inside:
        return []
    return [one for name in sorted(os.listdir(place)) for one in _granted(os.path.join(place, name), inside)]


def main(readable: list[str], writable: list[str], keep: list[int], argv: list[str]) -> NoReturn:
    import sandlock

    _give_up_capabilities(keep)
    try:
        sandlock.confine(sandlock.Sandbox(fs_readable=readable, fs_writable=writable))
    except sandlock.SandlockError as error:
        sys.exit(f"Landlock refused to confine this process: {error}")
    _prove(writable)
    try:
        seccomp.apply(unix_sockets=False)
    except OSError as error:
        sys.exit(f"the sandbox is incomplete: {error}")
    os.write(4, b"r")
    if not os.read(3, 1):
        sys.exit(125)
    os.close(3)
    os.close(4)
    os.execvp(argv[0], argv)


def _give_up_capabilities(keep: list[int]) -> None:
    """Root has all capabilities, such as reading our memory or making devices. The next program runs without."""
    import ctypes

    prctl = ctypes.CDLL(None, use_errno=True).prctl
    for number in range(64):
        if number not in keep and prctl(_PR_CAPBSET_READ, number, 0, 0, 0) == 1:
            if prctl(_PR_CAPBSET_DROP, number, 0, 0, 0) != 0 and os.geteuid() == 0:
                sys.exit(f"the sandbox is incomplete: capability {number} cannot be given up")
    prctl(_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)


def _prove(writable: list[str]) -> None:
    """Make sure that the process cannot create a file outside: otherwise it does not count as confined."""
    outside = next((place for place in ("/", "/etc", os.path.expanduser("~")) if place not in writable), None)
    if outside is None:
        return
    probe = os.path.join(outside, f".treadle-sandbox-{os.getpid()}")
    try:
        os.close(os.open(probe, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    except OSError as error:
        if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
            return
        raise
    os.unlink(probe)
    sys.exit(f"the sandbox is incomplete: {outside} can still be written")


if __name__ == "__main__":
    main(**json.loads(sys.argv[1]), argv=sys.argv[2:])
