"""What Tab offers: slash commands and their arguments at the start of the line, files after an @."""

import re
from collections.abc import Callable, Iterable, Sequence

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document

from treadle.session import CommandInfo

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
        from treadle.workspace import file_names  # imported here because few lines name a file

        if self._files is None or not begun:  # files come and go, so each new @ lists them again
            self._files = file_names.listed(self._cwd)
        for path in file_names.matching(self._files, begun):
            yield Completion(path, -len(begun))
