"""What a person is shown of a run: its exit code, and nothing that acts on their terminal."""

from typing import Any

import pytest
from msgspec.structs import replace

from treadle.cli import host_show
from treadle.cli.host_show import COMPLETE, FAILED, PARTIAL, exit_code, show_receipt
from treadle.testing.conversations.sidecar import SAMPLE_RECEIPT


def receipt(outcome: Any, workspace: Any = None) -> Any:
    more = {"treadle": {"workspace": workspace}} if workspace is not None else {}
    return replace(SAMPLE_RECEIPT, outcome=outcome, usage_raw=more)


@pytest.mark.parametrize(
    ("outcome", "workspace", "code"),
    [
        ("complete", None, COMPLETE),
        ("partial", None, PARTIAL),
        ("failed", None, FAILED),
        ("complete", {"apply": False}, COMPLETE),
        ("complete", {"apply": True, "applied": {"conflicts": []}}, COMPLETE),
        ("complete", {"apply": True, "applied": {"conflicts": ["a"]}}, FAILED),
        ("complete", {"apply": True, "applied": None}, FAILED),
        ("complete", {"apply": True}, FAILED),
        ("partial", {"apply": True}, PARTIAL),
    ],
)
def test_the_exit_code_is_as_the_receipt_says_and_not_0_when_nothing_was_applied(
    outcome: str, workspace: Any, code: int
) -> None:
    assert exit_code(receipt(outcome, workspace)) == code


@pytest.mark.parametrize("raw", [None, [], "x", 7, {"treadle": None}, {"treadle": {}}])
def test_a_receipt_of_another_program_has_an_exit_code_too(raw: Any) -> None:
    assert exit_code(replace(SAMPLE_RECEIPT, outcome="complete", usage_raw=raw)) == COMPLETE


def test_a_receipt_is_shown_with_its_outcome_and_where_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    show_receipt(SAMPLE_RECEIPT, "/kept/r.json")
    text = capsys.readouterr().out
    assert SAMPLE_RECEIPT.outcome in text and "/kept/r.json" in text


def test_what_an_agent_said_cannot_act_on_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    evil = "\x1b]0;owned\x07\x1b[2J"
    events = [
        replace(event, **{name: evil}) for event in SAMPLE_RECEIPT.trace for name in ("text",) if hasattr(event, name)
    ]
    assert events, "the sample has words"
    host_show.show_events(events)
    assert "\x1b" not in capsys.readouterr().out
