"""A program that sits between a host and an agent and records what both say.

    python tests/stand_ins/record.py RECORDING COMMAND [ARGUMENTS ...]

`tests.stand_ins.replay` plays the recording. Long texts and long lists are shortened, and what `TREADLE_RECORD_HIDE`
names (`TEXT=NAME`, one per line) is replaced, so that a recording can be kept.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading

from treadle.light import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typing import IO

LONG = 400
MANY = 6
HIDE = "TREADLE_RECORD_HIDE"


def shortened(value: Any) -> Any:
    if isinstance(value, str):
        return value if len(value) <= LONG else value[: LONG // 2] + f" ...({len(value)})"
    if isinstance(value, list):
        return [shortened(item) for item in (value if len(value) <= MANY else value[:2])]
    if isinstance(value, dict):
        return {name: shortened(item) for name, item in value.items()}
    return value


class Recorder:
    def __init__(self, file: IO[str], hidden: list[tuple[str, str]]) -> None:
        self._file = file
        self._hidden = hidden
        self._turn = threading.Lock()
        """Both directions are pumped by threads of their own, and a line is written whole."""

    def note(self, direction: str, line: bytes) -> None:
        text = line.decode("utf-8", "replace").rstrip("\n")
        for secret, name in self._hidden:
            text = text.replace(secret, name)
        try:
            shown: Any = shortened(json.loads(text))
        except ValueError:
            shown = text
        with self._turn:
            self._file.write(json.dumps({"dir": direction, "line": shown}, ensure_ascii=False) + "\n")
            self._file.flush()

    def pump(self, direction: str, source: IO[bytes], sink: IO[bytes]) -> None:
        try:
            for line in iter(source.readline, b""):
                self.note(direction, line)
                sink.write(line)
                sink.flush()
            if direction == "in":
                sink.close()
        except OSError:
            pass


def main() -> int:
    path, *argv = sys.argv[1:]
    pairs = [line.rpartition("=") for line in os.environ.pop(HIDE, "").splitlines()]
    recorder = Recorder(open(path, "w", encoding="utf-8"), [(secret, name) for secret, _, name in pairs if secret])
    child = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert child.stdin is not None and child.stdout is not None
    threading.Thread(target=recorder.pump, args=("in", sys.stdin.buffer, child.stdin), daemon=True).start()
    recorder.pump("out", child.stdout, sys.stdout.buffer)
    return child.wait()


if __name__ == "__main__":
    sys.exit(main())
