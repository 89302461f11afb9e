"""Who helps when a change is red or conflicts, and in which order."""

import pytest
from msgspec.structs import replace

from treadle.landing import queue, returned
from treadle.landing.returned import FileSides
from treadle.wire.fleet.orders import Spec
from treadle.wire.fleet.train import LeftOut, QueuedChange, ReturnedChange, TrainRecord


@pytest.mark.parametrize(
    ("fields", "reconciler", "helpers"),
    [
        ({}, "", ("author", "author", "reconciler", "person")),
        ({"on_red": "reconciler"}, "", ("reconciler", "person")),
        ({"on_red": "person"}, "codex", ("person",)),
        ({"on_red": "drop"}, "codex", ()),
        ({"agent": "null"}, "", ("person",)),
        ({"agent": "null"}, "codex", ("reconciler", "person")),
    ],
)
def test_who_helps_follows_from_the_order(fields: dict[str, str], reconciler: str, helpers: tuple[str, ...]) -> None:
    assert returned.helpers(Spec(id="a", task="t", **fields), reconciler) == helpers  # type: ignore[arg-type]


def test_what_was_sent_back_keeps_its_place_its_count_and_what_was_tried() -> None:
    spec = Spec(id="a", task="t")
    train = TrainRecord(repository="r", branch="main", tip="t0")
    train = queue.joined(train, QueuedChange(order="a", commit="c0", base="b0", at=1.0))
    seen = []
    for number, order in enumerate("bcd"):
        name = train.queue[0].order
        train = queue.left_out(train, LeftOut(order=name, kind="red", why="its check failed twice", at=9.0))
        entry = returned.waiting(train)
        assert entry is not None and entry.first == "a" and entry.tries == number
        to = returned.next_helper(entry, spec, "")
        assert to is not None
        seen.append(to)
        train = returned.sent(train, entry, to, order, f"t{number}")
        train = queue.joined(train, QueuedChange(order=order, commit=f"c{order}", base="elsewhere", at=8.0))
        (change,) = train.queue
        assert (change.order, change.first, change.base, change.at) == (order, "a", f"t{number}", 1.0)
        assert train.back == ()
    assert seen == ["author", "author", "reconciler"]
    train = queue.left_out(train, LeftOut(order="d", kind="red", why="its check failed twice", at=9.0))
    (entry,) = train.back
    assert returned.next_helper(entry, spec, "") == "person" and len(entry.tried) == 6
    train = returned.sent(train, entry, "person", "q", "t9")
    train = returned.answered(train, train.back[0], "try this")
    assert returned.next_helper(train.back[0], spec, "") == "author" and train.back[0].words == "try this"


def conflicts(train: TrainRecord, order: str) -> TrainRecord:
    out = LeftOut(order=order, kind="conflict", why="it conflicts in hot.txt", at=9.0, files=("hot.txt",))
    return queue.left_out(train, out)


def test_of_many_that_append_to_one_file_all_land_and_none_has_used_its_tries_up() -> None:
    """Of all that was helped on the same tip one can land; the others conflict again."""
    spec, many = Spec(id="a", task="t"), 12
    train = TrainRecord(repository="r", branch="main", tip="0")
    for number in range(many):
        train = queue.joined(train, QueuedChange(order=f"o{number}", commit=f"c{number}", at=float(number)))
        train = conflicts(train, f"o{number}")
    landed: list[str] = []
    helps = 0
    while train.back:
        while (entry := returned.waiting(train)) is not None:
            assert returned.next_helper(entry, spec, "") == "author"
            helps += 1
            train = returned.sent(train, entry, "author", f"h{helps}", str(len(landed)))
        oldest = min((each for each in train.back if each.by), key=lambda each: each.at)
        helped = [each.by for each in train.back if each.by]
        for by in helped:
            train = queue.joined(train, QueuedChange(order=by, commit=f"c{by}", at=99.0))
        landed.append(oldest.first)
        train = queue.removed(train, [oldest.by])
        for by in helped:
            train = conflicts(train, by) if by != oldest.by else train
    assert landed == [f"o{number}" for number in range(many)]
    assert helps == many + (many - 1), "all at once the first time, then one after the other"


