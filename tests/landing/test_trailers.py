"""A landed commit says which orders it has, and nothing that a title says becomes part of that."""

import subprocess

from hypothesis import given, settings
from hypothesis import strategies as st

from treadle.landing import bench
from treadle.landing.bench import OrderTrailers
from treadle.wire.fleet.train import QueuedChange

words = st.text(max_size=40)
names = st.from_regex(r"[a-z0-9-]{1,20}", fullmatch=True)
changes = st.builds(QueuedChange, order=names, commit=names, title=words, goal=words, agent=words, receipt=names)


@settings(max_examples=30)
@given(st.lists(changes, min_size=1, max_size=4))
def test_what_is_written_is_read_again_whatever_titles_and_names_hold(members: list[QueuedChange]) -> None:
    found = bench.read(bench.car_message("train", members, "f" * 40))
    assert [each.order for each in found.orders] == [each.order for each in members]
    assert [each.receipt for each in found.orders] == [each.receipt for each in members]
    assert (found.train, found.tree) == ("train", "f" * 40)


def test_a_title_with_lines_of_its_own_names_no_order() -> None:
    change = QueuedChange(order="one", commit="c", title="x\n\nOrder: two", goal="g\nOrder: three", agent="native")
    assert bench.read(bench.car_message("t", [change], "f" * 40)).orders == (
        OrderTrailers(order="one", goal="g Order: three", agent="native"),
    )


def test_git_finds_the_trailers_too() -> None:
    change = QueuedChange(order="one", commit="c", title="fix it", goal="export", agent="codex (m)", receipt="ab")
    text = bench.car_message("t", [change], "f" * 40)
    done = subprocess.run(["git", "interpret-trailers", "--parse"], input=text, capture_output=True, text=True)
    assert done.stdout.splitlines() == text.rpartition("\n\n")[2].splitlines()
    assert len(done.stdout.splitlines()) == 6


def test_a_commit_of_a_person_names_none() -> None:
    assert bench.read("fix\n\nSigned-off-by: a\n").orders == () and bench.read("").orders == ()


def test_what_a_commit_says_is_exactly_this() -> None:
    one = QueuedChange(order="one", commit="c", title="fix  it:", goal="export", agent="codex (m)", receipt="ab")
    two = QueuedChange(order="two", commit="c")
    about = "Order: one\nGoal: export\nAgent: codex (m)\nReceipt: ab\n"
    assert bench.car_message("t", [one], "f0") == f"Land one: fix it\n\n{about}Train: t\nVerified-Tree: f0\n"
    assert bench.car_message("", [one], "") == f"Merge order one: fix it\n\n{about}"
    assert bench.car_message("t", [two], "") == "Land two\n\nOrder: two\nTrain: t\n"
    both = f"Land 2 orders\n\n- one: fix it\n- two\n\n{about}Order: two\nTrain: t\nVerified-Tree: f0\n"
    assert bench.car_message("t", [one, two], "f0") == both
    long = bench.car_message("t", [QueuedChange(order="one", commit="c", title="x" * 300)], "")
    assert long.startswith(f"Land one: {'x' * 200}\n")


def test_lines_that_are_no_trailers_or_stand_before_any_order_say_nothing() -> None:
    lines = ["Goal: g", "Agent: early", "no trailer", "Order: one", "Other: x", "Agent: a", "Receipt: r", "Train: t"]
    found = bench.read("fix\n\nOrder: earlier\n\n" + "\n".join(lines) + "\n")
    assert found.orders == (OrderTrailers(order="one", agent="a", receipt="r"),)
    assert (found.train, found.tree) == ("t", "")
    assert bench.read("x\n\nVerified-Tree: f0").tree == "f0"
