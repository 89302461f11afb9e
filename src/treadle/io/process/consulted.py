"""A program that is asked something on its stdin and answers on its stdout, such as a hook, within a time limit."""

import asyncio

import msgspec

from treadle.errors import PeerClosed
from treadle.io.process.child import Child
from treadle.io.within import end_tasks

OUTPUT_CAP = 24 * 1024


class Consulted(msgspec.Struct, frozen=True, kw_only=True):
    exit_code: int | None
    """None when it took too long."""
    stdout: str = ""
    stderr: str = ""


async def consult(child: Child, message: bytes, timeout: float) -> Consulted:
    """The child's answer to the message. Afterwards nothing of it is running."""
    telling = asyncio.create_task(_tell(child, message))
    hearing = asyncio.create_task(_hear(child))
    code: int | None = None
    try:
        async with asyncio.timeout(timeout):
            code = await child.wait()
    except TimeoutError:
        pass
    finally:
        # This also ends what the child left running, so that nothing holds its stdout open any more.
        await child.stop(grace=1.0)
        await end_tasks(telling)
    return Consulted(exit_code=code, stdout=await hearing, stderr=await child.last_words())


async def _tell(child: Child, message: bytes) -> None:
    try:
        await child.stdio.write(message + b"\n")
    except PeerClosed:
        pass  # it does not want to read the message
    child.stdio.close_write()


async def _hear(child: Child) -> str:
    """The beginning of its stdout; the rest is read, so that it can continue, and dropped."""
    output = b""
    while data := await child.stdio.read():
        output += data[: OUTPUT_CAP - len(output)]
    return output.decode(errors="replace")
