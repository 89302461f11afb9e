"""What is shown of the files that a prompt mentions."""

from pathlib import Path

import pytest

from tests.agent.pixels import gif, png
from tests.agent.tools.workspace import Workspace
from treadle.agent.session import MOST, with_all, with_files
from treadle.agent.tools.files import load, not_known
from treadle.session import Access, Decision, Prompt


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


async def test_what_may_not_be_read_unasked_is_not_shown(workspace: Workspace) -> None:
    (workspace.root / "secret.txt").write_text("heron\n")
    text = await with_files("What does @secret.txt say?", workspace.context, ask)
    assert "heron" not in text and "may not be read" in text


async def test_directories_pictures_and_too_many_files(workspace: Workspace) -> None:
    (workspace.root / "d").mkdir()
    assert await with_files("in @d", workspace.context, allow) == "in @d"
    (workspace.root / "p.png").write_bytes(b"\x89PNG\r\n\x1a\n\0\0")
    assert "cannot be shown images" in await with_files("see @p.png", workspace.context, allow)
    names = [f"f{number}" for number in range(MOST + 5)]
    for name in names:
        (workspace.root / name).write_text("x")
    text = await with_files(" ".join(f"@{name}" for name in names), workspace.context, allow)
    assert text.count("as it is now") == MOST


async def test_without_a_judge_no_file_is_looked_at(workspace: Workspace) -> None:
    (workspace.root / "notes.txt").write_text("heron\n")
    prompt = Prompt(text="see @notes.txt")
    assert (await with_all(prompt, workspace.context, None)).text == "see @notes.txt"
    assert "heron" in (await with_all(prompt, workspace.context, allow)).text


async def test_what_comes_with_the_prompt_is_shown_in_its_order_and_a_file_that_cannot_be_read_says_why(
    workspace: Workspace,
) -> None:
    prompt = Prompt(text="see", images=(png(), gif()), documents=(b"%PDF-1",))
    able = Workspace(workspace.root, keep_image=lambda data, suffix: f"kept.{suffix}", documents=True)
    message = await with_all(prompt, able.context, None)
    lines = message.text.split("\n")
    assert lines[0] == "see" and lines[1].startswith("[image 1: ") and lines[2].startswith("[image 2: ")
    assert lines[3].startswith("[document 1: a PDF") and len(lines) == 4
    assert [image.name for image in message.images] == ["kept.png", "kept.gif", "kept.pdf"]
    (workspace.root / "b.bin").write_bytes(b"\0\1")
    shown = await with_files("see @b.bin", workspace.context, allow)
    assert shown.startswith("see @b.bin\n\n[b.bin, as it is now]\n") and "binary" in shown
