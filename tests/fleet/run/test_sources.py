"""Where the files of an order are found on a node. Only what was made by another order comes from the engine."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, cast

import pytest
from msgspec.structs import replace

from tests.fleet.conftest import spec
from tests.fleet.repositories import git
from treadle.errors import WorkspaceError
from treadle.fleet import submission
from treadle.fleet.engine import streams
from treadle.fleet.engine.bus import Bus
from treadle.fleet.orders import encode
from treadle.fleet.run import trees
from treadle.wire.fleet.orders import OrderPolicy
from treadle.wire.fleet.records import Order

NO_ENGINE = cast(Bus, None)
DYING = """#!/bin/sh
for last; do :; done
mkdir -p "$last/.git"
kill -9 $NODE
"""


async def find(**fields: Any) -> str:
    return await trees.find(NO_ENGINE, spec(**fields))


async def test_a_directory_here_is_taken_as_it_is(repository: Path, tmp_path: Path) -> None:
    head = trees.head_commit(str(repository))
    assert await find(root=str(repository), base=head) == str(repository)
    assert await find(root=str(tmp_path)) == str(tmp_path) and trees.head_commit(str(tmp_path)) == ""
    assert await find(root=str(tmp_path), base=head, in_place=True) == str(tmp_path)


async def test_what_is_not_here_or_not_that_repository_is_turned_down(repository: Path, tmp_path: Path) -> None:
    head = trees.head_commit(str(repository))
    with pytest.raises(trees.NotHere, match="has no /nowhere .*--bundle"):
        await find(root="/nowhere")
    with pytest.raises(trees.NotHere, match=f"has no {tmp_path} at {head[:12]}"):
        await find(root=str(tmp_path), base=head)
    with pytest.raises(trees.NotHere, match="at 0123"):
        await find(root=str(repository), base="0123" * 10)


async def test_a_repository_is_fetched_once_and_brought_up_to_date(repository: Path) -> None:
    place = await find(repo=str(repository), base=trees.head_commit(str(repository)))
    assert place != str(repository)
    git(repository, "commit", "-q", "--allow-empty", "-m", "more")
    newer = trees.head_commit(str(repository))
    assert await find(repo=str(repository), base=newer) == place
    with pytest.raises(WorkspaceError, match="has no commit 0123") as found:
        await find(repo=str(repository), base="0123" * 10)
    assert not isinstance(found.value, trees.NotHere), "it is the same on every node"


@pytest.mark.slow
async def test_what_a_killed_node_left_of_a_clone_is_not_taken_for_the_repository(
    repository: Path, tmp_path: Path
) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "git").write_text(DYING)
    (tmp_path / "bin" / "git").chmod(0o755)
    code = (
        "import os; os.environ['NODE'] = str(os.getpid())\n"
        "from tests.fleet.conftest import spec; from treadle.fleet.run import trees\n"
        f"trees._fetch(spec(repo={str(repository)!r}))"
    )
    path = f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}"
    node = subprocess.run([sys.executable, "-c", code], env={**os.environ, "PATH": path}, check=False)
    assert node.returncode == -signal.SIGKILL
    place = await find(repo=str(repository), base=trees.head_commit(str(repository)))
    assert git(Path(place), "rev-parse", "HEAD") == git(repository, "rev-parse", "HEAD")


async def test_a_bundle_is_unpacked_once_and_work_of_another_order_is_fetched_from_it(
    bus: Bus, repository: Path, tmp_path: Path
) -> None:
    head = trees.head_commit(str(repository))
    sent = await submission.send(bus, spec(root=str(repository), base=head))
    far = replace(sent, root="/nowhere")
    place = await trees.find(bus, far)
    assert git(Path(place), "cat-file", "-t", head) == "commit" and await trees.find(bus, far) == place
    with pytest.raises(WorkspaceError, match="the bundled repository has no commit 0123"):
        await trees.find(bus, replace(far, base="0123" * 10))
    clone = tmp_path / "clone"
    git(repository, "clone", "-q", str(repository), str(clone))
    git(clone, "commit", "-q", "--allow-empty", "-m", "made elsewhere")
    made = git(clone, "rev-parse", "HEAD")
    git(clone, "update-ref", f"refs/treadle/{made}", made)
    git(clone, "bundle", "create", "-q", str(tmp_path / "made"), f"refs/treadle/{made}", f"^{head}")
    await streams.put(bus, "made", (tmp_path / "made").read_bytes())
    order = Order(id="o1", state="done", changed=1.0, result={"commit": made})
    going_on = spec(root=str(repository), base=made, continues="o1")
    results: list[dict[str, str]] = [{"commit": made}, {"commit": head, "bundle": "made"}]
    for result in results:
        await bus.put("order.o1", encode(replace(order, result=result)))
        with pytest.raises(trees.NotHere):
            await trees.find(bus, going_on)
    for other in (replace(going_on, continues=""), replace(going_on, continues="never-was")):
        with pytest.raises(trees.NotHere):
            await trees.find(bus, other)
    await streams.put(bus, "broken", b"no bundle")
    await bus.put("order.o1", encode(replace(order, result={"commit": made, "bundle": "broken"})))
    with pytest.raises(trees.NotHere):
        await trees.find(bus, going_on)
    await bus.put("order.o1", encode(replace(order, result={"commit": made, "bundle": "made"})))
    assert await trees.find(bus, going_on) == str(repository)
    assert git(repository, "rev-parse", f"refs/treadle/{made}") == made


async def test_what_is_nowhere_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(trees.NotHere, match="this node has no directory for the order") as refused:
        await find()
    assert refused.value.hint == "submit with --bundle, or --repo URL, or a label of a node that has it"
    assert trees.head_commit("/nowhere") == "" and await trees.see_source_branch(spec(land="main"), str(tmp_path)) == ""
    git(tmp_path, "init", "-q", "-b", "main")
    assert await trees.see_source_branch(spec(land="main"), str(tmp_path)) == "", "a branch that is here is as it is"


def test_an_order_s_policy_is_that_of_its_session() -> None:
    made = trees.policy_of(spec(policy=OrderPolicy(deny_write=("*.lock",), allow_network=("a.example",))))
    assert (made.deny_write, made.allow_network, made.deny_read) == (["*.lock"], ["a.example"], [])
