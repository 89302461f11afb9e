"""Takes the commits out of a repository that an agent could write: a git inside a sandbox puts them into a bundle.

That git may run what the agent's settings say, so it runs only behind walls. The bundle is checked
whole when it is taken into our store (`workspace/store.py`).
"""

import os
from collections.abc import Sequence

from treadle.errors import WorkspaceError
from treadle.io import scratch
from treadle.io.sandbox import methods
from treadle.io.sandbox.start import start
from treadle.io.within import within
from treadle.policy.environment import reduced
from treadle.session import Confinement

BUNDLE_SECONDS = 60.0
BUNDLE_CAP = 1 << 30


async def bundle_of(top: str, since: str, shown: Sequence[str]) -> bytes:
    """A bundle of what the repository in the directory `top` has at HEAD beyond a commit.

    `shown`: the objects that it borrows. Raises ConfigError where there is no sandbox.
    """
    with scratch.directory("bundling") as temp:
        walls = Confinement(use="on", network="off", write=(top,), read_only=tuple(shown), temp=temp)
        methods.wanted(walls, None)
        return await bundle_inside(walls, top, ["HEAD", f"^{since}"])


async def bundle_inside(walls: Confinement, root: str, revisions: Sequence[str]) -> bytes:
    """A bundle of what `git rev-list` would list in the directory `root`, made behind these walls."""
    argv = ["git", "bundle", "create", "--quiet", "-", *revisions]
    bundle = bytearray()
    async with await start(walls, argv, cwd=root, env=reduced(os.environ)) as child:
        try:
            async with within(BUNDLE_SECONDS):
                while data := await child.stdio.read():
                    bundle += data
                    if len(bundle) > BUNDLE_CAP:
                        raise WorkspaceError(f"its commits have more than {BUNDLE_CAP} bytes")
                code = await child.wait()
        except TimeoutError:
            raise WorkspaceError(f"its commits were not bundled within {BUNDLE_SECONDS:g} s") from None
    if code != 0:
        raise WorkspaceError(f"its commits are not in the branch: git bundle ended with {code}")
    return bytes(bundle)
