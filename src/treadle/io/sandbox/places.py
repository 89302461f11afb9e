"""The places that a confinement concerns: git's own files, what is private to this user or to Treadle."""

import os
import sys
from collections.abc import Mapping, Sequence

from treadle.io.paths import config_file, homes, state_dir
from treadle.policy import credentials as known
from treadle.policy import protected

PRIVATE = ("/tmp", "/var/tmp", "/run")
"""Each sandbox has its own of these, so the machine's are not visible in it."""


def is_under(path: str, *bases: str) -> bool:
    return any(path == base or path.startswith(base.rstrip("/") + "/") for base in bases)


def writable(given: Sequence[str]) -> list[str]:
    """The real paths to write to. One inside another, such as `.git`, may have become a link that leads elsewhere since
    the confinement was made: it is left out, and so is what lies behind it."""
    found: dict[str, str] = {}
    for place in sorted(filter(os.path.exists, given), key=len):  # so that the one outside is judged first
        around = [other for other in given if other != place and is_under(place, other)]
        real = os.path.realpath(place)
        if not around or is_under(real, *(found[other] for other in around if other in found)):
            found[place] = real
    return [*dict.fromkeys(found[place] for place in given if place in found)]


def protected_in(workspace: str) -> tuple[str, ...]:
    """The names in a workspace that decide what runs later, whether they exist or not."""
    found = [os.path.join(workspace, name) for name in protected.WORKSPACE]
    home = os.path.realpath(os.path.expanduser("~"))
    if is_under(home, workspace):
        found += [os.path.join(home, name) for name in protected.HOME]
    # If we are installed in the workspace itself: changed code there would run outside the sandbox, as we do.
    prefix = os.path.realpath(sys.prefix)
    if is_under(prefix, workspace) and prefix != workspace:
        found.append(prefix)
    place = os.path.join(workspace, ".git")
    if os.path.lexists(place):  # a private one is mounted over it, if it is one that we understand
        found.append(place)
    return tuple(dict.fromkeys(found))


CAP_DAC_OVERRIDE = 1


def needs_override(write: Sequence[str]) -> bool:
    """Whether we are root and one of these places belongs to another user: writing there needs this one capability."""
    if os.geteuid() != 0:
        return False
    for place in write:
        try:
            if os.stat(place).st_uid != 0:
                return True
        except OSError:
            continue  # gone since; that is noticed before the program starts
    return False


def ours() -> list[str]:
    """What belongs to Treadle alone: state, sockets, keys."""
    return [place for place in (state_dir(), config_file()) if os.path.exists(place)]


def shown(argv: Sequence[str], env: Mapping[str, str]) -> list[str]:
    """The places of a program and its files that a sandbox would otherwise hide or replace by its own, such as /tmp.

    The whole installation, because a program needs its other files, and the interpreter in its first line needs its
    own; only the file if it lies in /tmp itself.
    """
    from shutil import which  # most turns start no program

    path = env.get("PATH", os.defpath)
    words = [which(argv[0], path=path) or argv[0], *argv[1:]]
    files = [word for word in words if os.path.isabs(word) and os.path.isfile(word)]
    files += filter(None, [which(_interpreter(word), path=path) for word in files])
    hidden = (*PRIVATE, os.path.realpath(state_dir()))
    found = [_installation(place, hidden) for file in files for place in (file, os.path.realpath(file))]
    return [*dict.fromkeys(place for place in found if is_under(place, *hidden) and place not in hidden)]


def _installation(file: str, hidden: Sequence[str]) -> str:
    """The directory with everything that was installed together with this file."""
    around, inside, _ = file.partition("/node_modules/")
    if inside:
        return around if around not in hidden else f"{around}/node_modules"
    place = os.path.dirname(file)
    if os.path.exists(os.path.join(os.path.dirname(place), "pyvenv.cfg")):
        place = os.path.dirname(place)
    return file if place in hidden else place


def _interpreter(file: str) -> str:
    """The program that the first line of a script names; empty when there is none."""
    try:
        with open(file, "rb") as script:
            words = script.readline(256).decode("utf-8", "replace").removeprefix("#!").split()
            is_script = script.seek(0) == 0 and script.read(2) == b"#!"
    except OSError:
        return ""
    words = [word for word in words if is_script and word != "-S"]
    return words[1] if len(words) > 1 and os.path.basename(words[0]) == "env" else words[0] if words else ""


def running() -> list[str]:
    """What we run from: the interpreter, its environment, our own code. Our programs inside need them too."""
    code = os.path.abspath(__file__ + "/../../../..")
    found = [sys.prefix, sys.base_prefix, code]
    around = os.path.dirname(os.path.dirname(sys.executable))
    if os.path.exists(os.path.join(around, "pyvenv.cfg")):  # started with -S, `sys.prefix` is not the environment
        found.append(around)
    return sorted({os.path.realpath(place) for place in found})


def other_homes(workspace: str) -> list[str]:
    """The home directories of others that we could look into, except one that contains the workspace."""
    mine = {os.path.realpath(place) for place in homes()}
    found = [os.path.join("/home", name) for name in (os.listdir("/home") if os.path.isdir("/home") else ())]
    found.append("/root")
    real = {os.path.realpath(place) for place in found if os.path.isdir(place) and os.access(place, os.R_OK | os.X_OK)}
    return sorted(place for place in real - mine if not is_under(workspace, place) and place != "/")


def credentials(given: Sequence[str], workspaces: Sequence[str]) -> list[str]:
    """What exists of a person's credentials, but for what is `given`. Of a directory that contains a workspace, or
    something given, only the rest."""
    mine = homes()
    found = [os.path.join(home, name) for home in mine for name in known.HOME]
    projects = [place for place in workspaces if not any(is_under(home, place) for home in mine)]
    for name in known.VARIABLES:
        named = [os.path.abspath(os.path.expanduser(one)) for one in os.environ.get(name, "").split(":") if one]
        found += [one for one in named if not is_under(one, *projects)]  # what is there is meant to be used
    given = [*given, *map(os.path.realpath, given)]
    return [one for path in dict.fromkeys(found) for one in _rest(path, given, [*given, *workspaces])]


def _rest(path: str, given: Sequence[str], protected: Sequence[str]) -> list[str]:
    real = os.path.realpath(path)
    if not os.path.exists(real) or is_under(path, *given) or is_under(real, *given):
        return []
    if not any(is_under(one, path, real) for one in protected):
        return [path]
    inside = os.listdir(real) if os.path.isdir(real) else []
    return [one for name in inside for one in _rest(os.path.join(path, name), given, protected)]
