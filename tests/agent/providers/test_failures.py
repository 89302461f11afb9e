import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle.agent.providers.http import (
    from_event,
    from_response,
    from_status,
    message_and_kind,
    retry_after,
    without_key,
)
from treadle.errors import AuthFailed, ContextOverflow, ProviderError, RateLimited


def answer(status: int, body: bytes = b"{}", **headers: str) -> ProviderError:
    return from_response(
        status, {key.replace("_", "-"): value for key, value in headers.items()}, body, provider="acme"
    )


@pytest.mark.parametrize(
    ("body", "message", "kind"),
    [
        (
            b'{"error":{"message":"bad key","type":"invalid_request_error","code":"invalid_api_key"}}',
            "bad key",
            "invalid_api_key",
        ),
        (
            b'{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}',
            "Overloaded",
            "overloaded_error",
        ),
        (
            b'{"error":{"code":429,"message":"Provider returned error","metadata":{"raw":"busy"}}}',
            "Provider returned error: busy",
            "429",
        ),
        (b'{"error":"model not found"}', "model not found", ""),
        (b'{"detail":"Not Found"}', "Not Found", ""),
        (b'{"message":"no"}', "no", ""),
        (b'[{"error":{"message":"listed"}}]', "listed", ""),
        (b"<html><body><h1>502 Bad Gateway</h1></body></html>", "502 Bad Gateway", ""),
        (b"", "no explanation", ""),
        (b"\xff\xfe", "\ufffd\ufffd", ""),
    ],
)
def test_the_services_own_words_are_found(body: bytes, message: str, kind: str) -> None:
    assert message_and_kind(body) == (message, kind)


@given(st.binary(max_size=200))
def test_any_body_gives_some_words(body: bytes) -> None:
    message, _ = message_and_kind(body)
    assert isinstance(message, str)


def test_a_deeply_nested_body_is_survived() -> None:
    assert isinstance(message_and_kind(b"[" * 100_000)[0], str)


def test_kinds_of_failure_are_told_apart() -> None:
    assert isinstance(answer(401), AuthFailed)
    assert isinstance(answer(429), RateLimited)
    assert isinstance(answer(400, b'{"error":{"message":"x","code":"context_length_exceeded"}}'), ContextOverflow)
    assert isinstance(answer(400, b'{"error":{"message":"prompt is too long: 9 tokens > 5 maximum"}}'), ContextOverflow)
    assert not answer(429, b'{"error":{"message":"pay","code":"insufficient_quota"}}').retryable


def test_the_service_may_overrule_our_guess() -> None:
    assert not answer(503, x_should_retry="false").retryable
    assert answer(400, x_should_retry="true").retryable


def test_the_time_to_wait_is_read_in_every_form() -> None:
    assert retry_after({"retry-after": "1.5"}, 0) == 1.5
    assert retry_after({"retry-after-ms": "250", "retry-after": "9"}, 0) == 0.25
    assert retry_after({"retry-after": "Thu, 01 Jan 1970 00:01:40 GMT"}, 70) == 30
    assert retry_after({"retry-after": "Thu, 01 Jan 1970 00:01:40 GMT"}, 700) == 0
    assert retry_after({"retry-after": "soon"}, 0) is None
    assert retry_after({}, 0) is None
    assert answer(429, retry_after="2").retry_after_ms == 2000


def test_an_error_inside_a_stream_is_judged_by_its_code_or_its_words() -> None:
    assert isinstance(from_event({"code": 429, "message": "busy"}, provider="acme"), RateLimited)
    assert from_event({"type": "overloaded_error", "message": "Overloaded"}, provider="acme").retryable
    assert not from_event({"type": "invalid_request_error", "message": "no"}, provider="acme").retryable
    assert isinstance(from_event({"code": "context_length_exceeded", "message": ""}, provider="acme"), ContextOverflow)
    assert "plain" in from_event("plain", provider="acme").message


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


@pytest.mark.parametrize(
    ("code", "judged"), [(399, False), (400, True), (599, True), (600, False), ("429", False), (None, False)]
)
def test_a_code_inside_a_stream_counts_where_it_is_a_status(code: object, judged: bool) -> None:
    error = from_event({"code": code, "message": "m"}, provider="acme")
    assert error.message == (f"acme answered {code}: m" if judged else "acme failed while answering: m")


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after-ms": "-5"}, 0),
        ({"retry-after": "-5"}, 0),
        ({"retry-after-ms": "soon"}, None),
        ({"x-ratelimit-reset": "130"}, 30),
        ({"x-ratelimit-reset": "90"}, 0),
        ({"x-ratelimit-reset": "10000000000"}, 9_999_999_900),
        ({"x-ratelimit-reset": "100000000000"}, 99_999_900),
        ({"x-ratelimit-reset": "later"}, None),
        (
            {
                "anthropic-ratelimit-tokens-reset": "1970-01-01T00:02:10+00:00",
                "anthropic-ratelimit-tokens-remaining": "0",
            },
            30,
        ),
        (
            {
                "anthropic-ratelimit-tokens-reset": "1970-01-01T00:02:10+00:00",
                "anthropic-ratelimit-tokens-remaining": "1",
            },
            None,
        ),
        ({"other-ratelimit-tokens-reset": "1970-01-01T00:02:10+00:00", "other-ratelimit-tokens-remaining": "0"}, None),
        ({"retry-after": "5", "x-ratelimit-reset": "130"}, 5),
    ],
)
def test_the_time_of_a_reset_is_read_where_no_other_is_named(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after(headers, 100) == seconds
