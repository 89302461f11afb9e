"""A look at the files: what a second one reads, and what of the metadata is believed."""

import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from treadle.workspace import directories as looking
from treadle.workspace.changes import TreeEntry
from treadle.workspace.directories import (
    Look,
    Oddity,
    PermissionChange,
    hidden_changes,
    news,
    permission_changes,
    take,
)
from treadle.workspace.store import Store


def age(look: Look) -> Look:
    """As if the look were long after the files were written, so that their metadata can be trusted."""
    look.wall += 10**9
    look.running += 10**9
    for part in look.parts.values():
        part.sure = True
    return look


def test_a_file_that_got_its_old_times_back_is_read(root: Path, store: Store) -> None:
    first = age(take(store, str(root)))
    old = os.stat(root / "a.txt")
    (root / "a.txt").write_text("ONE\n")
    os.utime(root / "a.txt", ns=(old.st_atime_ns, old.st_mtime_ns))
    assert take(store, str(root), earlier=first).tree != first.tree


def test_metadata_are_not_believed_when_they_are_too_fresh_or_the_clock_was_set(root: Path, store: Store) -> None:
    first = take(store, str(root))
    metadata = first.seen["a.txt"]
    (root / "a.txt").write_text("ONE\n")
    found = os.stat(root / "a.txt")
    first.seen["a.txt"] = (found.st_mode, found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino)
    assert metadata != first.seen["a.txt"]
    assert take(store, str(root), earlier=first).tree != first.tree, "written within one tick of the first look"
    first.wall += 3600 * 10**9  # the clock was an hour ahead then
    assert take(store, str(root), earlier=first).tree != first.tree


def test_ignored_files_and_git_files_that_changed_are_found(root: Path, store: Store) -> None:
    (root / ".gitignore").write_text("*.log\ncache/\n")
    (root / "cache").mkdir()
    for name in ("same.log", "edited.log", "gone.log", "cache/x", "rules.log"):
        (root / name).write_text("x")
    (root / ".git").mkdir()
    (root / ".git" / "config").write_text("")

    def watched(path: str) -> bool:
        return path == "rules.log"

    before = take(store, str(root), watched=watched)
    (root / "edited.log").write_text("longer")
    (root / "gone.log").unlink()
    (root / "cache" / "new").write_text("")
    (root / ".git" / "config").write_text("[core]\n")
    (root / "rules.log").write_text("x")
    (root / "a.txt").write_text("in the patch\n")
    after = take(store, str(root), base=before.files, earlier=before, watched=watched)
    assert hidden_changes(before, after) == [".git/config", "cache/new", "edited.log", "gone.log"]
    (root / "rules.log").write_text("y")
    after = take(store, str(root), base=before.files, earlier=before, watched=watched)
    assert "rules.log" in hidden_changes(before, after)


@settings(max_examples=30)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["write", "remove", "rules", "mode", "swap"]),
            st.sampled_from(["a", "d/a", "d/b.log", "d/e/a", "d/e/b.log", "n/x.log", "n/y"]),
        ),
        max_size=6,
    )
)
def test_a_look_that_takes_over_what_did_not_change_is_the_same_as_a_fresh_one(
    tmp_path_factory: pytest.TempPathFactory, acts: list[tuple[str, str]]
) -> None:
    root, store = tmp_path_factory.mktemp("root"), Store.make(str(tmp_path_factory.mktemp("store")))
    for name in ("a", "d/a", "d/b.log", "d/e/a", "d/e/b.log"):
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_text(name)
    (root / ".gitignore").write_text("*.log\n")
    first = age(take(store, str(root)))
    for act, name in acts:
        place = root / name
        place.parent.mkdir(exist_ok=True, parents=True)
        if act == "write":
            place.write_text("changed")
        elif act == "remove":
            place.unlink(missing_ok=True)
        elif act == "rules":
            (place.parent / ".gitignore").write_text("!b.log\ny\n")
        elif act == "mode" and place.exists():
            place.chmod(0o755)
        elif act == "swap" and place.exists():
            place.rename(place.parent / "moved")
    quick, fresh = take(store, str(root), base=first.files, earlier=first), take(store, str(root), base=first.files)
    assert (quick.tree, quick.files, quick.seen) == (fresh.tree, fresh.files, fresh.seen)
    assert hidden_changes(first, quick) == hidden_changes(first, fresh)


def test_two_looks_can_be_compared_unless_the_clock_was_set_in_between() -> None:
    one, two = Look(), Look()
    assert one.comparable(two) and two.comparable(one)
    for step, fits in ((looking.STEP - 1, True), (looking.STEP, False), (-looking.STEP, False)):
        two.running = one.running + 10**9
        two.wall = one.wall + 10**9 + step
        assert two.comparable(one) is one.comparable(two) is fits


def test_what_is_hidden_has_changed_if_it_differs_and_watched_files_if_their_content_does() -> None:
    entry = TreeEntry(mode="100644", blob="b")
    old, new = (0o100644, 1, 2, 3, 4), (0o100644, 1, 9, 9, 4)
    other_kind = (0o120777, 1, 9, 9, 4)
    before, after = Look(), Look()
    before.seen = {
        "same": old,
        "touched": old,
        "gone": old,
        "watched": old,
        "turned": old,
        "kind": old,
        "tree": old,
        "was": old,
    }
    after.seen = {
        "same": old,
        "touched": new,
        "new": old,
        "watched": new,
        "turned": new,
        "kind": other_kind,
        "tree": new,
    }
    before.hashes = {"watched": "x", "turned": "x", "kind": "x"}
    after.hashes = {"watched": "x", "turned": "y", "kind": "x"}
    before.files, after.files = {"was": entry}, {"tree": entry}
    assert hidden_changes(before, after) == ["gone", "kind", "new", "touched", "turned"]


def test_permissions_beyond_being_a_program_are_compared_of_files_that_both_trees_have() -> None:
    entry = TreeEntry(mode="100644", blob="b")
    before, after = Look(), Look()
    modes = {"same": (0o644, 0o644), "program": (0o644, 0o744), "open": (0o600, 0o644), "sticky": (0o755, 0o1755)}
    for name, (old, new) in modes.items():
        before.seen[name], after.seen[name] = (0o100000 | old, 0, 0, 0, 0), (0o100000 | new, 0, 0, 0, 0)
        before.files[name] = after.files[name] = entry
    before.seen["link"], after.seen["link"] = (0o100600, 0, 0, 0, 0), (0o120777, 0, 0, 0, 0)
    before.files["link"] = after.files["link"] = before.files["unseen"] = after.files["unseen"] = entry
    before.seen["hidden"], after.seen["hidden"] = (0o100600, 0, 0, 0, 0), (0o100644, 0, 0, 0, 0)
    assert permission_changes(before, after) == [
        PermissionChange(path="open", before="0600", after="0644"),
        PermissionChange(path="sticky", before="0755", after="1755"),
    ]


def test_what_is_odd_is_news_once_and_again_when_its_file_has_changed() -> None:
    before, after = Look(), Look()
    odd = Oddity(kind="special", path="pipe", note="a named pipe")
    before.oddities, after.oddities = [odd], [odd, Oddity(kind="special", path="new", note="a named pipe")]
    before.seen["pipe"] = after.seen["pipe"] = (1, 1, 1, 1, 1)
    assert [one.path for one in news(before, after)] == ["new"] and news(None, after) == after.oddities
    after.seen["pipe"] = (1, 1, 1, 2, 1)
    assert [one.path for one in news(before, after)] == ["pipe", "new"]
