import asyncio
import os
import threading
from pathlib import Path

import pytest

from tests.agent.tools.workspace import Workspace
from treadle.agent.tools import files
from treadle.errors import ToolError
from treadle.events import FileChanged


@pytest.mark.parametrize("swapped", ["file", "directory"])
@pytest.mark.parametrize("doing", ["read", "write"])
def test_a_symlink_swapped_in_after_permission_was_given_is_not_followed(
    workspace: Workspace, tmp_path: Path, swapped: str, doing: str
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    secret = outside / "a.txt"
    secret.write_text("secret\n")
    path = workspace.write("dir/a.txt", "old\n")
    loaded = files.load(path)
    if swapped == "file":
        path.unlink()
        path.symlink_to(secret)
    else:
        path.parent.rename(workspace.root / "moved")
        (workspace.root / "dir").symlink_to(outside)
    with pytest.raises(ToolError):
        if doing == "read":
            files.open_regular(path)
        else:
            files.save(workspace.context, loaded, b"new\n", "old\n", "new\n")
    assert secret.read_text() == "secret\n" and not workspace.events


def test_a_file_that_appeared_meanwhile_is_not_overwritten(workspace: Workspace) -> None:
    loaded = files.load(workspace.root / "new.txt")
    assert loaded.stamp is None
    path = workspace.write("new.txt", "theirs\n")
    with pytest.raises(ToolError, match="another process changed"):
        files.save(workspace.context, loaded, b"mine\n", "", "mine\n")
    assert path.read_text() == "theirs\n"


def test_two_who_make_the_same_directories_at_once_both_get_there(workspace: Workspace) -> None:
    barrier = threading.Barrier(8)
    failures: list[BaseException] = []

    def make(number: int) -> None:
        barrier.wait()
        try:
            loaded = files.load(workspace.root / "a/b/c" / f"{number}.txt")
            files.save(workspace.context, loaded, b"x", "", "x")
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=make, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures and len(os.listdir(workspace.root / "a/b/c")) == 8


async def test_an_interrupted_write_is_finished_and_told(workspace: Workspace) -> None:
    begun, go_on = threading.Event(), threading.Event()
    change = FileChanged(path="/x", change="added")

    def work() -> tuple[str, FileChanged | None]:
        begun.set()
        assert go_on.wait(60)
        return "done", change

    running = asyncio.create_task(files.changing(workspace.context, work))
    await asyncio.to_thread(begun.wait, 60)
    running.cancel()
    await asyncio.sleep(0)
    assert not running.done()
    go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert workspace.events == [change]
