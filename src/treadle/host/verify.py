"""What is done with the result of a run beside the receipt: checking it in a fresh directory, and taking its commits.

The check sees the tree that the receipt states, not the directory that the agent left: no cache, ignored file or git
setting of the run can make it pass. Each check has a directory and a /tmp of its own, which go when it ends.
"""

import asyncio
import os

from treadle.errors import WorkspaceError
from treadle.host.check import run_check
from treadle.host.confine import Cage
from treadle.host.job import Job
from treadle.io.removing import remove_tree
from treadle.io.sandbox.start import start
from treadle.io.within import within
from treadle.policy.environment import reduced
from treadle.receipts.trace import Check
from treadle.session import Confinement
from treadle.workspace.workspace import Workspace

BUNDLE_SECONDS = 60.0
BUNDLE_CAP = 1 << 30


async def verify(job: Job, workspace: Workspace, cage: Cage | None, directory: str) -> Check:
    """Run the job's setup and check in `directory`, which is made for it and removed afterwards."""
    assert job.check is not None
    confining = None
    try:
        here = await asyncio.to_thread(workspace.write_result, directory, job.bring)
        confining = cage.around_check(here) if cage is not None else None
        for command in filter(None, (job.setup, job.check)):
            walls = confining.now() if confining is not None else None
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
    if not workspace.committed:
        return None
    walls = cage.inside()
    if walls is None:
        raise WorkspaceError("its commits are not in the branch, because it was not confined")
    said = await bundle_inside(walls, workspace.root, str(place.start))
    return await asyncio.to_thread(workspace.take_commits, said)


async def bundle_inside(walls: Confinement, root: str, since: str) -> bytes:
    """A bundle of what a repository in `root` has at HEAD beyond a commit, made by a git behind these walls."""
    argv = ["git", "bundle", "create", "--quiet", "-", "HEAD", f"^{since}"]
    said = bytearray()
    async with await start(walls, argv, cwd=root, env=reduced(os.environ)) as child:
        try:
            async with within(BUNDLE_SECONDS):
                while data := await child.stdio.read():
                    said += data
                    if len(said) > BUNDLE_CAP:
                        raise WorkspaceError(f"its commits have more than {BUNDLE_CAP} bytes")
                code = await child.wait()
        except TimeoutError:
            raise WorkspaceError(f"its commits were not bundled within {BUNDLE_SECONDS:g} s") from None
    if code != 0:
        raise WorkspaceError(f"its commits are not in the branch: git bundle ended with {code}")
    return bytes(said)
