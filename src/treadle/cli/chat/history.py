"""What was typed in earlier chats, in one private file for all. Secrets and answers to questions are left out."""

import json
import os
from collections.abc import Iterable

from prompt_toolkit.history import History

from treadle.errors import StorageError
from treadle.io.files import append_lines, read_lines
from treadle.io.paths import private_dir, state_dir
from treadle.redact import Redactor

MOST_LINES = 5000


class Typed(History):
    """Newest first, as prompt_toolkit wants them. With a full or read-only disk the chat works without a history."""

    def __init__(self, path: str | None = None, environ: dict[str, str] | None = None) -> None:
        super().__init__()
        self._path = path or os.path.join(private_dir(state_dir()), "typed.jsonl")
        self._redact = Redactor.of_environment(os.environ if environ is None else environ)

    def load_history_strings(self) -> Iterable[str]:
        try:
            lines, _ = read_lines(self._path)
        except OSError:
            return
        for line in reversed(lines[-MOST_LINES:]):
            try:
                text = json.loads(line)
            except ValueError:
                continue
            if isinstance(text, str):
                yield text

    def store_string(self, string: str) -> None:
        if not string.strip() or self._redact.text(string) != string:
            return
        try:
            append_lines(self._path, [json.dumps(string).encode()])
        except (OSError, StorageError):
            pass
