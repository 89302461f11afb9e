import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle.agent.tools.files import Resolved, resolve, show
from treadle.errors import ToolError


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


def test_a_path_is_resolved_once_so_that_a_link_cannot_be_changed_in_between(tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to("one")
    resolved = Resolved(tmp_path)
    assert resolved("link") == tmp_path / "one"
    link.unlink()
    link.symlink_to("two")
    assert resolved("link") == tmp_path / "one" and resolve(tmp_path, "link") == tmp_path / "two"
