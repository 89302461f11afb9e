import base64
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle.terminal.reports import STATES, StateFile, compose, parse


def test_a_report_has_state_app_kind_and_message() -> None:
    message = base64.b64encode("rot? · grün".encode()).decode()
    child, report = parse(f"state=blocked:app=claude-code:kind=question:msg={message}", "osc 7501", 5)
    assert child == "" and report
    assert (report.state, report.app, report.kind, report.message, report.at) == (
        *("blocked", "claude-code", "question", "rot? · grün"),
        5,
    )


def test_a_child_record_is_named_and_a_cleared_one_is_none() -> None:
    assert parse("state=working:id=a1", "x", 0)[0] == "a1"
    assert parse("state=clear:id=a1", "x", 0) == ("a1", None)


@given(st.sampled_from(STATES), st.sampled_from(["", "permission", "question"]), st.text())
def test_what_is_composed_is_understood(state: str, kind: str, message: str) -> None:
    _, report = parse(compose(state, app="me", kind=kind, message=message), "x", 0)
    assert report and (report.state, report.app, report.kind) == (state, "me", kind)
    assert report.message == message.encode("utf-8", "replace").decode()


@pytest.mark.parametrize("body", ["", "?", "state=dancing", "app=x", "=:=:="])
def test_what_is_no_report_is_refused(body: str) -> None:
    with pytest.raises(ValueError):
        parse(body, "x", 0)


def test_a_state_file_is_read_once_for_each_change(tmp_path: Path) -> None:
    file = StateFile(str(tmp_path / "s"))
    assert file.look(0) is None
    (tmp_path / "s").write_text("permission may I?\n")
    report = file.look(1)
    assert report and (report.state, report.kind, report.message) == ("blocked", "permission", "may I?")
    assert file.look(2) is None


def test_a_huge_or_binary_state_file_does_no_harm(tmp_path: Path) -> None:
    file = StateFile(str(tmp_path / "s"))
    (tmp_path / "s").write_bytes(bytes(range(256)) * 10_000)
    assert file.look(1) is None