def test_a_conflict_elsewhere_waits_for_no_one_and_a_red_change_counts_its_tries() -> None:
    train = TrainRecord(repository="r", branch="main", tip="0")
    for number, file in enumerate(("hot.txt", "other.txt")):
        change = QueuedChange(order=f"o{number}", commit="c", at=float(number), files=(file,), tried=("once",), tries=1)
        train = queue.joined(train, change)
        out = LeftOut(order=f"o{number}", kind="conflict", why="it conflicts", at=9.0, files=(file,))
        train = queue.left_out(train, out)
        entry = returned.waiting(train)
        assert entry is not None and (entry.order, entry.tries) == (f"o{number}", 0)
        train = returned.sent(train, entry, "author", f"h{number}", "0")
    red = QueuedChange(order="red", commit="c", files=("hot.txt",), tried=("once",), tries=1)
    train = queue.left_out(queue.joined(train, red), LeftOut(order="red", kind="red", why="red", at=9.0))
    entry = returned.waiting(train)
    assert entry is not None and (entry.order, entry.tries) == ("red", 1)


ENTRY = ReturnedChange(order="b", first="a", commit="c0", base="b0", kind="red", why="it was red", at=3.0, tries=1)


def back(*entries: ReturnedChange) -> TrainRecord:
    return TrainRecord(repository="r", branch="main", tip="t0", back=entries)


def test_what_a_helper_leaves_is_where_the_next_begins_and_a_person_starts_the_count_anew() -> None:
    other = replace(ENTRY, first="other", order="other")
    train = back(other, replace(ENTRY, to="author", by="h", tip="t1", words="before"))
    entry = train.back[1]
    made = returned.unhelped(train, entry, "h", "c9", "it gave up")
    assert made.back == (
        other,
        replace(entry, order="h", commit="c9", base="t1", by="", tried=("author (h): it gave up",)),
    )
    made = returned.unhelped(train, entry, "h", "", "it gave up")
    assert (made.back[1].commit, made.back[1].base, made.back[1].by) == ("c0", "b0", "")
    again = returned.answered(train, entry, "try this")
    assert again.back == (other, replace(entry, by="", tries=0, words="try this"))
    sent = returned.sent(again, again.back[1], "reconciler", "h2", "t2")
    assert sent.back == (other, replace(entry, to="reconciler", by="h2", tip="t2", tries=1, words=""))
    asked = returned.sent(train, replace(entry, to="person"), "author", "h3", "t3")
    assert asked.back[1].tries == ENTRY.tries, "what a person sends on is no further try"
    assert returned.renamed(train, replace(entry, by="h4")).back == (other, replace(entry, by="h4"))
    assert returned.closed(train, entry).back == (other,)


@pytest.mark.parametrize("name", ["b", "a", "h"])
def test_an_order_is_found_by_its_own_name_by_the_first_and_by_who_helps(name: str) -> None:
    entry, other = replace(ENTRY, by="h"), replace(ENTRY, order="x", first="y", by="z")
    assert returned.of(back(entry, other), name) == [entry]
    assert returned.without(back(entry, other), name).back == (other,)


def test_a_helpers_work_takes_the_place_of_what_was_sent_back() -> None:
    entry = replace(ENTRY, to="author", by="h", tip="t1", files=("f",), tried=("once",))
    other = replace(ENTRY, order="x", first="y", by="z")
    train = back(other, entry)
    left, change = returned.taken_up(train, QueuedChange(order="h", commit="c2", at=50.0))
    assert left.back == (other,)
    assert change == QueuedChange(
        order="h",
        commit="c2",
        base="t1",
        first="a",
        tries=1,
        at=3.0,
        tried=("once", "author (h) changed it"),
        files=("f",),
    )
    for name in ("a", "b"):
        again = QueuedChange(order=name, commit="c3")
        assert returned.taken_up(train, again) == (replace(train, back=(other,)), again)
    unknown = QueuedChange(order="new", commit="c3")
    assert returned.taken_up(train, unknown) == (train, unknown)


