import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle.agent.tools.files import Resolved, missing, resolve, show, shown
from treadle.errors import ToolError


def test_relative_absolute_home_and_dots_are_worked_out(tmp_path: Path, state_home: Path) -> None:
    assert resolve(tmp_path, "a/../b/./c") == tmp_path / "b/c"
    assert resolve(tmp_path, "/etc/../etc") == Path("/etc")
    assert resolve(tmp_path, "~/x") == state_home / "x"
    assert resolve(tmp_path, "~x") == tmp_path / "~x"
    assert resolve(tmp_path, ".") == tmp_path


def test_links_are_worked_out_also_on_the_way_to_what_does_not_exist(tmp_path: Path) -> None:
    (tmp_path / "out").symlink_to("/etc")
    (tmp_path / "up").symlink_to("..")
    (tmp_path / "dangling").symlink_to("nowhere/at/all")
    assert resolve(tmp_path, "out/new/file") == Path("/etc/new/file")
    assert resolve(tmp_path, "up/x") == tmp_path.parent / "x"
    assert resolve(tmp_path, "out/../x") == Path("/x")
    assert resolve(tmp_path, "dangling") == tmp_path / "nowhere/at/all"


@pytest.mark.parametrize("text", ["", "  ", "a\0b"])
def test_what_is_no_path_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(ToolError, match="NUL" if "\0" in text else "empty"):
        resolve(tmp_path, text)


def test_a_very_long_name_is_an_error_later_and_not_a_crash_now(tmp_path: Path) -> None:
    assert resolve(tmp_path, "x" * 5000).name == "x" * 5000


@given(
    name=(st.binary(min_size=1, max_size=20) | st.just(b"\\x41\xff")).filter(
        lambda name: not set(name) & {0, 47} and name not in (b".", b"..")
    )
)
def test_any_name_is_shown_as_one_line_of_utf8_that_finds_it_again(
    tmp_path_factory: pytest.TempPathFactory, name: bytes
) -> None:
    root = tmp_path_factory.mktemp("names")
    with open(os.path.join(os.fsencode(root), name), "w"):
        pass
    text = show(os.fsdecode(name))
    assert text.encode() and len(text.splitlines()) == 1
    if text.strip() and not text.startswith("~"):
        assert os.fsencode(resolve(root, text)) == os.path.join(os.fsencode(root), name)


def test_paths_are_shown_relative_to_the_working_directory_where_they_lie_in_it(tmp_path: Path) -> None:
    assert shown(tmp_path / "a" / "b", tmp_path) == "a/b"
    assert shown(tmp_path, tmp_path) == str(tmp_path)
    assert shown(Path("/etc/x"), tmp_path) == "/etc/x"


def test_near_names_are_found_whatever_their_case(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("")
    assert "did you mean" in str(missing(tmp_path / "readme.md"))
    assert missing(tmp_path / "zzz").hint is None
    assert resolve(tmp_path, "~") == Path(os.path.expanduser("~"))


def test_the_deepest_directory_there_is_and_up_to_three_names_are_said(tmp_path: Path) -> None:
    for name in ("note1", "note2", "note3", "note4", "zebra"):
        (tmp_path / name).mkdir()
    gone = missing(tmp_path / "notes" / "deep" / "x")
    assert gone.message == f"{tmp_path}/notes/deep/x does not exist; the deepest directory that does is {tmp_path}"
    assert (gone.hint or "").count(" or ") == 2 and (gone.hint or "").startswith(f"did you mean {tmp_path}/note")
    assert missing(tmp_path / "none").message == f"{tmp_path}/none does not exist"


def test_a_path_is_resolved_once_so_that_a_link_cannot_be_changed_in_between(tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to("one")
    resolved = Resolved(tmp_path)
    assert resolved("link") == tmp_path / "one"
    link.unlink()
    link.symlink_to("two")
    assert resolved("link") == tmp_path / "one" and resolve(tmp_path, "link") == tmp_path / "two"


@pytest.mark.parametrize(
    ("name", "text"),
    [("a b", "a b"), ("ä\u200b", "ä\u200b"), ("a\nb", "a\\x0ab"), ("a\n\\x", "a\\x0a\\x5cx"), ("a\\x", "a\\x")],
)
def test_only_a_name_with_odd_bytes_is_escaped(name: str, text: str) -> None:
    assert show(name) == text


def test_an_escape_is_read_back_only_where_that_file_is_there(tmp_path: Path) -> None:
    assert resolve(tmp_path, "a\\x0ab") == tmp_path / "a\\x0ab"
    (tmp_path / "a\nb").touch()
    assert resolve(tmp_path, "a\\x0ab") == tmp_path / "a\nb"
    (tmp_path / "a\\x0ab").touch()
    assert resolve(tmp_path, "a\\x0ab") == tmp_path / "a\\x0ab"
    assert resolve(tmp_path, "a\\x00b") == tmp_path / "a\\x00b"
