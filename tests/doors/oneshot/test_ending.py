"""The exit code and the last record, from how a run ended. What leads to each is in `test_run.py`."""

import msgspec
import pytest

from treadle.doors.oneshot.run import RunEnding, exit_code, not_begun, result_of
from treadle.errors import ConfigError, NoModel
from treadle.events import AnyEvent, ErrorInfo, Outcome, ToolDenied, TurnEnded, Usage
from treadle.sessions.totals import totals
from treadle.verification.ending import CheckedEnding

DENIED = ToolDenied(call="c1", name="bash", args={"command": "rm"}, reason="no")


def ended(outcome: Outcome = "completed", stop_reason: str | None = None) -> TurnEnded:
    return TurnEnded(outcome=outcome, stop_reason=stop_reason)


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
    ("ending", "events", "checked", "said"),
    [
        (RunEnding(), [DENIED, DENIED, ended()], None, "no"),
        (RunEnding(), [ended(stop_reason="length")], None, "the model stopped: length"),
        (RunEnding(), [DENIED, ended()], CheckedEnding(state="contradicted", why="red"), "contradicted: red"),
        (RunEnding(), [ended("interrupted")], None, "interrupted"),
        (RunEnding(interrupted=True), [ended()], CheckedEnding(state="unverified", why="why"), "unverified: why"),
    ],
)
def test_a_run_that_is_not_done_says_what_is_wrong(
    ending: RunEnding, events: list[AnyEvent], checked: CheckedEnding | None, said: str
) -> None:
    code = exit_code(ending, totals(events), strict=True, checked=checked)
    made = result_of(ending, totals(events), code, None, session_id="s", milliseconds=0, checked=checked)
    assert code and made.is_error and made.errors == [said]


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
