import os
import random
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.conftest import need
from treadle.io.descriptors import Walk, parents, read_rules


def walked(root: Path, **more: bool) -> list[str]:
    return [relative for relative, _ in Walk(str(root), **more)]


def tree(root: Path, *names: str, **contents: str) -> None:
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")


def test_the_walk_is_in_the_order_of_names_and_enters_no_git(tmp_path: Path) -> None:
    tree(tmp_path, "b.txt", "a/z", "a/b/c", "a.txt", ".git/config", "a/.git", ".hidden/x")
    assert walked(tmp_path) == [".hidden/x", "a/b/c", "a/z", "a.txt", "b.txt"]


def test_inner_rules_beat_outer_ones_and_an_ignored_directory_is_not_entered(tmp_path: Path) -> None:
    tree(tmp_path, "a.log", "d/a.log", "d/b.log", "out/x", "out/keep")
    (tmp_path / ".gitignore").write_text("*.log\nout/\n!out/keep\n")
    (tmp_path / "d" / ".gitignore").write_text("!a.log\n")
    assert walked(tmp_path) == [".gitignore", "d/.gitignore", "d/a.log"]
    assert walked(tmp_path, ignore=False) == [
        ".gitignore", "a.log", "d/.gitignore", "d/a.log", "d/b.log", "out/keep", "out/x",
    ]  # fmt: skip


def test_rules_above_hold_up_to_the_top_of_the_repository(tmp_path: Path) -> None:
    tree(tmp_path, "repo/src/a.log", "repo/src/a.txt", "repo/src/a.bak", "repo/.git/HEAD")
    (tmp_path / ".gitignore").write_text("*.txt\n")
    (tmp_path / "repo" / ".gitignore").write_text("*.log\n/src/*.bak\n")
    assert walked(tmp_path / "repo" / "src") == ["a.txt"]


def test_links_are_not_followed_and_odd_things_are_not_files(tmp_path: Path) -> None:
    tree(tmp_path, "real/a")
    (tmp_path / "out").symlink_to("/etc")
    (tmp_path / "loop").symlink_to(".")
    (tmp_path / "file-link").symlink_to("real/a")
    os.mkfifo(tmp_path / "pipe")
    os.mkfifo(tmp_path / "real" / ".gitignore")
    assert walked(tmp_path) == ["real/a"]


def test_a_directory_that_vanishes_or_is_too_deep_is_counted(tmp_path: Path) -> None:
    here = os.getcwd()
    os.chdir(tmp_path)
    try:
        for _ in range(30):
            os.mkdir("d" * 200)
            os.chdir("d" * 200)
    finally:
        os.chdir(here)
    walk = Walk(str(tmp_path))
    assert list(walk) == [] and walk.unreadable == 1
    missing = Walk(str(tmp_path / "none"))
    assert list(missing) == [] and missing.unreadable == 1


# git counts bytes, so that `?` is half of an é; here it is a character. Hence only ASCII:
NAMES = ["a", "b", "ab", "a.log", "b.log", "build", "x y", "a[b]", "-"]
PARTS = ["*", "?", "a", "b", "*.log", "build", "**", "[ab]", "[!a]*", "a*", "*b*", "\\a", "x y", "a[[]b]"]


@settings(max_examples=40)
@given(data=st.data())
def test_random_rules_leave_out_what_git_leaves_out(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    git = need("git")
    root = tmp_path_factory.mktemp("repo")
    for name in ("objects", "refs"):
        (root / ".git" / name).mkdir(parents=True)
    (root / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
    chooser = random.Random(data.draw(st.integers(0, 10_000)))
    for _ in range(25):
        path = root.joinpath(*(chooser.choice(NAMES) for _ in range(chooser.randint(1, 4))))
        if not any(parent.is_file() for parent in path.parents) and not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("")
    rule = st.builds(
        lambda negated, start, parts, end: "!" * negated + start + "/".join(parts) + end,
        st.booleans(), st.sampled_from(["", "", "/"]),
        st.lists(st.sampled_from(PARTS), min_size=1, max_size=3), st.sampled_from(["", "", "/"]),
    )  # fmt: skip
    (root / ".gitignore").write_text("\n".join(data.draw(st.lists(rule, min_size=1, max_size=5))) + "\n")
    said = subprocess.run(
        [git, "-C", str(root), "ls-files", "-z", "--others", "--exclude-standard"], check=True, capture_output=True
    ).stdout
    assert sorted(walked(root)) == sorted(os.fsdecode(name) for name in said.split(b"\0") if name)


def test_links_and_further_rules_count_if_they_are_asked_for_and_a_walk_can_be_ended(tmp_path: Path) -> None:
    tree(tmp_path, "a.log", "b.txt", "d/c.log", "d/d.txt", ".git/HEAD")
    (tmp_path / "link").symlink_to("b.txt")
    (tmp_path / "way").symlink_to("d")
    assert walked(tmp_path, links=True) == ["a.log", "b.txt", "d/c.log", "d/d.txt", "link", "way"]
    (tmp_path / "d" / ".gitignore").write_text("!c.log\n")
    rules = Walk(str(tmp_path), excludes="*.log\n/d/d.txt\n")
    assert [name for name, _ in rules] == ["b.txt", "d/.gitignore", "d/c.log"]
    assert [name for name, _ in Walk(f"{tmp_path}/", ignore=False, excludes="*.log\n")] == [
        "b.txt",
        "d/.gitignore",
        "d/d.txt",
    ]
    walk, found = Walk(str(tmp_path), ignore=False), []
    for name, entry in walk:
        found.append(name)
        assert entry.path == str(tmp_path / name)
        walk.stopped = name == "d/.gitignore"
    assert found[:3] == ["a.log", "b.txt", "d/.gitignore"] and "link" not in found and walk.unreadable == 0


def test_rules_that_cannot_be_read_are_none(tmp_path: Path) -> None:
    tree(tmp_path, "a/x")
    (tmp_path / ".gitignore").mkdir()
    (tmp_path / "a" / ".gitignore").symlink_to("nowhere")
    assert walked(tmp_path) == ["a/x"] and walked(tmp_path / "a") == ["x"]
    assert read_rules(str(tmp_path)).ignored("x", "x") is None and parents("/") == ()
