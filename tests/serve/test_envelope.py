"""Every failure has one form; its status says whose fault it was."""

import gzip

import msgspec
import pytest
from starlette.exceptions import HTTPException
from starlette.requests import Request

from treadle import errors
from treadle.fleet.engine.bus import Unreachable
from treadle.serve.envelope import GZIP_FROM, RequestRefused, answer, broken, failure, fitted, not_routed, status_of


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (errors.NotFound("no"), 404),
        (errors.ConfigError("no"), 422),
        (errors.Denied("no"), 409),
        (errors.Busy("no"), 429),
        (errors.MissingExtra("x", "fleet"), 501),
        (Unreachable("away"), 503),
        (errors.TreadleError("what nobody thought of"), 500),
    ],
)
def test_the_status_follows_from_the_kind_of_error(error: errors.TreadleError, status: int) -> None:
    assert status_of(error) == failure(error).status_code == status


def test_a_refused_request_has_its_own_status_code_and_time_to_wait() -> None:
    response = failure(RequestRefused(429, "too_many", "slow down", hint="wait", after=7))
    said = msgspec.json.decode(response.body)
    assert response.media_type == "application/problem+json" and said["type"] == "urn:treadle:problem:too_many"
    assert said["status"] == 429 and said["title"] == "Too Many Requests"
    assert response.status_code == 429 and response.headers["retry-after"] == "7"
    assert said["code"] == "too_many" and "slow down" in said["detail"] and said["retry_after_ms"] == 7000
    assert failure(Unreachable("away")).headers["retry-after"] == "1", "an engine that is away comes back"


def asked(method: str = "GET", path: str = "/x", **headers: str) -> Request:
    given = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    return Request({"type": "http", "method": method, "path": path, "headers": given, "query_string": b""})


def test_what_an_error_knows_is_in_the_problem_and_a_short_pause_is_a_second() -> None:
    response = failure(errors.Busy("full", retry_after_ms=200, details={"queue": 9}))
    problem = msgspec.json.decode(response.body)
    assert problem["retryable"] is True and problem["details"] == {"queue": 9} and problem["code"] == "busy"
    assert response.headers["retry-after"] == "1" and problem["retry_after_ms"] == 200
    refused = failure(RequestRefused(401, "unauthorized", "a token is needed"))
    assert refused.headers["www-authenticate"] == 'Bearer realm="treadle"' and "retry-after" not in refused.headers


@pytest.mark.parametrize(
    ("accepts", "packed"),
    [
        ("gzip", True),
        ("br, gzip;q=0.5", True),
        ("gzip;q=0", False),
        ("gzip; q=0.0", False),
        ("identity", False),
        ("", False),
    ],
)
def test_a_long_answer_is_compressed_for_who_can_read_that(accepts: str, packed: bool) -> None:
    text = "x" * (GZIP_FROM - 2)  # with its quotes, exactly as long as is worth it
    for value, long in ((text, True), (text[1:], False)):
        response = fitted(asked(accept_encoding=accepts), answer(value))
        plain = msgspec.json.encode(value)
        assert (response.headers.get("content-encoding") == "gzip") is (packed and long)
        assert (gzip.decompress(response.body) if packed and long else response.body) == plain
        assert response.headers["content-length"] == str(len(response.body))


async def test_a_path_or_method_that_is_not_there_and_a_fault_of_ours_are_told_apart() -> None:
    lost = await not_routed(asked(path="/nothing"), HTTPException(404))
    problem = msgspec.json.decode(lost.body)
    assert (lost.status_code, problem["code"]) == (404, "not_found") and "'/nothing'" in problem["detail"]
    assert "/openapi.json" in problem["detail"]
    other = await not_routed(asked("PATCH"), HTTPException(405, headers={"Allow": "GET, POST"}))
    problem = msgspec.json.decode(other.body)
    assert (problem["code"], other.headers["allow"]) == ("method_not_allowed", "GET, POST")
    assert problem["detail"] == "PATCH is not possible here, but GET, POST"
    odd = msgspec.json.decode((await not_routed(asked(), HTTPException(418, "no coffee"))).body)
    assert (odd["code"], odd["detail"], odd["status"]) == ("refused", "no coffee", 418)
    ours = await broken(asked(), ValueError("a secret"))
    assert ours.status_code == 500 and b"ValueError" in ours.body and b"a secret" not in ours.body
    assert "retryable" not in msgspec.json.decode(ours.body)
