"""Intervals that are right where they can be known."""

from evals.statistics import bootstrap, bootstrap_ratio, sign_test, wilson
from hypothesis import given
from hypothesis import strategies as st


def test_the_interval_of_a_share_is_the_one_in_the_books() -> None:
    low, high = wilson(7, 10)
    assert (round(low, 3), round(high, 3)) == (0.397, 0.892)
    assert wilson(0, 10)[0] == 0.0 and wilson(0, 10)[1] > 0.2
    assert wilson(0, 0) == (0.0, 1.0)


@given(st.integers(0, 50), st.integers(1, 50))
def test_a_share_lies_in_its_interval(passed: int, tried: int) -> None:
    passed = min(passed, tried)
    low, high = wilson(passed, tried)
    assert 0 <= low <= passed / tried + 1e-9 and passed / tried - 1e-9 <= high <= 1


def test_the_bootstrap_is_the_same_each_time_and_holds_the_mean() -> None:
    values = [0.0, 1.0, 1.0, 0.0, 1.0]
    assert bootstrap(values) == bootstrap(values)
    low, high = bootstrap(values)
    assert low < 0.6 < high
    assert bootstrap([0.5] * 4) == (0.5, 0.5) and bootstrap([]) == (0.0, 0.0)


def test_a_ratio_of_sums_is_drawn_in_pairs() -> None:
    assert bootstrap_ratio([(2.0, 1.0), (20.0, 10.0)]) == (2.0, 2.0)
    low, high = bootstrap_ratio([(1.0, 1.0), (3.0, 1.0)])
    assert (low, high) == (1.0, 3.0)
    assert bootstrap_ratio([]) == (0.0, 0.0)


def test_the_sign_test_is_exact() -> None:
    assert sign_test(0, 0) == 1.0 and sign_test(1, 1) == 1.0
    assert sign_test(5, 0) == sign_test(0, 5) == 0.0625
