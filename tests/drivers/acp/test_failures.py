"""How each agent says that something went wrong, as one error."""

from typing import Any

import pytest

from treadle.drivers.acp.options import cancelled, of_call, of_stop
from treadle.io.rpc import CallFailed
from treadle.wire.common.rpc import RpcRefused


@pytest.mark.parametrize(
    ("method", "code", "message", "data", "ours"),
    [
        ("session/prompt", -32000, "Authentication required", None, "auth_failed"),
        ("session/new", -32000, "sign in first", None, "auth_failed"),
        ("session/prompt", 401, "the key is wrong", None, "auth_failed"),
        ("session/prompt", -32603, "Internal error", {"details": "401 Incorrect API key"}, "auth_failed"),
        ("session/new", -32603, "authentication module is missing", None, "remote_error"),
        ("session/prompt", 429, "slow down", None, "rate_limited"),
        ("session/prompt", -32603, "Rate limit reached", None, "rate_limited"),
        ("session/load", -32603, "No previous sessions found", None, "not_found"),
        ("session/new", -32002, "no such thing", None, "not_found"),
        ("session/prompt", -32603, "Internal error: the model is down", None, "provider_error"),
        ("session/set_mode", -32602, "bad mode", None, "remote_error"),
    ],
)
def test_a_refused_call_is_the_error_that_it_means(method: str, code: int, message: str, data: Any, ours: str) -> None:
    error = of_call("agent", CallFailed(method, RpcRefused(id=1, code=code, message=message, data=data)))
    assert error.code == ours and message in error.message and error.message.startswith("agent: ")


@pytest.mark.parametrize(
    ("stop", "text", "failure", "ours"),
    [
        ("end_turn", "fine", None, None),
        ("cancelled", "", "Error:", None),
        ("end_turn", "Error: in my code there was one", None, None),
        ("end_turn", "Error: failed (HTTP 401)", "Error:", "auth_failed"),
        ("end_turn", "Error: 429", "Error:", "rate_limited"),
        ("end_turn", "Error: it broke", "Error:", "provider_error"),
        ("max_tokens", "", None, "limit_reached"),
        ("max_turn_requests", "", None, "max_iterations"),
        ("refusal", "", None, "provider_error"),
        (None, "", None, "remote_error"),
        ("later", "", None, "remote_error"),
    ],
)
def test_how_a_turn_stopped_is_well_or_an_error(stop: Any, text: str, failure: str | None, ours: str | None) -> None:
    error = of_stop("agent", stop, text, failure)
    assert (error.code if error is not None else None) == ours


def test_a_cancelled_turn_says_why() -> None:
    assert (cancelled("enough").code, cancelled("enough").message) == ("cancelled", "enough")


@pytest.mark.parametrize(
    ("method", "code", "ours"),
    [
        ("session/new", 401, "auth_failed"),
        ("session/new", 403, "auth_failed"),
        ("session/new", 429, "rate_limited"),
        ("session/resume", -32603, "not_found"),
        ("session/fork", -32603, "not_found"),
    ],
)
def test_a_code_of_http_is_understood_and_an_error_names_the_call(method: str, code: int, ours: str) -> None:
    error = of_call("agent", CallFailed(method, RpcRefused(id=1, code=code, message="no", data=None)))
    assert error.code == ours and error.details == {"method": method, "code": code}
    if ours == "auth_failed":
        assert error.hint == "sign in to it, or give it its key"


def test_an_error_in_the_answer_is_the_agents_and_an_unknown_stop_is_named() -> None:
    broken = of_stop("agent", "end_turn", "Error: it broke", "Error:")
    assert broken is not None and broken.message == "agent: Error: it broke"
    odd = of_stop("agent", "later", "", None)
    assert odd is not None and odd.details == {"stopReason": "later"}
    assert of_stop("agent", "end_turn", "All well. Error: none", "Error:") is None
