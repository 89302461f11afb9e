"""Who goes first among orders that wait: fair between projects, then between those who submit."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle.fleet.schedule.book import FairLine, Turns, project_of
from treadle.wire.fleet.orders import Spec


def spec(name: str, project: str = "a", by: str = "ana") -> Spec:
    return Spec(id=name, task="t", project=project, by=by)


def place(line: FairLine, specs: dict[str, Spec]) -> str:
    name = next(line.names())
    line.remove(name)
    line.placed(specs[name])
    return name


def test_ten_orders_of_one_project_delay_the_first_of_another_by_one() -> None:
    line = FairLine()
    specs = {name: spec(name, name[0]) for name in [f"a{number}" for number in range(10)] + ["b0", "b1", "b2"]}
    for name in list(specs)[:10]:
        line.add(specs[name])
    assert place(line, specs) == "a0"
    for name in ("b0", "b1", "b2"):
        line.add(specs[name])
    placed = [place(line, specs) for _ in range(12)]
    assert placed == ["b0", "a1", "b1", "a2", "b2", "a3", "a4", "a5", "a6", "a7", "a8", "a9"]


def test_within_a_project_submitters_take_turns_and_one_that_is_tried_again_goes_first() -> None:
    line = FairLine()
    specs = {name: spec(name, by=name[0]) for name in ("x0", "x1", "x2", "y0", "x3")}
    for name in ("x0", "x1", "x2", "y0"):
        line.add(specs[name])
    line.add(specs["x3"], first=True)
    assert list(line.names()) == ["x3", "y0", "x0", "x1", "x2"]


def test_who_comes_back_has_saved_up_nothing() -> None:
    line = FairLine()
    specs = {f"{project}{number}": spec(f"{project}{number}", project) for project in "ab" for number in range(20)}
    for number in range(20):
        line.add(specs[f"a{number}"])
    for _ in range(10):
        place(line, specs)
    for number in range(20):
        line.add(specs[f"b{number}"])
    assert Counter(place(line, specs)[0] for _ in range(8)) == {"a": 4, "b": 4}


@given(st.lists(st.tuples(st.sampled_from("add remove place first".split()), st.integers(0, 30))))
def test_nothing_is_lost_or_doubled_and_no_project_is_passed_over(steps: list[tuple[str, int]]) -> None:
    line, known, waited = FairLine(), dict[str, Spec](), Counter[str]()
    for what, number in steps:
        name = f"o{number}"
        if what in ("add", "first") and name not in line:
            known[name] = spec(name, f"p{number % 3}", f"s{number % 2}")
            line.add(known[name], first=what == "first")
        elif what == "remove":
            line.remove(name)
        elif what == "place" and len(line):
            waiting = {known[each].project for each in line.names()}
            chosen = known[place(line, known)].project
            waited.update(waiting - {chosen})
            waited[chosen] = 0
            assert max(waited.values()) <= 3, "a project waits for more than one order of each other one"
            waited = Counter({project: count for project, count in waited.items() if project in waiting})
        names = list(line.names())
        assert len(names) == len(set(names)) == len(line) and all(each in line for each in names)


def test_a_line_knows_what_is_in_it_and_gives_no_more_of_one_submitter_than_asked() -> None:
    line = FairLine()
    specs = [spec("x0", by="x"), spec("x1", by="x"), spec("y0", by="y"), spec("z0", "b", by="x")]
    for each in specs:
        line.add(each)
    assert len(line) == 4 and "x0" in line and "no" not in line
    assert list(line.names(1)) == ["x0", "z0", "y0"] and list(line.names()) == [
        "x0",
        "z0",
        "y0",
        "x1",
    ]
    line.remove("no")
    for name in ("x0", "x1"):
        line.remove(name)
    assert list(line.names()) == ["y0", "z0"] and len(line) == 2


def test_an_order_without_a_project_takes_turns_with_its_repository() -> None:
    assert project_of(Spec(id="a", task="t", root="/r")) == "/r"
    assert project_of(Spec(id="a", task="t", root="/r", project="p")) == "p"


def test_who_waits_for_nothing_and_owes_nothing_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("treadle.fleet.schedule.book.FORGET", 2)
    turns = Turns()
    for who in ("a", "b", "c"):
        turns.comes(who)
    turns.served("b")
    turns.forget({"a": 1})
    assert turns._served == {"a": 0.0, "b": 1.0, "c": 0.0}, "three are not too many beside one that waits"
    turns.forget({})
    assert turns._served == {"b": 1.0}
    line, specs = FairLine(), {f"o{n}": spec(f"o{n}", f"p{n}") for n in range(5)}
    for each in specs.values():
        line.add(each)
    for _ in range(5):
        place(line, specs)
    assert len(line._submitters) <= 3 and len(line) == 0


@pytest.mark.parametrize("lane", ["project", "by"])
def test_who_was_served_once_and_comes_back_after_others_gets_no_row_of_turns(lane: str) -> None:
    line, specs = FairLine(), dict[str, Spec]()
    for who in "ab":
        for number in range(12):
            name = f"{who}{number}"
            specs[name] = spec(name, **{"project": "p", "by": "ana", lane: who})
    line.add(specs["b0"])
    assert place(line, specs) == "b0"
    for number in range(12):
        line.add(specs[f"a{number}"])
    for _ in range(6):
        place(line, specs)
    for number in range(1, 12):
        line.add(specs[f"b{number}"])
    assert Counter(place(line, specs)[0] for _ in range(6)) == {"a": 3, "b": 3}
