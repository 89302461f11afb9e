import os
import resource
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.agent.tools.workspace import Workspace
from treadle.agent import toolbox
from treadle.errors import Denied, ToolError
from treadle.events import FileChanged


async def test_a_new_file_has_the_mode_that_the_umask_leaves(workspace: Workspace) -> None:
    old = os.umask(0o027)
    try:
        await workspace.run("write_file", file_path="a.txt", content="x")
    finally:
        os.umask(old)
    assert stat.S_IMODE((workspace.root / "a.txt").stat().st_mode) == 0o640


async def test_a_replaced_file_keeps_its_mode_and_is_backed_up_first(workspace: Workspace) -> None:
    path = workspace.write("run.sh", "old\n")
    path.chmod(0o755)
    await workspace.run("read_file", file_path="run.sh")
    await workspace.run("write_file", file_path="run.sh", content="new\n")
    assert stat.S_IMODE(path.stat().st_mode) == 0o755
    assert workspace.backups == [(path, b"old\n")]
    [event] = workspace.events
    assert isinstance(event, FileChanged) and event.change == "modified" and "-old\n+new\n" in event.diff


async def test_writing_what_is_there_already_changes_nothing(workspace: Workspace) -> None:
    path = workspace.write("a.txt", "same\n")
    before = path.stat()
    assert "nothing was written" in await workspace.run("write_file", file_path="a.txt", content="same\n")
    assert path.stat() == before and not workspace.events and not workspace.backups


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
    with pytest.raises(ToolError, match="Rules keep it from being read") as caught:
        await hiding.run("write_file", file_path="a.txt", content="mine\n")
    assert "secret" not in str(caught.value)


async def test_a_claimed_file_is_not_written(workspace: Workspace) -> None:
    path = workspace.write("a.txt", "old\n")
    await workspace.run("read_file", file_path="a.txt")
    workspace.claimed.add(str(path))
    with pytest.raises(Denied, match="claimed by another agent"):
        await workspace.run("write_file", file_path="a.txt", content="new\n")
    assert path.read_text() == "old\n"


async def test_a_directory_or_a_fifo_in_its_place_is_an_error(workspace: Workspace) -> None:
    (workspace.root / "dir").mkdir()
    os.mkfifo(workspace.root / "pipe")
    workspace.write("file", "x")
    for name, message in (("dir", "is a directory"), ("pipe", "is a FIFO"), ("file/a.txt", "not a directory")):
        with pytest.raises(ToolError, match=message):
            await workspace.run("write_file", file_path=name, content="x")


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


UNPRIVILEGED = """
import asyncio, os, sys
from pathlib import Path
from tests.agent.tools.workspace import Workspace
from treadle.errors import ToolError
workspace = Workspace(Path(sys.argv[1]))
for tool, more in (("write_file", {"content": "a"}), ("read_file", {}),
                   ("edit_file", {"old_string": "a", "new_string": "b"})):
    asyncio.run(workspace.run(tool, file_path="mine", **more))  # all is imported while we still may
asyncio.run(workspace.run("glob", pattern="*"))
if os.getuid() == 0:
    os.setgid(65534); os.setuid(65534)
for tool, args in (("read_file", {"file_path": "secret"}), ("write_file", {"file_path": "locked/new", "content": "x"}),
                   ("write_file", {"file_path": "secret", "content": "x"}),
                   ("edit_file", {"file_path": "secret", "old_string": "a", "new_string": "b"})):
    try:
        asyncio.run(workspace.run(tool, **args))
    except ToolError as error:
        print(tool, "may not" in str(error) or "not changed" in str(error), error)
    else:
        print(tool, "was allowed")
print("through", "here" in asyncio.run(workspace.run("read_file", file_path="closed/open/a.txt")))
print("glob", "directories that could not be read: 1]" in asyncio.run(workspace.run("glob", pattern="*.txt")))
"""


@pytest.fixture
def shared() -> Iterator[Path]:
    """A directory that everybody may enter; those of pytest are only for the one who runs it."""
    with tempfile.TemporaryDirectory() as name:
        os.chmod(name, 0o755)
        yield Path(name)


def test_files_that_may_not_be_read_or_written_are_clear_errors(shared: Path) -> None:
    root = shared / "work"
    root.mkdir()
    (root / "secret").write_text("a")
    (root / "secret").chmod(0o000)
    (root / "locked").mkdir(mode=0o555)
    (root / "closed" / "open").mkdir(parents=True)
    (root / "closed" / "open" / "a.txt").write_text("here")
    (root / "closed").chmod(0o111)
    here = Path(__file__).parents[3]
    done = subprocess.run(
        [sys.executable, "-c", UNPRIVILEGED, str(root)],
        cwd=here, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": f"{here}:{here / 'src'}"},
    )  # fmt: skip
    (root / "secret").chmod(0o600)
    (root / "closed").chmod(0o700)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert [line.split()[:2] for line in lines] == [
        ["read_file", "True"], ["write_file", "True"], ["write_file", "True"], ["edit_file", "True"],
        ["through", "True"], ["glob", "True"],
    ]  # fmt: skip
    assert (root / "secret").read_text() == "a"


async def test_what_a_killed_writer_left_is_removed_by_the_next(tmp_path: Path) -> None:
    left, fresh = tmp_path / ".treadle-0123456789abcdef.tmp", tmp_path / ".treadle-fedcba9876543210.tmp"
    for file in (left, fresh):
        file.write_text("half")
    os.utime(left, (1, 1))
    await Workspace(tmp_path).run("write_file", file_path="a.txt", content="x")
    assert sorted(os.listdir(tmp_path)) == [fresh.name, "a.txt"]


async def test_a_binary_file_is_replaced_without_showing_it(workspace: Workspace) -> None:
    path = workspace.write("a.bin", b"\0\1")
    await workspace.edit("write_file", file_path="a.bin", content="text\n")
    [event] = workspace.events
    assert isinstance(event, FileChanged) and path.read_text() == "text\n" and "\n-" not in event.diff
    workspace.write("half.txt", b"\xff\xfea")
    assert (await workspace.edit("write_file", file_path="half.txt", content="x")).startswith("Replaced half.txt")