def test_what_a_person_agrees_to_keeps_its_check_and_what_was_agreed_to_before() -> None:
    queued = QueuedChange(order="a", commit="c", verify="make strict", may_change=("one.py",))
    out = LeftOut(order="a", kind="judge", why="it changes two.py", at=1.0, files=("two.py",))
    entry, ordered = returned.begun(queued, out), QueuedChange(order="a", commit="c", verify="make")
    allowed, again = returned.allowed(ordered, entry), returned.as_it_is(ordered, entry)
    assert (allowed.verify, allowed.may_change) == ("make strict", ("one.py", "two.py"))
    assert (again.verify, again.may_change) == ("make strict", ("one.py",))


def test_of_those_that_conflict_in_one_file_again_one_at_a_time_is_helped() -> None:
    hot = replace(ENTRY, files=("hot",), tried=("once",))
    older = replace(ENTRY, first="older", at=1.0)
    assert returned.waiting(back()) is None
    assert returned.waiting(back(hot, older)) == older
    assert returned.waiting(back(replace(older, by="h"))) is None, "it is being helped"
    helped = replace(ENTRY, first="z", by="h", to="author", files=("hot",))
    assert returned.waiting(back(helped, hot)) is None
    assert returned.waiting(back(helped, replace(hot, tried=()))) is not None, "the first time it is helped at once"
    assert returned.waiting(back(replace(helped, to="person"), hot)) == hot, "no one waits for a person"
    queued = QueuedChange(order="q", commit="c", files=("hot",))
    assert returned.waiting(replace(back(hot), queue=(queued,))) is None


@pytest.mark.parametrize(
    ("agent", "reconciler", "helper"),
    [("codex", "", "author"), ("codex", "claude", "author"), ("null", "claude", "reconciler"), ("null", "", None)],
)
def test_when_a_person_wants_it_tried_again_the_author_does_or_who_can(
    agent: str, reconciler: str, helper: str | None
) -> None:
    spec = Spec(id="a", task="t", agent=agent)
    assert returned.next_helper(replace(ENTRY, to="person", tries=9), spec, reconciler) == helper
    assert returned.next_helper(replace(ENTRY, tries=9), spec, reconciler) is None


def test_who_helps_is_counted_by_the_tries_until_all_have_tried() -> None:
    spec = Spec(id="a", task="t")
    found = [returned.next_helper(replace(ENTRY, tries=tries), spec, "") for tries in range(5)]
    assert found == ["author", "author", "reconciler", "person", None]


SIDE = FileSides(
    path="hot.txt",
    kind="add/add",
    base="1" * 40,
    tip="2" * 40,
    change="3" * 40,
    orders=("x", "y"),
    branch="+of the branch",
    order="+of the order",
)
IN_CONFLICT = f"""In conflict: hot.txt (add/add). On the branch it was changed by:
- x was for this
- y

What the branch did to it:
+of the branch

What a did to it:
+of the order

Each side as a file: `git show {"1" * 12}:hot.txt` before both, `git show {"2" * 12}:hot.txt` on the branch, \
`git show {"3" * 12}:hot.txt` by a."""
INTENTS = {"x": "x was for this"}


def test_a_person_sees_on_one_screen_what_was_tried_and_what_an_answer_does() -> None:
    entry = replace(ENTRY, output="the end of it", tried=("author (h): no", "author (i): no"))
    assert returned.for_person(entry, "main", "make", "Title", [], {}).split("\n\n") == [
        "a (Title) cannot land on main: it was red.",
        "Tried so far:\n- author (h): no\n- author (i): no",
        "The check, `make`, said:\nthe end of it",
        "Allow: its agent tries again, with what you write here. Deny: it is left out; its work is kept.",
    ]
    alone = "It was made without an agent. `treadle fleet diff a` shows its work."
    text = returned.for_person(replace(ENTRY, forge=True), "main", "make", "Title", [], {}, "reconciler")
    assert text.split("\n\n") == [
        "a (Title) cannot land on main: it was red.",
        alone,
        "There it was said:\n(nothing)",
        "Allow: the reconciler tries, with what you write here. Deny: it is left out; its work is kept.",
    ]
    asked = returned.for_person(ENTRY, "main", "make", "Title", [SIDE], INTENTS, None).split("\n\n")
    assert asked[1] == alone and "\n\n".join(asked[2:-1]) == IN_CONFLICT
    assert asked[-1].startswith("No agent can be told what to do") and "once more as it is" in asked[-1]
