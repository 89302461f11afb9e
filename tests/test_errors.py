"""The error tree: whose fault, which code, what to do."""

import pytest

from treadle import errors
from treadle.errors import LocalError, MissingExtra, PeerExited, ProviderError, RateLimited, RemoteError, TreadleError

KINDS = [
    k for k in vars(errors).values() if isinstance(k, type) and issubclass(k, TreadleError) and k is not TreadleError
]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_every_error_is_ours_or_the_peers_and_never_both(kind: type[TreadleError]) -> None:
    assert issubclass(kind, LocalError) != issubclass(kind, RemoteError)


def test_the_envelope_has_what_every_wire_reports() -> None:
    error = RateLimited("slow down", provider="p", retry_after_ms=1500, details={"a": 1})
    assert error.envelope() == {
        "code": "rate_limited",
        "message": "slow down",
        "retryable": True,
        "details": {"a": 1},
        "retry_after_ms": 1500,
    }


def test_a_hint_is_part_of_what_a_person_reads() -> None:
    assert str(TreadleError("it broke", hint="turn it off")) == "it broke (turn it off)"
    assert "treadle[screen]" in str(MissingExtra("a picture", "screen"))


def test_an_exited_peer_is_quoted() -> None:
    error = PeerExited("the worker", 3, "boom\n")
    assert "exited with code 3" in str(error) and "boom" in str(error) and error.exit_code == 3


def test_an_error_can_be_retryable_by_itself() -> None:
    assert ProviderError("down", retryable=True).retryable and not ProviderError("down").retryable
