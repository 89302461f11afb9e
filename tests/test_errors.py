"""The error tree: whose fault, which code, what to do."""

import re

import pytest

from treadle import errors
from treadle.errors import LocalError, PeerExited, RateLimited, RemoteError, TreadleError

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


def test_an_exited_peer_is_quoted() -> None:
    error = PeerExited("the worker", 3, "boom\n", hint="again")
    assert str(error) == "the worker exited with code 3; its last words: boom (again)"
    assert (error.exit_code, error.stderr_tail) == (3, "boom\n")
    assert str(PeerExited("it", None, " \n")) == "it ended, and its exit code is unknown"
    assert str(PeerExited("it", 1, "a" + "b" * 2000)).endswith(": " + "b" * 2000)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in (LocalError, RemoteError)])
def test_the_tree_at_the_top_has_each_error_with_its_code(kind: type[TreadleError]) -> None:
    assert re.search(rf" {kind.__name__} +{kind.code} ", errors.__doc__ or "")
    assert kind.ends_with == (2 if kind is errors.NoModel else 1)
