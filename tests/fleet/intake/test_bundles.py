"""A repository on its way to a node that has no copy."""

import os
import subprocess
from pathlib import Path

import msgspec

from tests.fleet.conftest import Start, give
from tests.fleet.repositories import edits, work
from treadle.fleet import client
from treadle.fleet.engine.bus import Bus
from treadle.fleet.intake import bundles
from treadle.landing import merging


async def test_a_repository_travels_to_a_node_that_has_no_copy(
    bus: Bus, start_node: Start, repository: Path, tmp_path: Path
) -> None:

    await start_node()
    order = await bundles.send(bus, work(repository, edits(tmp_path, "x", "a.txt", "two")))
    order = msgspec.structs.replace(order, root="/nowhere/of/that/name")
    await give(bus, order)
    ended = await client.wait(bus, order.id, 90)
    assert ended.state == "done", ended.why
    assert subprocess.run(["git", "cat-file", "-e", ended.result["commit"]], cwd=repository).returncode
    steps = await merging.merge(bus, [order.id], str(repository))
    assert steps[0].merged and (repository / "a.txt").read_text() == "two"
    assert os.path.isdir(repository)
