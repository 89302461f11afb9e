"""How many tests ran, as their runner says. The code under test can print these words, too: no count is proof alone."""

import os
import re
import tomllib
from functools import cache
from typing import Any

import msgspec

from treadle.io.files import read

_COLOUR = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")


class Counts(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a runner said about its run."""

    runner: str
    ran: int
    """Tests that passed or failed: not those that were skipped."""
    failed: int = 0
    skipped: int = 0


@cache
def _runners() -> list[dict[str, Any]]:
    return list(tomllib.loads(read(os.path.join(os.path.dirname(__file__), "runners.toml")).decode())["runner"])


def counted(output: str) -> Counts | None:
    """What the runner whose words are in the output says; None if none is known."""
    text = _COLOUR.sub("", output)
    for runner in _runners():
        signs = [found.group() for found in re.finditer(runner["sign"], text)]
        if signs:
            return _read(runner, signs[-1] if runner.get("last") else text)
    return None


def _read(runner: dict[str, Any], text: str) -> Counts:
    def total(kind: str) -> int:
        found = re.findall(runner[kind], text) if kind in runner else []
        return len(found) if runner.get("lines") else sum(map(int, found))

    failed, skipped = total("failed"), total("skipped")
    ran = max(0, total("tests") - skipped) if "tests" in runner else total("passed") + failed
    return Counts(runner=runner["name"], ran=ran, failed=failed, skipped=skipped)
