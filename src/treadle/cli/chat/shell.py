"""`!command`: a command that the person runs, shown as it runs and reported to the agent with the next prompt."""

import os
from collections.abc import Callable
from dataclasses import dataclass

from treadle.io.process.child import Tail, start

REPORTED_BYTES = 16 << 10
"""How many bytes of the output the agent gets; of a longer one, the end."""


@dataclass(frozen=True)
class CommandDone:
    code: int
    report: str
    """What the agent gets to read about the command."""


async def own_command(command: str, cwd: str, show: Callable[[str], None]) -> CommandDone:
    """Run the command, show its lines, and return what the agent is told about it. Cancelling this ends the command."""
    shell = os.environ.get("SHELL") or "/bin/sh"
    output, begun = Tail(REPORTED_BYTES), b""
    async with await start([shell, "-c", command], cwd=cwd, env=os.environ, stderr="stdout") as child:
        while data := await child.stdio.read():
            output.feed(data)
            lines, newline, begun = (begun + data).rpartition(b"\n")
            if newline:
                show((lines + newline).decode("utf-8", "replace"))
        if begun:
            show(begun.decode("utf-8", "replace") + "\n")
        code = await child.wait()
    return CommandDone(code, output.text if code == 0 else f"{output.text}\n(exit code {code})")
