import pytest

from treadle.agent.providers.known import Price, cost
from treadle.events import Usage


def test_an_unknown_price_is_not_free() -> None:
    assert cost(Usage(input_tokens=1), None) is None


def test_every_bucket_has_its_price() -> None:
    usage = Usage(input_tokens=1_000_000, output_tokens=100_000, cache_read_tokens=10_000, cache_write_tokens=1_000)
    price = Price(input=3, output=15, cache_read=0.3, cache_write=3.75)
    assert cost(usage, price) == pytest.approx(3 + 1.5 + 0.003 + 0.00375)


def test_one_bucket_without_a_price_makes_the_whole_unknown() -> None:
    assert cost(Usage(input_tokens=1, cache_read_tokens=1), Price(input=1, output=1)) is None
    assert cost(Usage(input_tokens=1_000_000), Price(input=1, output=1)) == 1.0


def test_no_tokens_cost_nothing_and_each_kind_counts_by_itself() -> None:
    price = Price(input=1, output=2, cache_read=4, cache_write=8)
    assert cost(Usage(), price) == 0.0
    for field, each in {"input_tokens": 1, "output_tokens": 2, "cache_read_tokens": 4, "cache_write_tokens": 8}.items():
        assert cost(Usage(**{field: 1_000_000}), price) == each  # type: ignore[arg-type]
    assert cost(Usage(cache_write_tokens=1), Price(input=1, output=1, cache_read=1)) is None
