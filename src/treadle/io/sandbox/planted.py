"""Finds what a command made that a mount could not prevent: names that did not exist when it started, or were links.

A path that does not exist cannot be bound read-only, and neither can a link. So we look afterwards: a protected file
that a command made is moved aside, where a person can find it, before anything outside the sandbox can act on it, and
a link that it changed is restored.
"""

import contextlib
import os
import re
from collections.abc import Iterable

HARMLESS_SETTINGS = re.compile(
    r"(core\.(repositoryformatversion|filemode|bare|logallrefupdates|ignorecase|precomposeunicode|symlinks|autocrlf|eol)"
    r"|user\.(name|email)|init\.defaultbranch|extensions\.(objectformat|refstorage|worktreeconfig)"
    r"|remote\..*\.(url|fetch)|branch\..*\.(remote|merge|rebase)|submodule\..*\.(url|active)|pull\.rebase)"
)
"""What `git init`, `git clone` and everyday use write. Anything else in a new .git/config could run a program."""


class ProtectedNames:
    """The state of these names before a command."""

    def __init__(self, paths: Iterable[str]) -> None:
        self.absent: list[str] = []
        self.links: dict[str, str] = {}
        for path in paths:
            if not os.path.lexists(path):
                self.absent.append(path)
            elif os.path.islink(path):
                self.links[path] = os.readlink(path)

    def changed(self) -> list[str]:
        """The names that exist now, except what git makes in a new repository, and the links that were changed."""
        made = [path for path in self.absent if os.path.lexists(path) and not _is_of_a_new_repository(path)]
        return made + [path for path, target in self.links.items() if _link(path) != target]

    def restore(self) -> None:
        """Recreate the links, once what took their place has been moved aside."""
        for path, target in self.links.items():
            if not os.path.lexists(path):
                with contextlib.suppress(OSError):
                    os.symlink(target, path)


def _link(path: str) -> str | None:
    return os.readlink(path) if os.path.islink(path) else None


def move_aside(paths: Iterable[str], directory: str) -> list[tuple[str, str]]:
    """Move these out of the workspace. Returns the new place of each."""
    from shutil import move

    moved = []
    for path in paths:
        for number in range(1000):
            target = os.path.join(directory, f"{os.path.basename(path)}.{number}")
            if not os.path.lexists(target):
                break
        try:
            os.makedirs(directory, mode=0o700, exist_ok=True)
            move(path, target)
        except OSError:
            continue  # gone again, or we may not move it: it is reported anyway
        moved.append((path, target))
    return moved


def _is_of_a_new_repository(path: str) -> bool:
    if os.path.islink(path):
        return False
    name = os.path.basename(path)
    if name == "hooks" and os.path.isdir(path):
        return all(entry.endswith(".sample") for entry in os.listdir(path))
    if name == "config" and os.path.isfile(path):
        return _is_harmless(path)
    return False


def _is_harmless(path: str) -> bool:
    """Read without git, which would act on it. Anything unusual does not count as harmless."""
    try:
        with open(path, encoding="utf-8") as file:
            lines = file.read(64 << 10).splitlines()
    except (OSError, UnicodeDecodeError):
        return False
    section = ""
    for line in map(str.strip, lines):
        if not line or line[0] in "#;":
            continue
        head = re.fullmatch(r'\[([\w.-]+)(?:\s+"([^"\\\\]*)")?\]', line)
        if head:
            section = f"{head[1].lower()}.{head[2]}." if head[2] is not None else f"{head[1].lower()}."
            continue
        key = re.match(r"([A-Za-z][\w-]*)\s*(=|$)", line)
        if key is None or line.endswith("\\") or not HARMLESS_SETTINGS.fullmatch(section + key[1].lower()):
            return False
    return True
