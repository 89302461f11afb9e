"""Where the files of an order are found on a node. Only what was made by another order comes from the engine."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, cast

import pytest

from tests.fleet.conftest import spec
from tests.fleet.repositories import git
from treadle.errors import WorkspaceError
from treadle.fleet.engine.bus import Bus
from treadle.fleet.run import sources

NO_ENGINE = cast(Bus, None)
DYING = """#!/bin/sh
for last; do :; done
mkdir -p "$last/.git"
kill -9 $NODE
"""


async def find(**fields: Any) -> str:
    return await sources.find(NO_ENGINE, spec(**fields))


async def test_a_directory_here_is_taken_as_it_is(repository: Path, tmp_path: Path) -> None:
    head = sources.commit_of(str(repository))
    assert await find(root=str(repository), base=head) == str(repository)
    assert await find(root=str(tmp_path)) == str(tmp_path) and sources.commit_of(str(tmp_path)) == ""
    assert await find(root=str(tmp_path), base=head, in_place=True) == str(tmp_path)


async def test_what_is_not_here_or_not_that_repository_is_turned_down(repository: Path, tmp_path: Path) -> None:
    head = sources.commit_of(str(repository))
    with pytest.raises(sources.NotHere, match="has no /nowhere .*--bundle"):
        await find(root="/nowhere")
    with pytest.raises(sources.NotHere, match=f"has no {tmp_path} at {head[:12]}"):
        await find(root=str(tmp_path), base=head)
    with pytest.raises(sources.NotHere, match="at 0123"):
        await find(root=str(repository), base="0123" * 10)


async def test_a_repository_is_fetched_once_and_brought_up_to_date(repository: Path) -> None:
    place = await find(repo=str(repository), base=sources.commit_of(str(repository)))
    assert place != str(repository)
    git(repository, "commit", "-q", "--allow-empty", "-m", "more")
    newer = sources.commit_of(str(repository))
    assert await find(repo=str(repository), base=newer) == place
    with pytest.raises(WorkspaceError, match="has no commit 0123") as found:
        await find(repo=str(repository), base="0123" * 10)
    assert not isinstance(found.value, sources.NotHere), "it is the same on every node"


async def test_what_a_killed_node_left_of_a_clone_is_not_taken_for_the_repository(
    repository: Path, tmp_path: Path
) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "git").write_text(DYING)
    (tmp_path / "bin" / "git").chmod(0o755)
    code = (
        "import os; os.environ['NODE'] = str(os.getpid())\n"
        "from tests.fleet.conftest import spec; from treadle.fleet.run import sources\n"
        f"sources._fetch(spec(repo={str(repository)!r}))"
    )
    path = f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}"
    node = subprocess.run([sys.executable, "-c", code], env={**os.environ, "PATH": path}, check=False)
    assert node.returncode == -signal.SIGKILL
    place = await find(repo=str(repository), base=sources.commit_of(str(repository)))
    assert git(Path(place), "rev-parse", "HEAD") == git(repository, "rev-parse", "HEAD")
