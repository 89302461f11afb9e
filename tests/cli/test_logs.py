"""`TREADLE_LOG`: JSON lines, without secrets, where the person wants them."""

import json
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from treadle.cli import logs
from treadle.errors import ConfigError


@pytest.fixture(autouse=True)
def undone() -> Iterator[None]:
    yield
    logs.set_up("")
    logging.getLogger("treadle").propagate = True


def test_lines_are_json_with_ids_and_without_secrets(tmp_path: Path) -> None:
    path = tmp_path / "log"
    logs.set_up(f"info:{path}")
    logging.getLogger("treadle.x").info("key is sk-ant-api03-%s", "a" * 40, extra={"session": "s1"})
    try:
        raise ValueError("oops")
    except ValueError:
        logging.getLogger("treadle.x").exception("it broke")
    logging.getLogger("treadle.x").debug("not this")
    first, second = map(json.loads, path.read_text().splitlines())
    assert first["session"] == "s1" and first["level"] == "info" and "a" * 40 not in first["message"]
    assert "ValueError: oops" in second["traceback"]
    assert path.stat().st_mode & 0o777 == 0o600


def test_without_the_variable_nothing_is_written(capfd: pytest.CaptureFixture[str]) -> None:
    logs.set_up("")
    logging.getLogger("treadle.x").error("quiet")
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("wanted", ["loud", "info:/nowhere/at/all"])
def test_a_wrong_value_says_what_to_write(wanted: str) -> None:
    with pytest.raises(ConfigError, match="TREADLE_LOG"):
        logs.set_up(wanted)
