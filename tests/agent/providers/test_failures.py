import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle.agent.providers.http import (
    from_status,
    message_and_kind,
    without_key,
)
from treadle.errors import AuthFailed, ContextOverflow, ProviderError, RateLimited


@given(st.binary(max_size=200))
def test_any_body_gives_some_words(body: bytes) -> None:
    message, _ = message_and_kind(body)
    assert isinstance(message, str)


def test_a_deeply_nested_body_is_survived() -> None:
    assert isinstance(message_and_kind(b"[" * 100_000)[0], str)


def test_a_key_that_a_service_repeats_is_not_in_the_error() -> None:
    with pytest.raises(AuthFailed) as failed, without_key("a-key-of-no-known-shape"):
        raise from_status(401, "wrong key: 'a-key-of-no-known-shape'", provider="p", kind="a-key-of-no-known-shape")
    assert "a-key" not in f"{failed.value} {failed.value.args} {failed.value.envelope()}"
    assert "p answered 401: wrong key: '[redacted]'" in str(failed.value)
    with pytest.raises(ProviderError, match="as it was"), without_key(""):
        raise ProviderError("as it was")


@pytest.mark.parametrize(
    ("status", "message", "kind", "retryable"),
    [
        (403, "no", AuthFailed, False),
        (413, "prompt is too long", ContextOverflow, False),
        (422, "prompt is too long", ContextOverflow, False),
        (404, "prompt is too long", ProviderError, False),
        (499, "x", ProviderError, False),
        (500, "x", ProviderError, True),
        (500, "image input is not supported", ProviderError, False),
        (429, "your credit balance is low", RateLimited, False),
        (429, "slow down", RateLimited, True),
    ],
)
def test_a_status_is_judged_with_its_words(
    status: int, message: str, kind: type[ProviderError], retryable: bool
) -> None:
    error = from_status(status, message, provider="acme", hint="h")
    assert type(error) is kind and error.retryable is retryable and error.hint == "h"
    assert (error.message, error.status, error.provider) == (f"acme answered {status}: {message}", status, "acme")
    assert error.details == {"status": status} and error.retry_after_ms is None
    typed = from_status(status, message, provider="acme", kind="t", retry_after=-1)
    assert typed.details == {"status": status, "type": "t"} and typed.retry_after_ms == 0
