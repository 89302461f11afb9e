"""The exit code and the last record, from how a run ended. What leads to each is in `test_run.py`."""

import msgspec
import pytest

from treadle.doors.oneshot.run import RunEnding, exit_code, failure, not_begun, refusals, result_of
from treadle.errors import ConfigError, NoModel
from treadle.events import ErrorInfo, Outcome, ToolDenied, TurnEnded, Usage
from treadle.sessions.totals import totals

FAILED = RunEnding(error=ErrorInfo(code="provider_error", message="down"))
LATE = RunEnding(error=ErrorInfo(code="timeout", message="too late"))
DENIED = ToolDenied(call="c1", name="bash", args={"command": "rm"}, reason="no")


def ended(outcome: Outcome = "completed", stop_reason: str | None = None) -> TurnEnded:
    return TurnEnded(outcome=outcome, stop_reason=stop_reason)


@pytest.mark.parametrize(
    ("ending", "events", "plain", "strict"),
    [
        (RunEnding(text="done", turn=True), [ended()], 0, 0),
        (RunEnding(interrupted=True), [], 0, 130),
        (RunEnding(turn=True), [ended("interrupted")], 0, 130),
        (FAILED, [ended("failed")], 1, 1),
        (FAILED, [ended("limited")], 1, 3),
        (LATE, [ended("limited")], 1, 124),
        (RunEnding(turn=True), [DENIED, ended()], 0, 4),
        (RunEnding(turn=True), [ended(stop_reason="length")], 0, 4),
        (RunEnding(turn=True), [ended(stop_reason="refusal")], 0, 4),
    ],
)
def test_the_exit_code_tells_more_when_it_is_to_be_strict(
    ending: RunEnding, events: list[TurnEnded | ToolDenied], plain: int, strict: int
) -> None:
    assert (exit_code(ending, totals(events), strict=False), exit_code(ending, totals(events), strict=True)) == (
        plain,
        strict,
    )


def test_the_record_has_the_totals_and_never_a_text_beside_an_error() -> None:
    summary = totals([Usage(input_tokens=3, output_tokens=2, cost_usd=0.5, model="m"), DENIED, ended()])
    good = result_of(RunEnding(text="hi", turn=True), summary, 0, msgspec.UNSET, session_id="s", milliseconds=7)
    assert (good.result, good.subtype, good.is_error, good.session_id, good.duration_ms) == (
        "hi",
        "success",
        False,
        "s",
        7,
    )
    assert (good.total_cost_usd, good.model_usage["m"]["inputTokens"]) == (0.5, 3)
    assert good.permission_denials == [{"tool_name": "Bash", "tool_use_id": "c1", "tool_input": {"command": "rm"}}]
    bad = result_of(
        msgspec.structs.replace(FAILED, text="half"), summary, 1, msgspec.UNSET, session_id="s", milliseconds=7
    )
    assert (bad.result, bad.subtype, bad.errors, bad.error_code) == ("", "error", ["down"], "provider_error")


def test_counts_that_were_only_estimated_are_marked_in_the_record() -> None:
    for source in ("provider", "estimate"):
        summary = totals([Usage(input_tokens=3, output_tokens=2, model="m", source=source), ended()])
        record = result_of(RunEnding(text="", turn=True), summary, 0, msgspec.UNSET, session_id="s", milliseconds=7)
        assert record.usage.get("estimated", False) is (source == "estimate")


@pytest.mark.parametrize(
    ("ending", "reason"),
    [
        (RunEnding(turn=True), "completed"),
        (RunEnding(interrupted=True), "aborted_streaming"),
        (RunEnding(interrupted=True, in_tools=True), "aborted_tools"),
        (RunEnding(error=ErrorInfo(code="max_iterations", message="")), "max_turns"),
        (RunEnding(error=ErrorInfo(code="budget_exceeded", message="")), "budget_exhausted"),
        (RunEnding(error=ErrorInfo(code="rate_limited", message="")), "api_error"),
        (RunEnding(error=ErrorInfo(code="strange", message="")), "error"),
    ],
)
def test_the_record_says_in_one_word_why_it_ended(ending: RunEnding, reason: str) -> None:
    made = result_of(ending, totals([]), 0, msgspec.UNSET, session_id="s", milliseconds=0)
    assert made.terminal_reason == reason


def test_an_interruption_is_no_failure_and_every_other_ending_is() -> None:
    assert failure(ended()) is None and failure(ended("interrupted")) is None
    told = failure(ended("limited"))
    assert told is not None and "limited" in told.message


def test_each_reason_for_a_refusal_is_told_once() -> None:
    assert refusals([DENIED, DENIED]) == "treadle: not allowed: no\n"


@pytest.mark.parametrize(
    ("code", "interrupted", "subtype", "text", "failed"),
    [
        ("", False, "success", "hi", False),
        ("", True, "error_during_execution", msgspec.UNSET, True),
        ("max_iterations", False, "error_max_turns", msgspec.UNSET, True),
        ("budget_exceeded", False, "error_max_budget_usd", msgspec.UNSET, True),
        ("rate_limited", False, "success", "why", True),
        ("strange", False, "error_during_execution", msgspec.UNSET, True),
    ],
)
def test_under_an_sdk_of_claude_code_it_ends_in_its_words(
    code: str, interrupted: bool, subtype: str, text: object, failed: bool
) -> None:
    error = ErrorInfo(code=code, message="why") if code else None
    ending = RunEnding(text="hi", error=error, interrupted=interrupted)
    made = result_of(ending, totals([]), 0, msgspec.UNSET, session_id="s", milliseconds=0, hosted=True)
    assert (made.subtype, made.result, made.is_error) == (subtype, text, failed)
    assert made.errors == (["why"] if code else ["interrupted"] if interrupted else msgspec.UNSET)
    assert made.error_code == (code or msgspec.UNSET)
    plain = result_of(ending, totals([]), 3, msgspec.UNSET, session_id="s", milliseconds=0)
    assert plain.is_error and plain.result == ("" if code else "hi")


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (NoModel("no model"), "no_model", "no model"),
        (ConfigError("wrong"), "config_error", "wrong"),
        (OSError(28, "No space left"), "storage_error", "[Errno 28] No space left"),
    ],
)
def test_a_run_that_could_not_begin_says_why(error: Exception, code: str, said: str) -> None:
    made = not_begun(error)
    assert (made.error_code, made.errors, made.is_error, made.session_id) == (code, [said], True, "")
    assert (made.subtype, made.result, made.duration_ms) == ("error", "", 0)


def test_the_record_has_what_each_model_used_and_how_large_its_window_is() -> None:
    used = Usage(input_tokens=3, output_tokens=2, cache_read_tokens=5, cache_write_tokens=7, model="m")
    made = result_of(
        RunEnding(text="", turn=True), totals([used, ended()]), 0, {"n": 1}, session_id="s", milliseconds=0, window=9
    )
    assert made.model_usage == {
        "m": {
            "inputTokens": 3,
            "outputTokens": 2,
            "cacheReadInputTokens": 5,
            "cacheCreationInputTokens": 7,
            "costUSD": None,
            "contextWindow": 9,
        }
    }
    assert made.structured_output == {"n": 1} and made.total_cost_usd is None
    other = ToolDenied(call="c2", name="own", args={}, reason="no")
    assert result_of(RunEnding(), totals([other]), 0, None, session_id="s", milliseconds=0).permission_denials == [
        {"tool_name": "own", "tool_use_id": "c2", "tool_input": {}}
    ]
