"""The gate adapter."""

import json
from pathlib import Path
from typing import Any

import pytest

from treadle.coordination.messages import to_message
from treadle.coordination.planning import Planning
from treadle.errors import ConfigError, NotFound
from treadle.wire.heimdall.messages import faults


def made(tmp_path: Path, report: Any, wave: str = "") -> dict[str, Any]:
    path = tmp_path / "report.json"
    path.write_text(report if isinstance(report, str) else json.dumps(report))
    message = to_message(Planning(str(tmp_path / ".planning")), str(path), "sentinel", "g1", wave)
    assert faults(message) == []
    return message


REPORT = {"gate_id": "g", "status": "fail", "metrics": {"a": 1}, "fix_hint": "body"}


def test_it_refers_to_the_report_and_never_holds_its_body(tmp_path: Path) -> None:
    message = made(tmp_path, REPORT)
    assert message["report_ref"] == str(tmp_path / "report.json")
    assert "body" not in json.dumps(message) and "metrics" not in message


@pytest.mark.parametrize(
    ("in_report", "given", "wave"), [(None, "", None), ("2", "", "2"), (3, "", "3"), ("2", "4", "4"), ("", "", None)]
)
def test_the_wave_that_is_given_beats_the_reports(tmp_path: Path, in_report: Any, given: str, wave: str | None) -> None:
    assert made(tmp_path, {**REPORT, "wave": in_report}, given).get("wave") == wave


@pytest.mark.parametrize(
    "report",
    [
        "",
        "{",
        "[]",
        {},
        {"gate_id": "g"},
        {"gate_id": "", "status": "pass"},
        {"gate_id": "g", "status": "error"},
        {"gate_id": 3, "status": "pass"},
    ],
)
def test_what_is_no_report_is_neither_pass_nor_fail(tmp_path: Path, report: Any) -> None:
    with pytest.raises(ConfigError):
        made(tmp_path, report)


def test_a_missing_report_is_said_to_be_missing(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match=r"no report at .*none.json \(a gate that left no report has not passed"):
        to_message(Planning(str(tmp_path / ".planning")), str(tmp_path / "none.json"), "s", "g1")
