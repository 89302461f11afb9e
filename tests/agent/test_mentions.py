"""Files that a prompt mentions as @path: which are meant, and which are shown."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.agent.tools.workspace import Workspace
from treadle.agent.session import MOST, with_files
from treadle.agent.tools.files import load, not_known
from treadle.session import Access, Decision
from treadle.settings.project import mentioned


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    (tmp_path / "work").mkdir()
    return Workspace(tmp_path / "work")


def allow(access: Access) -> Decision:
    return Decision(verdict="allow")


def ask(access: Access) -> Decision:
    return Decision(verdict="ask")


async def test_a_mentioned_file_is_shown_and_known_from_then_on(workspace: Workspace) -> None:
    (workspace.root / "notes.txt").write_text("remember the heron\n")
    text = await with_files("What do @notes.txt, @notes.txt and @missing.txt say?", workspace.context, allow)
    assert text.startswith("What do @notes.txt") and text.count("remember the heron") == 1
    assert not not_known(workspace.context, load(workspace.root / "notes.txt"))


@pytest.mark.parametrize(
    ("mention", "shown"),
    [
        ("@a.txt#L2", ["2"]),
        ("@a.txt#L2-3.", ["2", "3"]),
        ("@a.txt#L3-L4", ["3", "4"]),
        ("@b.txt#L1", []),
        ("@a.txt#x", []),
    ],
)
async def test_of_a_file_only_the_lines_that_are_named_are_shown(
    mention: str, shown: list[str], workspace: Workspace
) -> None:
    (workspace.root / "a.txt").write_text("".join(f"line {number}\n" for number in range(1, 6)))
    text = await with_files(f"See {mention}", workspace.context, allow)
    assert [number for number in "12345" if f"line {number}" in text] == shown
    both = await with_files("@a.txt#L1 and @a.txt#L5", workspace.context, allow)
    assert "[a.txt, lines 1, as it is now]" in both and "line 5" in both and "line 3" not in both


async def test_what_may_not_be_read_unasked_is_not_shown(workspace: Workspace) -> None:
    (workspace.root / "secret.txt").write_text("heron\n")
    text = await with_files("What does @secret.txt say?", workspace.context, ask)
    assert "heron" not in text and "may not be read" in text


async def test_directories_pictures_and_too_many_files(workspace: Workspace) -> None:
    (workspace.root / "d").mkdir()
    (workspace.root / "d" / "heron").touch()
    assert (await with_files("in @d", workspace.context, allow)).endswith("[the directory d, as it is now]\nheron")
    assert "heron" not in await with_files("in @d", workspace.context, ask)
    assert "heron" not in await with_files("in @..", workspace.context, ask)
    (workspace.root / "p.png").write_bytes(b"\x89PNG\r\n\x1a\n\0\0")
    assert "cannot be shown images" in await with_files("see @p.png", workspace.context, allow)
    names = [f"f{number}" for number in range(MOST + 5)]
    for name in names:
        (workspace.root / name).write_text("x")
    text = await with_files(" ".join(f"@{name}" for name in names), workspace.context, allow)
    assert text.count("as it is now") == MOST


@given(st.text(alphabet="@`~\"' a./\n", max_size=60))
def test_any_text_gives_an_answer(text: str) -> None:
    assert all(len(names) in (1, 2) and all(names) for names in mentioned(text))
