"""One patch over several files: all of it or nothing."""

from pathlib import Path

import msgspec
import pytest

from tests.agent.tools.workspace import Workspace
from treadle.agent import toolbox
from treadle.agent.tools.apply_patch import APPLY_PATCH, PatchArgs
from treadle.errors import Denied, ToolError
from treadle.events import FileChanged
from treadle.io.machine import DISK
from treadle.policy.rules import RuleSet
from treadle.session import Rules


def patch(*lines: str) -> str:
    return "\n".join(["*** Begin Patch", *lines, "*** End Patch"])


async def run(workspace: Workspace, *lines: str) -> str:
    args = PatchArgs(input=patch(*lines))
    APPLY_PATCH.access(args, workspace.context.resolve)
    return await toolbox.run(APPLY_PATCH, args, workspace.context)


ALL = ("*** Add File: deep/new.txt", "+made", "*** Update File: a.py", "@@", "-one", "+two", "*** Delete File: old")


async def test_files_are_made_changed_and_removed_and_each_is_reported(workspace: Workspace) -> None:
    (workspace.root / "a.py").write_text("one\n")
    (workspace.root / "old").write_text("gone\n")
    said = await run(workspace, *ALL)
    assert said.splitlines() == ["Made deep/new.txt", "Edited a.py", "Removed old"]
    assert (workspace.root / "deep/new.txt").read_text() == "made\n"
    assert (workspace.root / "a.py").read_text() == "two\n" and not (workspace.root / "old").exists()
    changes = [event for event in workspace.events if isinstance(event, FileChanged)]
    assert [change.change for change in changes] == ["added", "modified", "deleted"]
    assert "-one\n+two" in changes[1].diff and "-gone" in changes[2].diff
    assert [path.name for path, _ in workspace.backups] == ["new.txt", "a.py", "old"], "rewind can restore them"


@pytest.mark.parametrize(
    ("more", "why"),
    [
        (("*** Update File: a.py", "@@", "-three", "+four"), "not in the file"),
        (("*** Update File: none.py", "@@", "-three", "+four"), "does not exist"),
        (("*** Add File: old", "+x"), "there already"),
        (("*** Update File: bin", "@@", "-x", "+y"), "only text"),
        (("*** Add File: new.txt", "+again"), "twice"),
    ],
)
async def test_if_one_file_cannot_be_changed_none_is(workspace: Workspace, more: tuple[str, ...], why: str) -> None:
    (workspace.root / "a.py").write_text("one\n")
    (workspace.root / "old").write_text("gone\n")
    (workspace.root / "bin").write_bytes(b"\0\1\2" * 100)
    with pytest.raises(ToolError, match=why):
        await run(workspace, "*** Add File: new.txt", "+made", *more)
    assert not (workspace.root / "new.txt").exists() and workspace.events == []
    assert (workspace.root / "a.py").read_text() == "one\n"


async def test_a_moved_file_keeps_its_rights(workspace: Workspace) -> None:
    script = workspace.root / "run.sh"
    script.write_text("echo one\n")
    script.chmod(0o755)
    await run(workspace, "*** Update File: run.sh", "*** Move to: bin/go.sh", "@@", "-echo one", "+echo two")
    moved = workspace.root / "bin/go.sh"
    assert moved.read_text() == "echo two\n" and moved.stat().st_mode & 0o777 == 0o755 and not script.exists()


async def test_rules_see_every_path_that_a_patch_names(workspace: Workspace) -> None:
    args = PatchArgs(input=patch("*** Add File: ok.txt", "+a", "*** Update File: b", "*** Move to: .env", "@@", "+x"))
    access = APPLY_PATCH.access(args, workspace.context.resolve)
    assert [Path(path).name for path in access.paths] == ["ok.txt", "b", ".env"]
    decision = RuleSet(Rules(deny=("Edit(.env*)",)), str(workspace.root), DISK).judge(access)
    assert decision is not None and decision.verdict == "deny"


async def test_what_another_holds_is_not_written(workspace: Workspace) -> None:
    (workspace.root / "a.py").write_text("one\n")
    workspace.claimed.add(str(workspace.root / "a.py"))
    with pytest.raises(Denied):
        await run(workspace, "*** Update File: a.py", "@@", "-one", "+two")
    assert (workspace.root / "a.py").read_text() == "one\n"


async def test_what_was_done_before_a_failure_is_told(workspace: Workspace) -> None:
    def backup(path: Path) -> None:
        (workspace.root / "late.txt").write_text("theirs")

    workspace.context = msgspec.structs.replace(workspace.context, backup=backup)
    with pytest.raises(ToolError, match=r"at this very moment; nothing was written; already done: Made new\.txt"):
        await run(workspace, "*** Add File: new.txt", "+made", "*** Add File: late.txt", "+x")
    assert (workspace.root / "new.txt").exists() and len(workspace.events) == 1


async def test_a_file_is_moved_as_it_is_and_others_are_patched_in_their_encoding(workspace: Workspace) -> None:
    (workspace.root / "latin").write_bytes(b"caf\xe9\n")
    (workspace.root / "bin").write_bytes(b"\0\1")
    await run(workspace, "*** Update File: latin", "@@", "-café", "+thé", "*** Delete File: bin")
    assert (workspace.root / "latin").read_bytes() == b"th\xe9\n" and not (workspace.root / "bin").exists()
    gone = workspace.events[1]
    assert isinstance(gone, FileChanged) and gone.change == "deleted" and gone.diff == ""
    (workspace.root / "half").write_bytes(b"\xff\xfea")
    assert await run(workspace, "*** Delete File: half") == "Removed half"
    said = await run(workspace, "*** Update File: latin", "*** Move to: moved")
    assert said == "Made moved\nRemoved latin" and (workspace.root / "moved").read_bytes() == b"th\xe9\n"


async def test_what_rules_hide_is_not_shown_by_a_patch_that_does_not_fit(workspace: Workspace) -> None:
    hiding = Workspace(workspace.root, hidden=lambda path: True)
    hiding.write("a.py", "secret = 1\n")
    with pytest.raises(ToolError) as caught:
        await run(hiding, "*** Update File: a.py", "@@", "-secrets = 1", "+x")
    assert "secret = 1" not in str(caught.value) and "a.py: hunk 1: its lines are not in the file" in str(caught.value)
