"""Tables that a person reads: totals, intervals, pairs."""

from evals.results import Configuration, Results
from evals.tables import comparison, pass_interval, table

from tests.evals.test_results import attempt


def results(small: str, *attempts: object) -> Results:
    return Results.of(Configuration(model="m", small=small), attempts)  # type: ignore[arg-type]


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
    two = results("off", attempt("a", True, tokens=50), attempt("b", False, tokens=1), attempt("d", True))
    text = comparison(one, two)
    assert "A: agent=native model=m" in text and "B: agent=native model=m small=off" in text
    assert "passed: A 2, B 1 of 2 tasks; B - A = -50 points" in text
    assert "B better on 0, worse on 1" in text
    assert "(1 tasks that both passed): B / A = 0.50" in text


def test_nothing_in_common_is_said() -> None:
    assert "no task in common" in comparison(results("", attempt("a", True)), results("", attempt("b", True)))
    text = comparison(results("", attempt("a", True)), results("", attempt("a", False)))
    assert "no task was passed by both" in text
