"""What a git inside a sandbox says: a listing that cannot be a repository's state is refused, and never guessed at."""

import os
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle.errors import Cancelled
from treadle.io import tasks
from treadle.workspace import private_git
from treadle.workspace.private_git import (
    DEEPEST,
    MOST_STASHES,
    BadListing,
    Staged,
    read_entries,
    read_listing,
    ref_files,
)

ONE, TWO = "1" * 40, "2" * 40


def listed(**files: Any) -> dict[str, bytes]:
    return {"head": b"refs/heads/main\n", **{name: each.encode() for name, each in files.items()}}


def test_a_listing_has_the_branch_its_refs_and_its_entries() -> None:
    index = f"H 100644 {ONE} 0\ta b\0S 100755 {TWO} 0\tleft/out\0"
    found = read_listing(
        listed(refs=f"{ONE} refs/heads/main \n{TWO} refs/remotes/o/HEAD refs/remotes/o/main\n", index=index)
    )
    assert found.at("refs/heads/main") == ONE and found.at(TWO) == TWO and found.at("refs/heads/none") is None
    assert found.refs["refs/remotes/o/HEAD"] == "ref: refs/remotes/o/main"
    assert found.entries == {b"a b": Staged("100644", ONE), b"left/out": Staged("100755", TWO)}
    assert (found.skipped, found.conflicts, found.unfinished) == (frozenset({b"left/out"}), (), ())


def test_an_index_with_conflicts_is_unfinished_whatever_else_it_says() -> None:
    found = read_listing(listed(index=f"100644 {ONE} 2\tf\0"))
    assert found.conflicts == ((b"f", Staged("100644", ONE), "2"),) and found.entries == {}
    assert found.unfinished == ("conflicts",)
    assert read_listing(listed(unfinished="MERGE_HEAD made-up")).unfinished == ("MERGE_HEAD",)
    assert read_listing(listed(unfinished="MERGE_HEAD", index=f"100644 {ONE} 2\tf\0")).unfinished == ("MERGE_HEAD",)


def test_a_head_without_a_branch_is_a_commit_and_other_files_are_left_out() -> None:
    found = read_listing({"head": ONE.encode(), "MERGE_MSG": b"words", "config": b"evil"})
    assert found.head == found.at(found.head) == ONE and found.heads == {"MERGE_MSG": b"words"}
    with pytest.raises(BadListing, match="which is not a branch"):
        read_listing({"head": b"refs/tags/v1"})


@pytest.mark.parametrize(
    "files",
    [
        {"head": ""},
        {"head": "main"},
        {"head": "refs/tags/v1"},
        {"head": "refs/heads/../../config"},
        {"head": "refs/heads/a.lock"},
        {"refs": f"{ONE} refs/heads/a..b"},
        {"refs": "1234 refs/heads/a"},
        {"refs": f"{ONE} heads/a"},
        {"index": f"100666 {ONE} 0\tf\0"},
        {"index": f"040000 {ONE} 0\tf\0"},
        {"index": f"100644 {ONE} 4\tf\0"},
        {"index": f"100644 {ONE} 0\t\0"},
        {"index": "100644 --exec 0\tf\0"},
    ],
)
def test_what_cannot_be_a_repositorys_state_is_refused(files: dict[str, str]) -> None:
    with pytest.raises(BadListing):
        read_listing(listed(**files))


def test_a_file_of_an_unfinished_merge_names_commits_and_nothing_else() -> None:
    assert read_listing(listed(MERGE_HEAD=f"{ONE}\n{TWO}\n")).commits("MERGE_HEAD") == [ONE, TWO]
    assert read_listing(listed()).commits("MERGE_HEAD") == []
    with pytest.raises(BadListing):
        read_listing(listed(MERGE_HEAD="--upload-pack=x")).commits("MERGE_HEAD")


def test_of_stashes_only_commits_count_and_no_more_than_a_few() -> None:
    found = read_listing(listed(stash="\n".join(["-x", *[ONE] * (MOST_STASHES + 5)])))
    assert set(found.stashes) == {ONE} and len(found.stashes) == MOST_STASHES - 1


@given(st.binary(max_size=200))
def test_no_bytes_make_it_fail_in_another_way(data: bytes) -> None:
    try:
        entries, skipped, conflicts = read_entries(data)
    except BadListing:
        return
    assert skipped <= entries.keys() and all(at in "123" for _, _, at in conflicts)


def test_links_below_refs_are_listed_and_not_followed(tmp_path: Path) -> None:
    heads = tmp_path / "refs" / "heads"
    heads.mkdir(parents=True)
    (heads / "main").touch()
    (heads / "loop").symlink_to(tmp_path / "refs")
    (heads / "pipe").touch()
    assert ref_files(str(tmp_path)) == [str(heads / name) for name in ("loop", "main", "pipe")]
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "refs").symlink_to("/etc")
    assert ref_files(str(tmp_path / "other")) == [str(tmp_path / "other" / "refs")]
    assert ref_files(str(tmp_path / "none")) == []


def test_refs_deeper_than_any_repository_has_are_left_out(tmp_path: Path) -> None:
    for depth, counts in ((DEEPEST, True), (DEEPEST + 1, False)):
        place = os.path.join(tmp_path, str(depth), "refs", *["d"] * depth)
        os.makedirs(place)
        Path(place, "x").touch()
        assert bool(ref_files(os.path.join(tmp_path, str(depth)))) is counts


def test_more_refs_than_any_repository_has_are_left_out_and_a_stop_is_heeded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(4):
        (tmp_path / "refs" / str(number)).mkdir(parents=True)
        (tmp_path / "refs" / str(number) / "x").touch()
    assert len(ref_files(str(tmp_path))) == 4
    for most, counted in ((6, 4), (4, 0)):
        monkeypatch.setattr(private_git, "MOST_REFS", most)
        assert len(ref_files(str(tmp_path))) == counted, most
    halt = threading.Event()
    halt.set()
    with tasks.heeding(halt), pytest.raises(Cancelled):
        ref_files(str(tmp_path))
