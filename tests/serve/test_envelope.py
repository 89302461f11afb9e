"""Every failure has one form; its status says whose fault it was."""

import msgspec
import pytest

from treadle import errors
from treadle.fleet.engine.bus import Unreachable
from treadle.serve.envelope import RequestRefused, failure, status_of


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
