"""Labelled moments of an agent's screen: what was seen, and the state that it was in. A table is tested with them."""

from __future__ import annotations

import json

from treadle.errors import ConfigError
from treadle.io.files import read
from treadle.light import TYPE_CHECKING
from treadle.terminal.detectors import MOMENTS
from treadle.terminal.detectors.table import STATES
from treadle.terminal.judge import UNKNOWN, Evidence, judge
from treadle.terminal.reports import parse

if TYPE_CHECKING:
    from typing import Any

    from treadle.terminal.detectors.table import Detector

LABELS = (*STATES, UNKNOWN)
FIELDS = ("title", "report", "progress", "box_seen", "quiet_ms", "age_ms")


def file_of(table: str) -> str:
    """The file of moments beside a table."""
    return table.removesuffix(".toml") + MOMENTS


def written(state: str, found: dict[str, Any]) -> str:
    """A moment as TOML, from what `explain` says of a live terminal."""
    if state not in LABELS:
        raise ConfigError(f"{state!r} is not a state", hint=f"there are {', '.join(LABELS)}")
    if "screen" not in found:
        raise ConfigError("its agent is not known, so there is no table to test", hint="write one first")
    lines = ["[[moment]]", f"state = {_toml(state)}"]
    for name in FIELDS:
        if (value := found.get(name)) not in (None, ""):
            lines.append(f"{name} = {_toml(value)}")
    lines.append("screen = [")
    lines += [f"  {_toml(line)}," for line in found["screen"].split("\n")]
    return "\n".join([*lines, "]", ""])


def _toml(value: str | bool | int) -> str:
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def tested(detector: Detector, path: str) -> list[tuple[str, str, str]]:
    """For each moment in the file: the state that it is labelled with, the state that the table sees, and why."""
    import tomllib

    try:
        body = tomllib.loads(read(path).decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: {error}") from error
    results = []
    for number, moment in enumerate(_list(body.get("moment")), 1):
        try:
            label, evidence = moment["state"], _evidence(moment)
        except (KeyError, TypeError, ValueError) as error:
            raise ConfigError(f"{path}: moment {number} is not one: {error}") from error
        verdict = judge(detector, evidence)
        results.append((_general(label), _general(verdict.state), f"{verdict.source}: {verdict.words}"))
    return results


def _general(state: str) -> str:
    """A person who labels a screen cannot always tell what kind of work it shows."""
    return "working" if state in ("thinking", "streaming", "tool_use") else state


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _evidence(moment: dict[str, Any]) -> Evidence:
    report = parse(moment["report"], "report", 0)[1] if moment.get("report") else None
    return Evidence(
        [str(line) for line in moment["screen"]],
        moment.get("title", ""),
        report,
        moment.get("progress", ""),
        box_seen=bool(moment.get("box_seen", True)),
        quiet=int(moment.get("quiet_ms", 0)),
        age=int(moment.get("age_ms", 0)),
    )
