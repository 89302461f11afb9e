"""Every end that is not a success has a reason, in a sentence, with what to do."""

import pytest

from treadle.errors import (
    AuthFailed,
    Busy,
    Cancelled,
    ConfigError,
    DiskFull,
    LocalError,
    PeerExited,
    RateLimited,
    StorageError,
    TreadleError,
    WorkspaceError,
)
from treadle.events import ErrorInfo, TurnEnded
from treadle.fleet.engine.bus import Unreachable
from treadle.fleet.run import attempt


def test_what_stopped_it_comes_first_then_the_agents_error_then_a_failed_check() -> None:
    broken = TurnEnded(outcome="failed", error=ErrorInfo(code="auth_failed", message="401: no such key"))
    assert attempt.of(Cancelled("cancelled by ana"), None, broken, "x") == "cancelled by ana"
    assert attempt.of(None, None, broken, "x").startswith("401: no such key: give this node a valid key")
    assert attempt.of(None, AuthFailed("401"), None, "").startswith("401: give this node")
    assert attempt.of(None, None, TurnEnded(outcome="completed"), "make test failed") == "make test failed"
    for outcome in ("completed", "interrupted", "failed", "limited"):
        assert attempt.of(None, None, TurnEnded(outcome=outcome), "")  # type: ignore[arg-type]
    assert attempt.of(None, None, None, "")


def test_each_reason_has_a_code_found_in_the_same_order() -> None:
    broken = TurnEnded(outcome="failed", error=ErrorInfo(code="auth_failed", message="401: no such key"))
    assert attempt.code_of(Cancelled("by ana"), None, broken, "x") == "cancelled"
    assert attempt.code_of(None, AuthFailed("401"), None, "") == "auth_failed"
    assert attempt.code_of(None, None, broken, "x") == "auth_failed"
    assert attempt.code_of(None, None, TurnEnded(outcome="completed"), "make test failed") == "verify_failed"
    assert attempt.code_of(None, None, TurnEnded(outcome="completed"), "") == "no_result"
    assert attempt.code_of(None, None, None, "") == "silent"


@pytest.mark.parametrize(
    ("problem", "words", "fault"),
    [
        (AuthFailed("401."), f"401: {attempt.ADVICE['auth_failed']}", ""),
        (StorageError("unreadable"), f"unreadable{attempt.OURS}", "ours"),
        (DiskFull("0 KB are left"), f"0 KB are left{attempt.OURS}", "ours"),
        (WorkspaceError("No space left", retryable=True), f"No space left{attempt.OURS}", "ours"),
        (WorkspaceError("the setup failed"), "the setup failed", ""),
        (Unreachable("away"), f"away{attempt.OURS}", "ours"),
        (Busy("locked"), f"locked{attempt.OURS}", "ours"),
        (LocalError("a bug"), f"a bug{attempt.OURS}", "ours"),
        (ConfigError("no such model"), "no such model", ""),
        (RateLimited("slow"), f"slow: {attempt.ADVICE['rate_limited']}", "provider"),
    ],
)
def test_a_problem_of_the_host_says_whose_fault_it_is(problem: TreadleError, words: str, fault: str) -> None:
    assert attempt.of(None, problem, None, "x") == words and attempt.fault_of(None, problem, None, "x") == fault
    assert attempt.code_of(None, problem, None, "x") == problem.code
    silent = TurnEnded(outcome="completed")
    assert attempt.of(None, problem, silent, "x") == words and attempt.fault_of(None, problem, silent, "x") == fault


def test_the_agent_s_own_error_comes_before_the_host_s_and_is_the_provider_s_if_it_can_be_retried() -> None:
    for code, fault in ((-9, "ours"), (137, "ours"), (143, "ours"), (None, "ours"), (1, "")):
        error = ErrorInfo(**PeerExited("claude", code).envelope())
        assert attempt.fault_of(None, None, TurnEnded(outcome="failed", error=error), "y") == fault
    full = ErrorInfo(**DiskFull("0 KB are left").envelope())
    assert attempt.fault_of(None, None, TurnEnded(outcome="failed", error=full), "y") == "ours"
    for retryable, fault in ((True, "provider"), (False, "")):
        error = ErrorInfo(code="rate_limited", message="slow down.", retryable=retryable)
        broken = TurnEnded(outcome="failed", error=error)
        assert attempt.of(None, LocalError("x"), broken, "y") == f"slow down: {attempt.ADVICE['rate_limited']}"
        assert attempt.code_of(None, LocalError("x"), broken, "y") == "rate_limited"
        assert attempt.fault_of(None, LocalError("x"), broken, "y") == fault
        assert attempt.fault_of(Cancelled("by ana"), LocalError("x"), broken, "y") == ""
    assert attempt.fault_of(None, None, None, "make test failed") == "verify"
    assert attempt.fault_of(None, None, TurnEnded(outcome="completed"), "") == ""


def test_an_end_without_an_error_has_words_of_its_own_and_advice_is_given_once() -> None:
    assert attempt.of(None, None, None, "") == "the agent ended without saying anything"
    for outcome, words in attempt.ENDED_AS.items():
        ended = TurnEnded(outcome=outcome)  # type: ignore[arg-type]
        assert attempt.of(None, None, ended, "") == words
        assert attempt.code_of(None, None, ended, "") == attempt.AGENT[outcome]
    limited = TurnEnded(outcome="limited", stop_reason="max_tokens")
    assert attempt.of(None, None, limited, "") == "it reached a limit of its turn (max_tokens)"
    advised = f"too long: {attempt.ADVICE['context_overflow']}"
    assert attempt.of_error(ErrorInfo(code="context_overflow", message=advised)) == advised
    assert attempt.of_error(ErrorInfo(code="odd", message="odd.")) == "odd."
    assert attempt.not_verified("make test failed").startswith(
        "its work was not verified: make test failed: `treadle fleet"
    )
