import os
import resource
import stat
from pathlib import Path

import pytest

from tests.agent.tools.workspace import Workspace
from treadle.agent import toolbox
from treadle.errors import Denied, ToolError
from treadle.events import FileChanged


async def test_a_replaced_file_keeps_its_mode_and_is_backed_up_first(workspace: Workspace) -> None:
    path = workspace.write("run.sh", "old\n")
    path.chmod(0o755)
    await workspace.run("read_file", file_path="run.sh")
    await workspace.run("write_file", file_path="run.sh", content="new\n")
    assert stat.S_IMODE(path.stat().st_mode) == 0o755
    assert workspace.backups == [(path, b"old\n")]
    [event] = workspace.events
    assert isinstance(event, FileChanged) and event.change == "modified" and "-old\n+new\n" in event.diff


async def test_a_symlink_stays_a_link_and_its_target_is_written(workspace: Workspace) -> None:
    target = workspace.write("real.txt", "old\n")
    (workspace.root / "link").symlink_to("real.txt")
    await workspace.run("read_file", file_path="link")
    await workspace.run("write_file", file_path="link", content="new\n")
    assert (workspace.root / "link").is_symlink() and target.read_text() == "new\n"


async def test_what_will_be_touched_is_the_target_of_a_link_out_of_the_tree(workspace: Workspace) -> None:
    (workspace.root / "etc").symlink_to("/etc")
    (workspace.root / "dangling").symlink_to("/var/not-there/x")
    tool = toolbox.load("write_file")
    for given, real in (("etc/passwd", "/etc/passwd"), ("dangling", "/var/not-there/x"), ("a/../../x", "../x")):
        args = toolbox.decode(tool, f'{{"file_path": "{given}", "content": ""}}')
        expected = os.path.normpath(workspace.root / real)
        assert tool.access(args, workspace.context.resolve).paths == (expected,)


async def test_a_file_that_changed_since_it_was_read_is_not_overwritten(workspace: Workspace) -> None:
    path = workspace.write("a.txt", "one\n")
    await workspace.run("read_file", file_path="a.txt")
    path.write_text("one, and what another process added\n")
    with pytest.raises(ToolError, match="has changed since you read it"):
        await workspace.run("write_file", file_path="a.txt", content="mine\n")
    assert "another process" in path.read_text()
    await workspace.run("read_file", file_path="a.txt")
    await workspace.run("write_file", file_path="a.txt", content="mine\n")
    await workspace.run("write_file", file_path="a.txt", content="mine again\n")
    assert path.read_text() == "mine again\n"


async def test_what_rules_hide_is_not_shown_by_refusing_to_overwrite_it(workspace: Workspace) -> None:
    workspace.write("a.txt", "secret words\n")
    hiding = Workspace(workspace.root, hidden=lambda path: path.endswith("a.txt"))
    with pytest.raises(ToolError, match="A rule forbids reading it") as caught:
        await hiding.run("write_file", file_path="a.txt", content="mine\n")
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("tool", ["write_file", "edit_file"])
async def test_a_claimed_file_is_not_written(workspace: Workspace, tool: str) -> None:
    path = workspace.write("a.txt", "old\n")
    await workspace.run("read_file", file_path="a.txt")
    workspace.claimed.add(str(path))
    given = {"content": "new\n"} if tool == "write_file" else {"old_string": "old", "new_string": "new"}
    with pytest.raises(Denied, match="claimed by another agent"):
        await workspace.run(tool, file_path="a.txt", **given)
    assert path.read_text() == "old\n"


async def test_a_full_disk_leaves_the_old_file_and_nothing_beside_it(workspace: Workspace) -> None:
    path = workspace.write("a.txt", "old\n")
    await workspace.run("read_file", file_path="a.txt")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    import signal

    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, hard))
    try:
        with pytest.raises(ToolError, match="was not changed.*File too large"):
            await workspace.run("write_file", file_path="a.txt", content="new\n" * 10_000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, handler)
    assert path.read_text() == "old\n" and os.listdir(workspace.root) == ["a.txt"] and not workspace.events


async def test_what_a_killed_writer_left_is_removed_by_the_next(tmp_path: Path) -> None:
    left, fresh = tmp_path / ".treadle-0123456789abcdef.tmp", tmp_path / ".treadle-fedcba9876543210.tmp"
    for file in (left, fresh):
        file.write_text("half")
    os.utime(left, (1, 1))
    await Workspace(tmp_path).run("write_file", file_path="a.txt", content="x")
    assert sorted(os.listdir(tmp_path)) == [fresh.name, "a.txt"]


async def test_what_is_hidden_claimed_or_no_file_is_not_written(workspace: Workspace) -> None:
    path = workspace.write("a.txt", "secret words\n")
    hiding = Workspace(workspace.root, hidden=lambda path: path.endswith("a.txt"))
    with pytest.raises(ToolError, match="A rule forbids reading it") as caught:
        await hiding.run("write_file", file_path="a.txt", content="mine\n")
    assert "secret" not in str(caught.value)
    workspace.claimed.add(str(path))
    with pytest.raises(Denied, match="claimed by another agent"):
        await workspace.edit("write_file", file_path="a.txt", content="mine\n")
    os.mkfifo(workspace.root / "pipe")
    for name, says in (("pipe", "is a FIFO"), (".", "is a directory"), ("a.txt/b", "parent directories is a file")):
        with pytest.raises(ToolError, match=says):
            await workspace.run("write_file", file_path=name, content="x")
    assert path.read_text() == "secret words\n" and not workspace.events
