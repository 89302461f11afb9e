"""Results that a later run is compared with: saved, loaded, in tables, with their intervals."""

from pathlib import Path

import pytest
from evals.results import Attempt, Configuration, Results, load
from evals.statistics import bootstrap, bootstrap_ratio, sign_test, wilson
from evals.tables import comparison, pass_interval, table
from hypothesis import given
from hypothesis import strategies as st

from treadle.errors import ConfigError


def attempt(task: str, passed: bool, number: int = 1, tokens: int = 100) -> Attempt:
    return Attempt(
        task=task, size="tiny", kind="fix", number=number, passed=passed, input_tokens=tokens, outcome="completed"
    )


def test_what_is_saved_is_loaded(tmp_path: Path) -> None:
    results = Results.of(Configuration(model="m", brief="delta"), [attempt("a", True)])
    results.save(tmp_path / "deep" / "r.json")
    assert load(tmp_path / "deep" / "r.json") == results
    assert results.configuration.label == "agent=native model=m brief=delta" and results.cores > 0


def test_what_holds_no_results_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    with pytest.raises(ConfigError, match="cannot read"):
        load(path)
    for content, why in (("{}", "holds no results"), ('{"format": 99}', "format 99")):
        path.write_text(content)
        with pytest.raises(ConfigError, match=why):
            load(path)


def results(brief: str, *attempts: object) -> Results:
    return Results.of(Configuration(model="m", brief=brief), attempts)  # type: ignore[arg-type]


def test_a_table_has_each_task_and_the_total_and_says_why_one_failed() -> None:
    text = table(results("", attempt("a", True), attempt("b", False)))
    lines = text.splitlines()
    assert lines[1].startswith("a") and "1/1" in lines[1]
    assert lines[3].startswith("all") and "1/2" in lines[3] and "?" in lines[3]
    assert "agent=native model=m" in text and "  b: " in text


def test_repeated_runs_of_several_tasks_are_drawn_by_task() -> None:
    same = [attempt(name, True, number) for name in "ab" for number in (1, 2)]
    assert pass_interval(same) == (1.0, 1.0)
    assert pass_interval(same[:2])[0] < 0.5


def test_a_comparison_is_in_pairs_and_counts_tokens_only_where_both_passed() -> None:
    one = results("", attempt("a", True, tokens=100), attempt("b", True, tokens=900), attempt("c", True))
    two = results("delta", attempt("a", True, tokens=50), attempt("b", False, tokens=1), attempt("d", True))
    text = comparison(one, two)
    assert "A: agent=native model=m" in text and "B: agent=native model=m brief=delta" in text
    assert "passed: A 2, B 1 of 2 tasks; B - A = -50 points" in text
    assert "B better on 0, worse on 1" in text
    assert "(1 tasks that both passed): B / A = 0.50" in text


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
