from typing import Any

import msgspec
import pytest

from treadle.doors.worker.session import (
    CANCELLED,
    failed,
    heartbeat_seconds,
    pinned_version,
    result,
    session_spec,
    state_root,
)
from treadle.errors import ConfigError
from treadle.events import ErrorInfo, ToolStarted, TurnEnded, Usage
from treadle.sessions.totals import ToolUse, Totals, TurnSummary
from treadle.sessions.totals import totals as summed
from treadle.wire.worker.messages import CallMade, InitConfig, Runtime

CONFIG = InitConfig(model="m", system_prompt="", tools=())
IDS = {"session_id": "s", "task_id": None, "worker_id": None}


def totals(*calls: Usage) -> Totals:
    sum = Totals()
    for call in calls:
        sum = sum.plus(call)
    return sum


@pytest.mark.parametrize(("given", "seconds"), [("", 5.0), ("250", 0.25), (" 70 ", 0.07), ("0", 5.0), ("1e3", 5.0)])
def test_the_heartbeat_interval_is_in_milliseconds(given: str, seconds: float) -> None:
    warnings: list[str] = []
    assert heartbeat_seconds({"HEDDLE_HEARTBEAT_INTERVAL": given}, warnings.append) == seconds
    assert bool(warnings) == (given in ("0", "1e3"))


@pytest.mark.parametrize(
    ("given", "pinned"), [("", None), ("0.4.0", "0.4.0"), (" 1.2 ", "1.2"), ("newest", None), ("v0.4", None)]
)
def test_a_pinned_version_must_be_one(given: str, pinned: str | None) -> None:
    warnings: list[str] = []
    assert pinned_version({"HEDDLE_PROTOCOL_VERSION": given}, warnings.append) == pinned
    assert [given in warning for warning in warnings] == [True] * (bool(given) and pinned is None)


def test_an_own_server_is_reached_with_the_gateways_key() -> None:
    spec = session_spec(CONFIG, {"HEDDLE_BASE_URL": "http://x/v1", "OPENROUTER_API_KEY": "k"}, str)
    assert spec.env == {"OPENROUTER_BASE_URL": "http://x/v1", "OPENROUTER_API_KEY": "k"}
    assert spec.model == f"openrouter:{CONFIG.model}", "so that errors name the gateway and the variable of its key"
    assert session_spec(CONFIG, {"OPENROUTER_API_KEY": "k"}, str).env == {}


@pytest.mark.parametrize("cwd", ["relative", "/no/such/directory"])
def test_a_working_directory_must_be_there(cwd: str) -> None:
    config = InitConfig(model="m", system_prompt="", tools=(), capabilities=("cwd",), cwd=cwd)
    with pytest.raises(ConfigError, match=cwd):
        session_spec(config, {}, str)


def test_usage_is_left_out_rather_than_guessed() -> None:
    measured = Usage(input_tokens=1, output_tokens=2)
    guessed = Usage(input_tokens=9, source="estimate")
    for usages, wanted in (((measured,), 3), ((measured, guessed), 3), ((guessed,), None), ((), None)):
        summary = summed([*usages, TurnEnded(outcome="completed")])
        made = result("2", summary, (0, 2), IDS)
        assert (made.usage and made.usage.total_tokens) == wanted


@pytest.mark.parametrize(
    ("runtime", "why"),
    [
        (Runtime(mode="isolated"), "runtime.state_root is missing"),
        (Runtime(mode="isolated", state_root="here"), "runtime.state_root must be an absolute path"),
        (Runtime(transcript_path="t.jsonl"), "runtime.transcript_path must be an absolute path"),
        (Runtime(mode="isolated", state_root="/x", inherit_ambient_config=True), "no settings but those"),
        (Runtime(state_root="/x"), "for the mode isolated"),
        (Runtime(transcript_path="/x/t.jsonl"), "transcript_path cannot be chosen"),
    ],
)
def test_a_runtime_that_cannot_be_kept_is_refused(runtime: Runtime, why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        state_root(msgspec.structs.replace(CONFIG, runtime=runtime))


def test_an_isolated_runtime_names_where_all_state_goes() -> None:
    asked = Runtime(mode="isolated", state_root="/x", inherit_ambient_config=False)
    assert state_root(msgspec.structs.replace(CONFIG, runtime=asked)) == "/x"
    assert state_root(msgspec.structs.replace(CONFIG, runtime=Runtime())) is None and state_root(CONFIG) is None


def test_an_answer_that_is_empty_is_still_an_answer() -> None:
    assert result("2", TurnSummary(outcome="completed"), (0, 2), IDS).response == ""


def test_a_session_that_ended_without_a_word_is_an_error() -> None:
    made = result("2", TurnSummary(outcome=None), (0, 2), IDS)
    assert made.status == "error" and made.error is not None and made.error.retryable


@pytest.mark.parametrize("version", [(0, 3), (0, 4), (0, 5)])
def test_why_a_send_failed_is_told_from_0_4_on_and_more_from_0_5(version: Any) -> None:
    use = ToolUse(started=ToolStarted(call="c", name="grep", args={"p": 1}))
    error = ErrorInfo(code="loop_detected", message="again", details={"loop_count": 3, "loop_threshold": 3})
    made = result("2", TurnSummary(outcome="limited", error=error, tools=(use,), iterations=3), version, IDS)
    assert (made.failure is None) == (version < (0, 4))
    if made.failure is not None:
        assert (made.failure.code, made.failure.loop_count, made.failure.tool_calls_made) == ("loop_detected", 3, 1)
        assert (made.failure.last_tool_name, made.failure.loop_threshold) == ("grep", 3)
        assert made.failure.last_tool == (CallMade("grep", {"p": 1}, "c") if version == (0, 5) else None)


def test_a_send_that_never_ran_has_done_nothing() -> None:
    made = failed("2", CANCELLED, (0, 5), IDS)
    assert (made.status, made.iterations, made.tool_calls_made, made.total_latency_ms) == ("error", 0, (), 0)
    assert made.failure is not None and made.failure.cancellation_source == "user"
    older = failed("2", CANCELLED, (0, 4), IDS).failure
    assert (
        older is not None
        and older.cancellation_source == "user"
        and failed("2", CANCELLED, (0, 3), IDS).failure is None
    )


def test_the_usage_of_a_result_names_the_last_reply_to_clients_that_know_the_field() -> None:
    summary = summed(
        Usage(input_tokens=1, output_tokens=1, request_id=name, parent=parent)
        for name, parent in (("gen-1", None), ("gen-2", None), ("gen-3", "task-1"))
    )
    told, older = result("2", summary, (0, 3), IDS).usage, result("2", summary, (0, 2), IDS).usage
    assert told is not None and told.generation_id == "gen-2"
    assert older is not None and older.generation_id is None
