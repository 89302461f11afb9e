"""Which paths of a checkout the user's own git obeys: who changes them decides what their next git command runs."""

import os
import re
import shlex
from collections.abc import Callable, Iterator

from treadle.errors import LocalError
from treadle.io.files import read_at_most
from treadle.workspace.git import is_git
from treadle.workspace.user_repository import UserRepository

_INCLUDED = re.compile(r"include(if\..+)?\.path", re.I)
_COMMAND = re.compile(
    r"(core\.(fsmonitor|sshcommand|askpass|pager|editor|gitproxy|alternaterefscommand)|sequence\.editor|pager\..+"
    r"|filter\..+\.(clean|smudge|process)|merge\..+\.driver|diff\..+\.(command|textconv)|diff\.external"
    r"|(diff|merge)tool\..+\.(cmd|path)|credential\.(.+\.)?helper|gpg\.(.+\.)?program|hook\..+\.command|alias\..+"
    r"|trailer\..+\.(command|cmd)|interactive\.difffilter|uploadpack\.packobjectshook)",
    re.I,
)
_CONFIGURATION = "is read by your git as its configuration"
_HOOKS = "tells your git's hooks what to run"
_MANAGERS = {
    b"pre-commit": (".pre-commit-config.yaml",),
    b"lefthook": tuple(
        f"{dot}lefthook{local}.{end}" for dot in ("", ".") for local in ("", "-local") for end in ("yml", "yaml")
    ),
    b"overcommit": (".overcommit.yml",),
}
"""Programs that are installed as hooks, and the files in which they are told what to run."""
HOOK_CAP = 64 << 10
LINKS = 40
"""How many links are followed, as in the kernel."""


def obeyed(user: UserRepository) -> Callable[[str], str]:
    """A function that tells why a path, relative to the top of this checkout, must not be written without the person:
    the end of a sentence that begins with the path. It is empty for all other paths.

    These are the directory of hooks that is configured, files that say what an installed manager of hooks runs, files
    that the configuration includes, programs in the checkout that it names, and the links and directories that lead to
    any of them. What else a hook runs is not known. Capitals make no difference, because they
    make none to some file systems. Raises WorkspaceError if the configuration cannot be read.
    """
    top = os.path.realpath(user.top)
    exact: dict[str, str] = {}
    below: dict[str, str] = {}
    for place, why, whole in _named(user, top):
        for step in _steps(place):
            inside = _inside(top, step)
            if inside is not None:
                exact.setdefault(inside, why)
                if whole:
                    below.setdefault(inside, why)
                exact.update({above: why for above in _above(inside) if above not in exact})

    def reason(path: str) -> str:
        names = os.path.normpath(path).casefold()
        if any(map(is_git, names.split("/"))):
            return "belongs to git itself"
        return exact.get(names, "") or next((below[above] for above in ("", *_above(names)) if above in below), "")

    return reason


def obeyed_in(directory: str) -> Callable[[str], str]:
    """The same for paths relative to a directory in a checkout; no path counts where there is no repository."""
    user = UserRepository.around(directory)
    if user is None:
        return lambda path: ""
    inside, reason = os.path.relpath(os.path.realpath(directory), os.path.realpath(user.top)), obeyed(user)
    return lambda path: reason(os.path.join(inside, path))


def settings_files(user: UserRepository) -> list[str]:
    """The files that the user's git or the managers of its hooks read as configuration, also those that do not exist,
    with their links."""
    known = (_CONFIGURATION, _HOOKS)
    named = [place for place, why, _ in _named(user, os.path.realpath(user.top)) if why.startswith(known)]
    return [*dict.fromkeys(step for place in named for step in _steps(place))]


def _named(user: UserRepository, top: str) -> Iterator[tuple[str, str, bool]]:
    """The places that the configuration names, the reason to give, and whether it holds for all that is in them."""
    listed = user.run("config", "--list", "--includes", "--show-origin", "-z").stdout
    fields = listed.decode("utf-8", "surrogateescape").split("\0")[:-1]
    hooks = os.path.join(user.common, "hooks")
    for origin, entry in zip(fields[::2], fields[1::2], strict=False):
        key, _, value = entry.partition("\n")
        if not origin.startswith("file:") or not value:
            continue  # our own settings
        file = os.path.join(user.common, origin.removeprefix("file:"))
        yield file, _CONFIGURATION, False
        if key.lower() == "core.hookspath":
            hooks = _place(top, value)
            yield hooks, "is in the directory of your git's hooks (core.hooksPath)", True
        elif _INCLUDED.fullmatch(key):
            yield _place(os.path.dirname(file), value), f"{_CONFIGURATION} ({key})", False
        elif _COMMAND.fullmatch(key):
            for word in _words(value):
                yield _place(top, word), f"is run by your git ({key})", False
    if os.path.basename(os.path.normpath(hooks)) == "_":  # husky: these run the scripts of the same name above them
        yield os.path.dirname(os.path.normpath(hooks)), _HOOKS, True
    for name in _managed(hooks):
        yield os.path.join(top, name), _HOOKS, False


def _managed(hooks: str) -> Iterator[str]:
    """What the managers read whose scripts are in this directory."""
    for name in os.listdir(hooks) if os.path.isdir(hooks) else ():
        if name.endswith(".sample"):
            continue
        try:
            text = read_at_most(os.path.join(hooks, name), HOOK_CAP)
        except (LocalError, OSError):
            continue  # a directory, for example
        for manager, files in _MANAGERS.items():
            if manager in text:
                yield from files
        for other in re.findall(rb"--config[= ]([\w./-]+)", text):
            yield os.fsdecode(other)


def _place(base: str, value: str) -> str:
    return os.path.join(base, os.path.expanduser(value))


def _words(command: str) -> list[str]:
    """The words of a command that are paths."""
    try:
        words = shlex.split(command.removeprefix("!"))
    except ValueError:
        words = command.split()
    return [word for word in words if "/" in word and "\0" not in word]


def _steps(place: str) -> Iterator[str]:
    """The path, and each that it stands for when the links in it are followed one by one."""
    place = os.path.normpath(place)
    for _ in range(LINKS):
        yield place
        link = next((above for above in (*sorted(_parents(place), key=len), place) if os.path.islink(above)), None)
        if link is None:
            return
        target = os.path.join(os.path.dirname(link), os.readlink(link))
        place = os.path.normpath(target + place[len(link) :])


def _parents(place: str) -> Iterator[str]:
    while (above := os.path.dirname(place)) != place:
        yield above
        place = above


def _inside(top: str, place: str) -> str | None:
    """The path in the checkout, in small letters; None when it is outside."""
    inside = os.path.relpath(place, top)
    if inside == os.pardir or inside.startswith("../"):
        return None
    return "" if inside == "." else inside.casefold()


def _above(path: str) -> list[str]:
    parts = path.split("/")
    return ["/".join(parts[:number]) for number in range(1, len(parts))]
