"""A repository on its way to a node that has no copy."""

import os
import subprocess
from pathlib import Path

import msgspec
import pytest

from tests.fleet.conftest import Start, give, spec
from tests.fleet.repositories import edits, git, work
from treadle.errors import WorkspaceError
from treadle.fleet import client, submission
from treadle.fleet.engine import streams
from treadle.fleet.engine.bus import Bus
from treadle.landing import train


@pytest.mark.slow
async def test_a_repository_travels_to_a_node_that_has_no_copy(
    bus: Bus, start_node: Start, repository: Path, tmp_path: Path
) -> None:

    await start_node()
    order = await submission.send(bus, work(repository, edits(tmp_path, "x", "a.txt", "two")))
    order = msgspec.structs.replace(order, root="/nowhere/of/that/name")
    await give(bus, order)
    ended = await client.wait(bus, order.id, 90)
    assert ended.state == "done", ended.why
    assert subprocess.run(["git", "cat-file", "-e", ended.result["commit"]], cwd=repository).returncode
    name = await train.ensure(bus, str(repository), "main", verify="true")
    await train.board(bus, name, [order.id])
    await train.Train(bus, name, (await train.load(bus, name))[0]).run(lambda found: not found.queue)
    assert (repository / "a.txt").read_text() == "two"
    assert os.path.isdir(repository)


async def test_what_is_in_no_repository_cannot_be_sent_and_a_base_is_found(
    bus: Bus, repository: Path, tmp_path: Path
) -> None:
    with pytest.raises(WorkspaceError, match=f"{tmp_path} is not in a git repository, so it cannot be sent") as refused:
        await submission.send(bus, spec(root=str(tmp_path), base="0123" * 10))
    assert refused.value.hint == "leave out --bundle"
    head = git(repository, "rev-parse", "HEAD")
    sent = await submission.send(bus, spec(root=str(repository), land="main"))
    assert (sent.base, sent.bundle) == (head, f"source.{head}")
    given = tmp_path / "given.bundle"
    given.write_bytes(await streams.get(bus, sent.bundle))
    assert head in git(repository, "bundle", "list-heads", str(given)) and "refs/treadle" not in git(
        repository, "show-ref"
    )
