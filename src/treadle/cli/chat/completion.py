"""What Tab offers: slash commands and their arguments at the start of the line, files after an @."""

import re
from collections.abc import Callable, Iterable, Sequence
from itertools import islice

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
    """The files of a directory except those that git ignores; outside of a repository, all but hidden ones.

    We read them ourselves: git would obey what an agent may have put there.
    """
    from treadle.io.walking import Walk
    from treadle.workspace.user_repository import UserRepository

    shown = (name for name, _ in Walk(cwd))
    if UserRepository.around(cwd) is None:
        shown = (name for name in shown if not f"/{name}".count("/."))
    return [*islice(shown, FILES)]
