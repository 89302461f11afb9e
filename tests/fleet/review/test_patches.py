"""A patch is read as git means it, whatever the files in it hold."""

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from tests.fleet.repositories import git
from treadle.fleet import results
from treadle.fleet.results import ChangedLine


def test_each_line_has_its_number_on_its_side() -> None:
    (file,) = results.parse_patch(
        "diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -3,3 +3,3 @@ def f\n one\n-two\n+zwei\n three\n"
    )
    assert (file.path, file.added, file.removed) == ("x", 1, 1)
    assert file.lines == [
        ChangedLine(kind="hunk", text="@@ -3,3 +3,3 @@ def f"),
        ChangedLine(kind="same", text="one", old=3, now=3),
        ChangedLine(kind="del", text="two", old=4),
        ChangedLine(kind="add", text="zwei", now=4),
        ChangedLine(kind="same", text="three", old=5, now=5),
    ]


def test_what_looks_like_a_header_inside_a_file_is_a_line_of_it(tmp_path: Path) -> None:
    """Also where a line holds what other programs take for the end of one."""
    odd = "-- a/x\n++ b/y\n@@ -1 +1 @@\ndiff --git a/q b/q\na\fb\x0bc\u2028d\n"
    git(tmp_path, "init", "-q", "-b", "main")
    name = 'an "odd" näme.txt'
    (tmp_path / name).write_text("")
    git(tmp_path, "add", "-A")
    (tmp_path / name).write_text(odd)
    (tmp_path / "gone.txt").write_text("x")
    git(tmp_path, "add", "-N", "gone.txt")
    first, second = results.parse_patch(git(tmp_path, "diff"))
    assert first.path == name and second.path == "gone.txt"
    assert [line.text for line in first.lines if line.kind == "add"] == odd.split("\n")[:-1]
    assert [line.now for line in first.lines if line.kind == "add"] == [1, 2, 3, 4, 5]


@given(st.text())
def test_any_text_is_read(text: str) -> None:
    for file in results.parse_patch(f"diff --git a/x b/x\n@@ -1,9 +1,9 @@\n{text}"):
        numbers = [line.now for line in file.lines if line.now]
        assert numbers == sorted(numbers)


def test_hunks_are_given_one_by_one_without_their_headers() -> None:
    text = "diff --git a/x b/x\nnew file mode 100644\n--- /dev/null\n+++ b/x\n@@ -0,0 +1 @@\n+one\n"
    text += "@@ -5,2 +6 @@\n-two\n-three\n+four\n\\ No newline at end of file\n"
    (file,) = results.parse_patch(text)
    assert [[(line.kind, line.text, line.old, line.now) for line in hunk] for hunk in results.hunks(file)] == [
        [("add", "one", 0, 1)],
        [("del", "two", 5, 0), ("del", "three", 6, 0), ("add", "four", 0, 6)],
    ]
    assert (file.path, file.added, file.removed) == ("x", 2, 2)
    assert [line.text for line in file.lines if line.kind == "hunk"] == [
        "new file mode 100644",
        "@@ -0,0 +1 @@",
        "@@ -5,2 +6 @@",
    ]
    assert list(results.hunks(results.ChangedFile(path="x", lines=[]))) == []


def test_files_without_lines_are_named_by_their_header_and_what_is_before_the_first_is_none() -> None:
    text = "\n".join(
        [
            "From 1234",
            "@@ -1 +1 @@",
            "diff --git a/old name b/new name",
            "similarity index 100%",
            "rename from old name",
            "rename to new name",
            "index 1..2",
            "diff --git a/pic.png b/pic.png",
            "Binary files a/pic.png and b/pic.png differ",
            'diff --git "a/\\303\\244\\t\\"" "b/\\303\\244\\t\\""',
            "deleted file mode 100644",
            "--- a/x",
            "+++ /dev/null",
            "diff --git a/y b/y",
            "--- a/y",
            "+++ b/other\t2026",
        ]
    )
    found = {file.path: [line.text for line in file.lines] for file in results.parse_patch(text)}
    assert found == {
        "new name": ["similarity index 100%", "rename from old name", "rename to new name"],
        "pic.png": ["Binary files a/pic.png and b/pic.png differ"],
        'ä\t"': ["deleted file mode 100644"],
        "other": [],
    }
    assert results._name('"') == '"' and results._name("b/plain") == "plain"
