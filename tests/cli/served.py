"""An installed command that speaks a protocol on its standard streams, and the program that owns it."""

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.installed import started


class Talk:
    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process

    def ask(self, method: str, number: int, **params: Any) -> None:
        assert self._process.stdin is not None
        request = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()

    def until(self, **fields: Any) -> Any:
        """The first message that has these."""
        assert self._process.stdout is not None
        for line in self._process.stdout:
            message = json.loads(line)
            if all(message.get(name) == value for name, value in fields.items()):
                return message
        raise AssertionError(f"nothing with {fields} came")


@contextmanager
def talk(*words: str, cwd: Path) -> Iterator[Talk]:
    with started(*words, cwd=cwd, stdin=subprocess.PIPE) as process:
        try:
            yield Talk(process)
        finally:
            process.kill()
