"""How git is started: without hooks, prompts or a monitor, whatever the repository or the person has configured.

Our git runs only where no agent can write: in a store of ours (`store.py`), and on the refs and objects of a person's
repository, which it is told by name (`user_repository.py`). It never looks for a repository, and at no files but copies
of ours.
"""

import os
import re
from collections.abc import Mapping

from treadle.errors import WorkspaceError
from treadle.io.process.programs import path_outside, run_program

# Names that git takes for `.git`: on file systems without capitals, on those of macOS and on those of Windows too.
#
# A checkout is often shared with such a system, and git itself refuses these names in trees wherever it runs.

_UNSEEN = dict.fromkeys((*range(0x200C, 0x2010), *range(0x202A, 0x202F), *range(0x206A, 0x2070), 0xFEFF))
"""Characters that the file system of macOS leaves out when it compares names."""
_GIT = re.compile(r"(\.git|git~1)[. ]*([:\\].*)?", re.ASCII | re.IGNORECASE | re.DOTALL)
"""Windows knows it by a short name too, drops dots and spaces at the end, and reads a colon as part of the content."""


def is_git(name: str) -> bool:
    """Whether some file system takes this name for `.git`."""
    if not name.isascii():
        name = name.translate(_UNSEEN)
    return _GIT.fullmatch(name) is not None


def is_forbidden(name: str) -> bool:
    """Whether no tree of ours has this name."""
    return name in ("", ".", "..") or is_git(name)


TIMEOUT = 60.0
_SETTINGS = {
    "core.hooksPath": "/dev/null",
    "core.fsmonitor": "false",
    "core.quotePath": "false",
    "commit.gpgSign": "false",
    "gc.auto": "0",
    "maintenance.auto": "false",
    "advice.detachedHead": "false",
}
_ENVIRONMENT = {
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_NO_REPLACE_OBJECTS": "1",  # an id stands for the object that has it
    "GIT_ALLOW_PROTOCOL": "none",  # in a partial clone git would fetch what is missing, by what the settings name
    "LC_ALL": "C.UTF-8",
}
FETCHING = {"GIT_ALLOW_PROTOCOL": "file:git:http:https:ssh"}
"""For the commands that are to fetch something."""
SETTINGS_FILES = ("GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_CONFIG_NOSYSTEM")
"""Variables that say where the settings of the person and of the machine are. They are as good as the files that they
stand for; without them, we would not know who commits, nor whose repositories are safe."""
OPTIONS = [part for name, value in _SETTINGS.items() for part in ("-c", f"{name}={value}")]


def environment(more: Mapping[str, str] | None = None) -> dict[str, str]:
    """Our environment, without the variables that would point git at another repository, and without the directories
    on PATH in which an agent may have put a program that is called git."""
    inherited = {
        name: value for name, value in os.environ.items() if name in SETTINGS_FILES or not name.startswith("GIT_")
    }
    return {**inherited, "PATH": path_outside(), **_ENVIRONMENT, **(more or {})}


def create(*arguments: str, cwd: str, timeout: float = TIMEOUT) -> None:
    """Run `git init` or `git clone`, the commands for which there is no repository yet. All others are told theirs."""
    done = run_program(["git", *OPTIONS, *arguments], cwd=cwd, env=environment(FETCHING), timeout=timeout)
    if done.code != 0:
        why = done.complaint or f"exit code {done.code}"
        raise WorkspaceError(f"git {arguments[0]} failed in {cwd}: {why}", retryable=done.passing)
