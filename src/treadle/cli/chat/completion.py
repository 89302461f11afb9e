"""What Tab offers: slash commands and their arguments at the start of the line, files after an @."""

import os
import re
from collections.abc import Callable, Iterable, Sequence

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document

from treadle.session import CommandInfo

FILES = 20_000
SHOWN = 50
AT = re.compile(r"(?:^|(?<=\s))@([^\s@]*)$")


class ChatCompleter(Completer):
    def __init__(self, cwd: str, commands: Callable[[], Sequence[CommandInfo]] = tuple) -> None:
        self.commands = commands
        self._cwd = cwd
        self._files: list[str] | None = None

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        before = document.text_before_cursor
        if before.startswith("/") and " " not in before and "\n" not in before:
            yield from self._slash(before[1:])
        elif found := AT.search(before):
            yield from self._paths(found[1])

    def _slash(self, begun: str) -> Iterable[Completion]:
        for command in sorted(self.commands(), key=lambda one: one.name):
            if command.name.startswith(begun):
                meta = " ".join(filter(None, [command.arguments, command.description]))
                yield Completion(command.name, -len(begun), display=f"/{command.name}", display_meta=meta)

    def _paths(self, begun: str) -> Iterable[Completion]:
        if self._files is None or not begun:  # files come and go, so each new @ lists them again
            self._files = listed(self._cwd)
        wanted = begun.lower()
        hits = [path for path in self._files if wanted in path.lower()]
        hits.sort(key=lambda path: (not path.lower().startswith(wanted), len(path), path))
        for path in hits[:SHOWN]:
            yield Completion(path, -len(begun))


def listed(cwd: str) -> list[str]:
    """The files of a directory except those that git ignores; without git, all but hidden ones."""
    from treadle.workspace.git import git

    found = git("ls-files", "-z", "--cached", "--others", "--exclude-standard", cwd=cwd, timeout=5, check=False)
    if found.code == 0:
        return [name for name in found.stdout.decode("utf-8", "replace").split("\0") if name][:FILES]
    names: list[str] = []
    for place, directories, files in os.walk(cwd):
        directories[:] = [name for name in directories if not name.startswith(".")]
        names += [os.path.relpath(os.path.join(place, name), cwd) for name in files if not name.startswith(".")]
        if len(names) >= FILES:
            break
    return names[:FILES]
