"""`TREADLE_LOG=LEVEL[:FILE]`: what happens inside, as JSON lines on stderr or in a file. Secrets are removed."""

import logging
import os
import sys

import msgspec

from treadle.errors import ConfigError
from treadle.io.files import appending
from treadle.redact import Redactor
from treadle.wire.common.jsontext import timestamp

LEVELS = ("debug", "info", "warning", "error")


class JsonLines(logging.Formatter):
    def __init__(self) -> None:
        super().__init__()
        self._redactor = Redactor.of_environment(os.environ)

    def format(self, record: logging.LogRecord) -> str:
        fields = {
            "ts": timestamp(record.created),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            "pid": record.process,
        }
        for name in ("session", "turn", "run"):
            if hasattr(record, name):
                fields[name] = getattr(record, name)
        if record.exc_info:
            fields["traceback"] = self.formatException(record.exc_info)
        return msgspec.json.encode(self._redactor.tree(fields)).decode(errors="replace")


def set_up(wanted: str | None = None) -> None:
    """Set up logging as the variable says, or not at all: what a person must know is an event or an error."""
    wanted = os.environ.get("TREADLE_LOG", "") if wanted is None else wanted
    root = logging.getLogger("treadle")
    root.propagate = False
    for handler in list(root.handlers):
        root.removeHandler(handler)
        handler.close()
    if not wanted:
        root.addHandler(logging.NullHandler())
        return
    level, _, path = wanted.partition(":")
    if level.lower() not in LEVELS:
        raise ConfigError(f"TREADLE_LOG is {wanted!r}", hint=f"LEVEL or LEVEL:FILE, LEVEL one of {', '.join(LEVELS)}")
    handler = _handler(path)
    handler.setFormatter(JsonLines())
    root.addHandler(handler)
    root.setLevel(level.upper())


def _handler(path: str) -> logging.Handler:
    if not path:
        return logging.StreamHandler(sys.stderr)
    try:
        appending(path).close()
        return logging.FileHandler(path, encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"TREADLE_LOG cannot be written: {path}: {error.strerror}") from None
