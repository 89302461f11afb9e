"""Runs the person's command that checks the work."""

import os

from treadle.io.process import child as children
from treadle.io.sandbox.start import start
from treadle.io.within import within
from treadle.policy.environment import reduced
from treadle.policy.network import offline
from treadle.receipts.trace import Check
from treadle.session import Confinement

CHECK_SECONDS = 600.0


async def run_check(
    command: str, cwd: str, seconds: float = CHECK_SECONDS, confinement: Confinement | None = None
) -> Check:
    """Run the person's check command in the workspace; says whether the work is good."""
    argv = ["sh", "-c", command]
    async with await start(confinement, argv, cwd=cwd, env=reduced(os.environ), stderr="stdout") as child:
        tail = children.Tail(8192)

        async def collect() -> int:
            while data := await child.stdio.read():
                tail.feed(data)
            return await child.wait()

        try:
            async with within(seconds):
                code: int | None = await collect()
        except TimeoutError:
            code = None
            tail.feed(f"\n[it did not end within {seconds:g} s]".encode())
        if confinement is not None and confinement.network == "off" and code and (why := offline(tail.text)):
            tail.feed(f"\n[{why}]".encode())
        if exceeded := child.exceeded(tail.text if code else ""):
            tail.feed(f"\n[{exceeded}]".encode())
    return Check(command=command, exit_code=code, output_tail=tail.text)
