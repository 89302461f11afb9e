"""How each agent says that something went wrong, as one error."""

from typing import Any

import pytest

from treadle.drivers.acp.options import of_call
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
        ("session/set_mode", -32602, "bad mode", {"detail": None}, "remote_error"),
    ],
)
def test_a_refused_call_is_the_error_that_it_means(method: str, code: int, message: str, data: Any, ours: str) -> None:
    error = of_call("agent", CallFailed(method, RpcRefused(id=1, code=code, message=message, data=data)))
    assert error.code == ours and error.message.startswith(f"agent: {message}") and "None" not in error.message


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
