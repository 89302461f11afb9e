"""Capsules: the size limit, the ids, and the order of hydration."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle.coordination.capsules import Capsules, _in_order, depends_of, split_ids
from treadle.coordination.planning import Planning
from treadle.errors import ConfigError


@pytest.fixture
def capsules(tmp_path: Path) -> Capsules:
    return Capsules(Planning(str(tmp_path / ".planning"), project=str(tmp_path), clock=lambda: 1_781_179_647.0))


def test_a_capsule_has_its_parts_in_their_order(capsules: Capsules) -> None:
    assert capsules.write("w2", "did it", "F1", "sorted", "seed", "a, b,,a") == 9
    assert capsules.show("w2") == (
        "---\nid: w2\ndepends: a,b\nts: 2026-06-11T12:07:27Z\n---\n"
        "WHAT: did it\nWHERE: F1\nDECISION: sorted\nGOTCHA: seed\n"
    )
    capsules.write("w1", "only this")
    assert capsules.show("w1") == "---\nid: w1\ndepends: \nts: 2026-06-11T12:07:27Z\n---\nWHAT: only this\n"


def test_ten_lines_pass_and_eleven_are_refused_before_anything_is_touched(capsules: Capsules) -> None:
    assert capsules.write("w1", "1\n2\n3\n4\n5") == 10
    before = capsules.show("w1")
    with pytest.raises(ConfigError, match="11 lines"):
        capsules.write("w1", "1\n2\n3\n4\n5\n6")
    assert capsules.show("w1") == before


@pytest.mark.parametrize("what", ["", " \n"])
def test_a_capsule_must_say_what_was_done(capsules: Capsules, what: str) -> None:
    with pytest.raises(ConfigError, match="what was done"):
        capsules.write("w1", what)


def test_a_capsule_comes_out_as_it_is_in_its_file_also_with_other_line_ends(capsules: Capsules) -> None:
    capsules.write("base", "one")
    text = "---\r\nid: w1\r\ndepends: base\r\n---\r\nWHAT: x\r\n"
    (Path(capsules.directory) / "w1.md").write_bytes(text.encode())
    assert capsules.hydrate(["w1"]) == capsules.show("base") + "\n" + text
    capsules.write("w2", "a\rb")
    assert "WHAT: a\rb\n" in capsules.show("w2")


@pytest.mark.parametrize("name", ["", "../../evil", "a b", ".hidden", "a/b", "ä", "x" * 129, "a,b"])
def test_an_id_that_could_leave_the_directory_is_refused(capsules: Capsules, name: str) -> None:
    with pytest.raises(ConfigError):
        capsules.write(name, "x")
    with pytest.raises(ConfigError):
        capsules.hydrate([name])


def test_a_circle_is_broken_the_same_way_every_time(capsules: Capsules) -> None:
    capsules.write("a", "a", depends="b")
    capsules.write("b", "b", depends="c")
    capsules.write("c", "c", depends="a")
    assert capsules.deps("a") == ["c", "b", "a"]
    assert capsules.deps("b") == ["a", "c", "b"]
    capsules.write("self", "s", depends="self")
    assert capsules.deps("self") == ["self"]


NODES = "abcdef"


@given(
    st.dictionaries(st.sampled_from(NODES), st.lists(st.sampled_from(NODES), max_size=4)),
    st.lists(st.sampled_from(NODES), min_size=1, max_size=3),
)
def test_the_order_is_the_closure_and_only_circles_break_it(graph: dict[str, list[str]], names: list[str]) -> None:
    needs = {node: graph.get(node, []) for node in NODES}

    def reachable(start: str) -> set[str]:
        found: set[str] = set()
        todo = [start]
        while todo:
            if (node := todo.pop()) not in found:
                found.add(node)
                todo += needs[node]
        return found

    order = _in_order(names, needs)
    assert len(order) == len(set(order))
    assert set(order) == set().union(*map(reachable, names))
    for node in order:
        for need in needs[node]:
            assert order.index(need) < order.index(node) or node in reachable(need)


def test_the_head_of_a_file_made_by_the_original_is_understood() -> None:
    assert depends_of("---\nid: x\ndepends: a, b ,\nts: t\n---\nWHAT: depends: c\n") == ["a", "b"]
    assert depends_of("WHAT: no head\ndepends: a\n") == []
    assert split_ids(" a,,b a ") == ["a", "b"]


def _reach(texts: dict[str, str], names: list[str]) -> set[str]:
    found = set(names)
    todo = list(names)
    for name in todo:
        fresh = [need for need in depends_of(texts[name]) if need not in found]
        found |= set(fresh)
        todo += fresh
    return found
