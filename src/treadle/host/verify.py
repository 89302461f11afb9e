"""What is done with the result of a run beside the receipt: checking it in a fresh directory, and taking its commits.

The check sees the tree that the receipt states, not the directory that the agent left: no cache, ignored file or git
setting of the run can make it pass. Each check has a directory and a /tmp of its own, which go when it ends. It has the
network of a command, for it runs what the agent wrote; the setup, which is there to download, has the machine's.
"""

import asyncio

from treadle.agent.bundling import bundle_inside
from treadle.errors import WorkspaceError
from treadle.host.check import run_check
from treadle.host.confine import Cage
from treadle.host.job import Job
from treadle.io.removing import remove_tree
from treadle.receipts.trace import Check
from treadle.workspace.workspace import Workspace


async def verify(job: Job, workspace: Workspace, cage: Cage | None, directory: str) -> Check:
    """Run the job's setup and check in `directory`, which is made for it and removed afterwards."""
    assert job.check is not None
    confining = None
    try:
        here = await asyncio.to_thread(workspace.write_result, directory, job.bring)
        confining = cage.around_check(here) if cage is not None else None
        for command in filter(None, (job.setup, job.check)):
            walls = None
            if confining is not None:
                walls = confining.for_command() if command == job.check else confining.now()
            done = await run_check(command, here, confinement=walls)
            if not done.ok:
                break
        return done
    finally:
        if confining is not None:
            confining.close()
        await asyncio.to_thread(remove_tree, directory)


async def commits_of(workspace: Workspace, cage: Cage) -> str | None:
    """The run's last commit, brought into our store with all before it. None when it is the one that it began with.

    The bundle is made by a git inside the sandbox, because the repository there is the agent's. Raises WorkspaceError
    when nothing was confined, or when what came out is not whole.
    """
    place = workspace.place
    if not await asyncio.to_thread(workspace.has_committed):
        return None
    walls = cage.inside()
    if walls is None:
        raise WorkspaceError("its commits are not in the branch, because it was not confined")
    bundle = await bundle_inside(walls, workspace.root, ["HEAD", f"^{place.start}"])
    return await asyncio.to_thread(workspace.take_commits, bundle)
