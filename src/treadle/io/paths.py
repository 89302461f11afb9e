"""Where things live on disk. Strings, not pathlib: the small commands import this."""

import os
import stat
import sys
from collections.abc import Iterator
from functools import cache

from treadle.errors import ConfigError, StorageError

SOCKET_PATH_MAX = 103 if sys.platform == "darwin" else 107
"""The length of `sun_path` without its final NUL."""


def here() -> str:
    """The working directory. Raises ConfigError if someone has removed it."""
    try:
        return os.getcwd()
    except OSError as error:
        raise ConfigError(f"the working directory is gone: {error.strerror}", hint="cd to one that exists") from None


def state_dir() -> str:
    """`TREADLE_HOME`, else `treadle` in the user's data directory. Only the path; `private_dir` creates it."""
    if place := os.environ.get("TREADLE_HOME"):
        return os.path.abspath(os.path.expanduser(place))
    return os.path.join(_xdg("XDG_DATA_HOME", ".local/share"), "treadle")


ACCOUNTS = "accounts"
"""The folder in it for the limits of model accounts; made when a service first states one."""


def config_file() -> str:
    """The user's settings file: in `TREADLE_HOME` when that is set, else in the user's config directory."""
    if os.environ.get("TREADLE_HOME"):
        return os.path.join(state_dir(), "config.toml")
    return os.path.join(_xdg("XDG_CONFIG_HOME", ".config"), "treadle", "config.toml")


def at_home(path: str) -> str:
    """The path with `~` for the home directory, as people write it."""
    above = os.path.expanduser("~")
    return f"~{path.removeprefix(above)}" if path == above or path.startswith(f"{above}/") else path


def home() -> str:
    """The user's home directory. An empty or relative HOME would put state and keys into the working directory."""
    given = os.environ.get("HOME")
    if given is not None and not os.path.isabs(given):
        wrong = f"a relative path ({given})" if given else "empty"
        raise ConfigError(f"HOME is {wrong}, so there is no place for state", hint="set HOME, or TREADLE_HOME")
    found = os.path.expanduser("~")
    if not os.path.isabs(found):  # HOME is not set, and the user database has no entry for this user
        raise ConfigError(f"HOME is not set, and user {os.geteuid()} has no other home directory", hint="set HOME")
    return found


def homes() -> list[str]:
    """This user's home directories: that of HOME and that of the user database, in which a container's user often has
    no entry."""
    found = (os.path.expanduser("~"), _listed_home(os.geteuid()))
    return [place for place in dict.fromkeys(found) if os.path.isabs(place)]


@cache
def _listed_home(user: int) -> str:
    import pwd  # most commands ask for HOME alone

    try:
        return pwd.getpwuid(user).pw_dir
    except KeyError:
        return ""


def _xdg(variable: str, default: str) -> str:
    # The XDG specification says that a relative path in these variables is to be ignored.
    value = os.environ.get(variable, "")
    return value if os.path.isabs(value) else os.path.join(home(), default)


def private_dir(path: str) -> str:
    """Create `path` and its missing parents, each for this user alone (0700). Refuses a directory of another user."""
    try:
        _make(path)
        link, target = os.lstat(path), os.stat(path)
        for found in (link, target):
            if found.st_uid != os.geteuid():
                raise StorageError(
                    f"{path} belongs to user {found.st_uid}, not to user {os.geteuid()}, so nothing is stored there",
                    hint="set TREADLE_HOME to a directory of your own",
                )
        if not stat.S_ISDIR(target.st_mode):
            raise StorageError(f"{path} is not a directory", hint="move it away or set TREADLE_HOME")
        if target.st_mode & stat.S_ISVTX:
            raise StorageError(
                f"{path} is shared by all users of this machine, so nothing private is stored directly in it",
                hint="name a directory inside it",
            )
        if stat.S_IMODE(target.st_mode) != 0o700:
            os.chmod(path, 0o700)
    except OSError as error:
        raise StorageError(
            f"cannot create the private directory {path}: {error.strerror}",
            hint="set TREADLE_HOME to a directory you can write to",
        ) from error
    return path


def _make(path: str) -> None:
    # os.makedirs gives its mode to the last directory only.
    if os.path.isdir(path):
        return
    _make(os.path.dirname(os.path.abspath(path)))
    try:
        os.mkdir(path, 0o700)
    except FileExistsError:
        pass  # another process was first; the caller checks its owner and mode


def socket_path(directory: str, name: str) -> str:
    """`directory/name` if that is short enough for a Unix socket, else a short path that is always the same for it.

    The short path is in a private directory under `XDG_RUNTIME_DIR` or `/tmp`, which is created here.
    """
    path = os.path.abspath(os.path.join(directory, name))
    if len(os.fsencode(path)) <= SOCKET_PATH_MAX:
        return path
    import hashlib

    short = hashlib.blake2b(os.fsencode(path), digest_size=12).hexdigest()
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    for base in (os.path.join(runtime, "treadle"), f"/tmp/treadle-{os.geteuid()}"):
        found = os.path.join(base, short)
        if os.path.isabs(found) and len(os.fsencode(found)) <= SOCKET_PATH_MAX and _usable(base):
            return found
    raise StorageError(
        f"{path} is too long for a Unix socket and there is no private place for a short one",
        hint=f"set TREADLE_HOME to a path shorter than {SOCKET_PATH_MAX - len(os.fsencode(name))} bytes",
    )


def _usable(directory: str) -> bool:
    try:
        private_dir(directory)
    except StorageError:
        return False
    return True


# This machine's file system, as permission rules ask about it.


class _Disk:
    """A `policy.rules.Disk`."""

    def expand(self, path: str) -> str:
        return os.path.expanduser(path)

    def real(self, path: str) -> str:
        """Where the path leads. A link that may not be read, as in /proc, is taken as the end."""
        try:
            return os.path.realpath(path)
        except OSError as error:
            return str(error.filename or "/")

    def found(self, base: str, pattern: str) -> Iterator[str]:
        import glob

        return glob.iglob(os.path.join(glob.escape(base), pattern))


class RememberingDisk(_Disk):
    """Looks at each directory once, until it is told to forget. Only for judging what has already happened: a judge
    of what is about to happen must look every time."""

    def __init__(self) -> None:
        self._folders: dict[str, str] = {}

    def real(self, path: str) -> str:
        folder, slash, name = path.rpartition("/")
        if not slash or name in ("", ".", ".."):
            return os.path.realpath(path)
        real = self._folders.get(folder)
        if real is None:
            real = self._folders[folder] = os.path.realpath(folder or "/")
        place = f"{real.rstrip('/')}/{name}"
        return os.path.realpath(place) if os.path.islink(place) else place

    def forget(self) -> None:
        self._folders.clear()


DISK = _Disk()
