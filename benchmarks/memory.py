"""Resident memory of an idle agent process, against an interpreter that has only imported asyncio."""

import subprocess
import sys

IDLE = """
import asyncio, sys
from treadle import SessionSpec, find_agent, run_turn
async def main():
    session = await find_agent("native").open(SessionSpec.of(cwd=".", model="chat:m", persist=False,
        env={"TREADLE_BASE_URL": "http://127.0.0.1:9/v1"}, mode="suggest"))
    print("ready", flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    await session.close()
asyncio.run(main())
"""
BARE = "import asyncio, sys; print('ready', flush=True); sys.stdin.read()"


def main() -> None:
    bare, idle = _resident(BARE), _resident(IDLE)
    print(
        f"an idle agent process {idle:5.1f} MB, {idle / bare:.2f}x a bare asyncio process of {bare:.1f} MB   (goal: 40)"
    )


def _resident(code: str) -> float:
    process = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdin is not None and process.stdout is not None
    process.stdout.readline()
    with open(f"/proc/{process.pid}/status") as status:
        kib = next(int(line.split()[1]) for line in status if line.startswith("VmRSS"))
    process.stdin.close()
    process.wait()
    return kib / 1024


if __name__ == "__main__":
    main()
