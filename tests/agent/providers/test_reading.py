from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.agent.pixels import png
from treadle.agent.messages import Image, ModelRequest
from treadle.agent.providers.http import (
    MOST,
    arguments,
    count,
    cut,
    data_url,
    decode,
    dollars,
    effort_of,
    tables,
)
from treadle.errors import ProviderError

TABLES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["a", "b", "cost"]), inner, max_size=3),
)


@given(TABLES)
def test_whatever_a_service_puts_there_a_count_is_a_count(table: object) -> None:
    assert count(table, "a", "b") >= 0
    assert dollars(table) is None or isinstance(dollars(table), float)


@pytest.mark.parametrize("lie", [float("inf"), float("nan"), 1e308, 1 << 64, MOST, -1, "7", True])
def test_what_cannot_be_a_count_is_none(lie: object) -> None:
    assert count({"a": lie}, "a") == 0


def test_a_count_is_found_through_tables() -> None:
    assert count({"a": {"b": 7}}, "a", "b") == 7
    assert dollars({"cost": 1}) == 1.0 and dollars({"cost": True}) is None and dollars({"cost": "1"}) is None
    assert count({"a": 0}, "a") == 0 and count({"a": MOST - 1}, "a") == MOST - 1 and count({"a": 7}, "a", "b") == 0


@pytest.mark.parametrize(
    ("effort", "tokens", "wanted"),
    [
        (None, None, "medium"),
        ("high", None, "high"),
        ("high", 0, "none"),
        (None, 4_000, "low"),
        (None, 4_001, "medium"),
        (None, 12_000, "medium"),
        (None, 12_001, "high"),
    ],
)
def test_how_hard_to_think_is_known_also_by_a_number_of_tokens(effort: Any, tokens: int | None, wanted: str) -> None:
    assert effort_of(ModelRequest(system="", messages=(), reasoning=effort, thinking_tokens=tokens)) == wanted


def test_only_tables_of_a_list_count_and_only_images_that_are_there_are_shown() -> None:
    assert tables([{"a": 1}, 3, None]) == [{"a": 1}] and tables({"a": 1}) == tables(None) == []
    image = Image(name="i", media_type="image/png", size=1, width=1, height=1)
    assert data_url(image, {}) is None
    assert (data_url(image, {"i": png()}) or "").startswith("data:image/png;base64,")
    assert cut("acme").retryable and cut("acme").provider == "acme"


@given(st.text())
def test_arguments_to_show_again_are_always_an_object(text: str) -> None:
    assert isinstance(arguments(text), dict)


def test_arguments_that_are_an_object_are_kept() -> None:
    assert arguments('{"a": [1]}') == {"a": [1]}
    assert arguments("[1]") == {} == arguments("[" * 100_000)


@given(st.binary(max_size=60))
def test_an_event_is_decoded_or_refused_with_a_clear_error(data: bytes) -> None:
    decoder = msgspec.json.Decoder(dict[str, str])
    try:
        assert isinstance(decode(decoder, data, "acme"), dict)
    except ProviderError as error:
        assert error.retryable and "acme sent an event that cannot be read" in error.message


def test_a_lone_surrogate_is_mended() -> None:
    assert decode(msgspec.json.Decoder(dict[str, str]), b'{"a":"x\\udc00"}', "acme") == {"a": "x?"}
    with pytest.raises(ProviderError):
        decode(msgspec.json.Decoder(dict[str, str]), b'{"a":"\\u', "acme")
