"""Paths found by name, again and again, while the tree changes."""

import os
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from treadle.io.sandbox.matches import Matches


def named(name: str, root: Path) -> Matches:
    return Matches([str(root)], lambda path: os.path.basename(path) == name)


def test_what_comes_and_goes_is_seen_by_the_next_look(tmp_path: Path) -> None:
    matches = named(".env", tmp_path)
    assert matches.find() == []
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "b" / ".env").touch()
    assert matches.find() == [str(tmp_path / "a" / "b" / ".env")]
    (tmp_path / "a").rename(tmp_path / "c")
    assert matches.find() == [str(tmp_path / "c" / "b" / ".env")]
    (tmp_path / "c" / "b" / ".env").unlink()
    assert matches.find() == []


def test_below_a_directory_that_matches_nothing_more_is_looked_for(tmp_path: Path) -> None:
    (tmp_path / "secrets" / "deep").mkdir(parents=True)
    matches = Matches([str(tmp_path)], lambda path: "secrets" in path)
    assert matches.find() == [str(tmp_path / "secrets")]


def test_links_are_not_followed_into_other_trees(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / ".env").touch()
    os.symlink(tmp_path / "out", tmp_path / "in" / "link")
    assert named(".env", tmp_path / "in").find() == []


def test_a_root_that_is_not_there_holds_nothing(tmp_path: Path) -> None:
    assert Matches([str(tmp_path / "no")], lambda path: True).find() == []


@given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from("abc"), st.booleans()), max_size=12))
def test_the_index_always_says_what_a_fresh_look_would(changes: list[tuple[str, str, bool]]) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as place:
        kept = named("key", Path(place))
        for outer, inner, make in changes:
            file = Path(place) / outer / inner / "key"
            if make:
                file.parent.mkdir(parents=True, exist_ok=True)
                file.touch()
            else:
                file.unlink(missing_ok=True)
            assert kept.find() == named("key", Path(place)).find()
