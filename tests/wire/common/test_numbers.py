"""Numbers in other programs' JSON: what is none is not guessed at."""

from typing import Any

import pytest

from treadle.wire.common.jsontext import amount, count


@pytest.mark.parametrize(("value", "number"), [(0, 0), (7, 7), (10**30, 10**30)])
def test_a_count_is_a_whole_number(value: Any, number: int) -> None:
    assert count(value) == number


@pytest.mark.parametrize("value", [True, False, -1, 1.0, "7", None, [], {}])
def test_what_is_no_count_is_0_and_true_is_none(value: Any) -> None:
    assert count(value) == 0 and type(count(value)) is int


@pytest.mark.parametrize(("value", "number"), [(0, 0.0), (0.5, 0.5), (3, 3.0)])
def test_an_amount_may_be_a_fraction(value: Any, number: float) -> None:
    assert amount(value) == number


@pytest.mark.parametrize("value", [True, False, -0.1, float("nan"), "1", None])
def test_what_is_no_amount_is_unknown_and_never_0(value: Any) -> None:
    assert amount(value) is None
