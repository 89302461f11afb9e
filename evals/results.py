"""Measurements as JSON, so that a later run can be compared."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Iterable
from pathlib import Path

import msgspec

from treadle import __version__
from treadle.errors import ConfigError

FORMAT = 1


class Configuration(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Everything that may differ between two compared runs."""

    agent: str = "native"
    model: str = ""
    brief: str = ""
    """How the task is given: by itself, or inside a plan as a `verbatim` or a `delta` brief."""
    system: str = ""
    """A file whose text is the system prompt."""

    @property
    def label(self) -> str:
        given = [
            f"{field.name}={value}" for field in msgspec.structs.fields(self) if (value := getattr(self, field.name))
        ]
        return " ".join(given)


class Attempt(msgspec.Struct, frozen=True, kw_only=True):
    """One run of one task."""

    task: str
    size: str
    kind: str
    number: int
    passed: bool
    why: str = ""
    outcome: str = ""
    error: str = ""
    steps: int = 0
    """Model calls."""
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    estimated: bool = False
    """Whether some of the tokens were estimated, because no service counted them."""
    cost_usd: float | None = None
    seconds: float = 0.0
    tool_calls: int = 0
    tool_errors: int = 0
    load: float = 0.0
    """How many processes wanted a core in the last minute, when it ended."""

    @property
    def tokens(self) -> int:
        return self.input_tokens + self.cached_tokens + self.output_tokens


class Results(msgspec.Struct, frozen=True, kw_only=True):
    configuration: Configuration
    attempts: tuple[Attempt, ...]
    format: int = FORMAT
    version: str = __version__
    started: str = ""
    cores: int = 0
    machine: str = ""

    @classmethod
    def of(cls, configuration: Configuration, attempts: Iterable[Attempt]) -> Results:
        return cls(
            configuration=configuration,
            attempts=tuple(attempts),
            started=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            cores=os.cpu_count() or 0,
            machine=f"{platform.system()} {platform.machine()}, Python {platform.python_version()}",
        )

    def save(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(msgspec.json.format(msgspec.json.encode(self), indent=1))


def load(path: Path) -> Results:
    try:
        data = path.read_bytes()
        number = msgspec.json.decode(data, type=_Numbered).format
        if number != FORMAT:
            raise ConfigError(f"{path} has the format {number}, and this version reads {FORMAT}")
        return msgspec.json.decode(data, type=Results)
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}") from None
    except msgspec.DecodeError as error:
        raise ConfigError(f"{path} holds no results: {error}") from None


class _Numbered(msgspec.Struct):
    format: int
