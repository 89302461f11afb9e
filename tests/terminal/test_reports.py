import base64
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle.terminal.reports import STATES, TASKS_MAX, Announcements, StateFile, compose, parse


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


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("idle", ("idle", "", "")),
        ("working on it\n", ("working", "", "on it")),
        ("question which one?", ("blocked", "question", "which one?")),
        ("auth", ("blocked", "auth", "")),
        ("state=blocked:kind=permission:msg=cm0=", ("blocked", "permission", "rm")),
        ("state=clear", None),
        ("state=dancing", None),
        ("dancing", None),
        ('{"state": "error", "msg": "401"}', ("error", "", "401")),
        ('{"state": "blocked", "kind": "question", "msg": null}', ("blocked", "question", "")),
        ('{"state": "permission", "kind": "x"}', ("blocked", "permission", "")),
        ('{"state": 3}', None),
        ('{"kind": "x"}', None),
        ("{broken", None),
    ],
)
def test_a_state_file_has_a_word_fields_or_json(tmp_path: Path, text: str, found: tuple[str, str, str] | None) -> None:
    (tmp_path / "s").write_text(text)
    report = StateFile(str(tmp_path / "s")).look(7)
    assert (report and (report.state, report.kind, report.message)) == found
    if report:
        assert (report.source, report.at, report.words) == ("state file", 7, text.strip())


def test_a_turn_begins_with_work_or_with_an_end_that_came_first(tmp_path: Path) -> None:
    announced = Announcements(str(tmp_path / "s"), 0)
    for body, begins in (
        ("no report", False),
        ("state=idle", False),
        ("state=working", True),
        ("state=working", False),
        ("state=done", False),
        ("state=error", False),
        ("state=idle", False),
        ("state=done", True),
        ("state=clear", False),
        ("state=error", True),
        ("state=blocked", False),
        ("state=working", True),
    ):
        assert announced.reported(body, 5) is begins, body
    assert announced.report and (announced.report.state, announced.report.source) == ("working", "osc 7501")
    announced.reported("no report", 6)
    assert announced.report.at == 5


def test_subtasks_are_counted_apart_and_gone_with_their_program(tmp_path: Path) -> None:
    announced = Announcements(str(tmp_path / "s"), 0)
    for number in range(TASKS_MAX + 1):
        assert not announced.reported(f"state=working:id=t{number}", 1)
    assert len(announced.tasks) == TASKS_MAX and announced.report is None
    assert not announced.reported("state=done:id=t0", 2) and announced.tasks["t0"].state == "done"
    announced.reported("state=clear:id=t0", 3)
    assert "t0" not in announced.tasks and len(announced.tasks) == TASKS_MAX - 1
    announced.reported("state=clear", 4)
    assert announced.tasks == {} and announced.report is None
