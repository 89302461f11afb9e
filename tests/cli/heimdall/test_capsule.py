"""heimdall-capsule: what was done, in at most ten lines, for the agents that build on it."""

import json

from tests.coordination.conftest import Run


def test_a_capsule_is_written_shown_and_given_with_what_it_builds_on(heimdall: Run) -> None:
    assert heimdall("capsule", "write", "w1", "--what", "one").stdout.startswith("wrote capsule w1 (")
    assert heimdall("capsule", "write", "w2", "--what", "two", "--depends", "w1").returncode == 0
    assert heimdall("capsule", "deps", "w2").stdout == "w1\nw2\n"
    assert heimdall("capsule", "list").stdout == "w1\nw2\n"
    assert json.loads(heimdall("capsule", "list", "--json").stdout) == ["w1", "w2"]
    one, two = (heimdall("capsule", "show", name).stdout for name in ("w1", "w2"))
    whole = heimdall("capsule", "hydrate", "w2").stdout
    assert whole.index(one.strip()) < whole.index(two.strip())


def test_a_budget_leaves_out_what_does_not_fit_and_names_it(heimdall: Run) -> None:
    heimdall("capsule", "write", "w1", "--what", "one " * 100)
    heimdall("capsule", "write", "w2", "--what", "two", "--depends", "w1")
    told = heimdall("capsule", "hydrate", "w2", "--budget", "40").stdout
    assert "two" in told and "one one" not in told and "w1" in told


def test_what_is_typed_wrongly_is_refused(heimdall: Run) -> None:
    for words in (["write", "w1"], ["write", "w1", "--what", ""], ["hydrate"], ["hydrate", "w1", "--budget", "0"]):
        assert heimdall("capsule", *words).returncode == 2, words
    assert heimdall("capsule", "show", "w1").returncode == 1


def test_each_field_is_kept_and_an_empty_one_is_refused(heimdall: Run) -> None:
    fields = ["--what", "W", "--where", "src", "--decision", "D", "--gotcha", "G", "--depends", ""]
    assert heimdall("capsule", "write", "w1", *fields).returncode == 0
    shown = heimdall("capsule", "show", "w1").stdout
    assert all(word in shown for word in ("W", "src", "D", "G"))
    refused = heimdall("capsule", "write", "w2", "--what", "x", "--where", "")
    assert refused.returncode == 2 and "--where needs a value that is not empty" in refused.stderr
    assert heimdall("capsule", "list").stdout == "w1\n"
    for budget in ("0", "x", "-1", "٣", ""):
        refused = heimdall("capsule", "hydrate", "w1", "--budget", budget)
        assert refused.returncode == 2 and "--budget is a number of tokens" in refused.stderr
    assert (
        heimdall("capsule", "hydrate", "w1", "--budget", "9" * 30).stdout == heimdall("capsule", "hydrate", "w1").stdout
    )
    assert heimdall("capsule", "remove", "w1").stdout == "removed capsule w1\n"
    assert heimdall("capsule", "list").stdout == "" and heimdall("capsule", "remove", "w1").returncode == 1
    for words in ([], ["show"], ["deps"], ["list", "x"], ["write", "a", "b", "--what", "x"]):
        assert heimdall("capsule", *words).returncode == 2, words
