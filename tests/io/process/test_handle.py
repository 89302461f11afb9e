"""A process and its keeper: one for all trees, begun early or with the first."""

from tests.io.process.trees import output
from treadle.io.process import table
from treadle.io.process.handle import own


def test_one_keeper_serves_all_trees_of_a_process(mark: str) -> None:
    output(["true"])
    keeper = own.pid
    output(["true"])
    assert own.pid == keeper
    while table.descendants(keeper):
        pass  # the reapers end a moment after their trees; the test's own timeout bounds this


def test_a_keeper_that_was_begun_before_the_first_tree_serves_it(mark: str) -> None:
    own.begin()
    keeper = own.pid
    assert keeper and output(["echo", "served"]) == (b"served\n", 0)
    assert own.pid == keeper
