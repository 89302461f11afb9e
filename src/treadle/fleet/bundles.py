"""Sends a repository to nodes that have no copy: everything up to the order's base commit, in one object."""

import asyncio
import os

from msgspec.structs import replace

from treadle.errors import WorkspaceError
from treadle.fleet.engine import objects
from treadle.fleet.engine.bus import Bus
from treadle.io import scratch
from treadle.io.reading import read
from treadle.wire.fleet.orders import Spec
from treadle.workspace.git import Repository, git


async def send(bus: Bus, spec: Spec) -> Spec:
    """The order, with its repository stored beside it."""
    repository = await asyncio.to_thread(Repository.find, spec.root)
    if repository is None or not spec.base:
        raise WorkspaceError(f"{spec.root} is not in a git repository, so it cannot be sent", hint="leave out --bundle")
    name = f"source.{spec.base}"
    data = await asyncio.to_thread(_bundle, repository, spec.base)
    await objects.put(bus, name, data)
    return replace(spec, bundle=name)


def _bundle(repository: Repository, base: str) -> bytes:
    ref = f"refs/treadle/{base}"
    with repository.lock(), scratch.directory("bundle") as here:
        path = os.path.join(here, "source.bundle")
        git("update-ref", ref, base, cwd=repository.top)
        try:
            git("bundle", "create", "--quiet", path, ref, cwd=repository.top, timeout=600)
        finally:
            git("update-ref", "-d", ref, cwd=repository.top, check=False)
        return read(path)
