"""From `treadle` to the first prompt on a terminal, against a bare prompt of the same library.

Both are started on their own pty, in turn, and timed until the prompt is shown. CPU time is shown too, because it is
the meaningful figure on a busy machine.
"""

import fcntl
import os
import pty
import select
import statistics
import subprocess
import sys
import tempfile
import termios
import time
from pathlib import Path

ROUNDS = 11
ASKS_PLACE = b"\x1b[6n"
BARE = "from prompt_toolkit import prompt; prompt('> ', bottom_toolbar='starting')"


def main() -> None:
    with tempfile.TemporaryDirectory() as scratch:
        script = Path(scratch) / "script.toml"
        script.write_text('[[reply]]\ntext = "hello"\n')
        env = {
            "PATH": os.environ["PATH"],
            "TERM": "xterm-256color",
            "HOME": scratch,
            "TREADLE_HOME": f"{scratch}/state",
            "TREADLE_MODEL": f"scripted:{script}",
        }
        treadle = str(Path(sys.executable).parent / "treadle")
        commands = {"a bare prompt_toolkit prompt": [sys.executable, "-c", BARE], "treadle": [treadle]}
        taken: dict[str, list[tuple[float, float]]] = {name: [] for name in commands}
        for _ in range(ROUNDS):
            for name, command in commands.items():
                taken[name].append(to_the_prompt(command, env, scratch))
    bare = statistics.median(wall for wall, _ in taken["a bare prompt_toolkit prompt"])
    for name, times in taken.items():
        wall, cpu = (statistics.median(column) for column in zip(*times, strict=True))
        least = min(wall for wall, _ in times)
        goal = "   (goal: 250 ms)" if name == "treadle" else ""
        print(f"{name:30} {wall:7.0f} ms, at best {least:.0f}, processor {cpu:.0f}   {wall / bare:.2f}x{goal}")


def to_the_prompt(command: list[str], env: dict[str, str], cwd: str) -> tuple[float, float]:
    """Milliseconds of wall time and of CPU time until both the prompt and the line below it are shown."""
    master, slave = pty.openpty()
    termios.tcsetwinsize(slave, (30, 100))
    started = time.perf_counter()
    process = subprocess.Popen(command, stdin=slave, stdout=slave, stderr=slave, cwd=cwd, env=env, preexec_fn=_own)
    os.close(slave)
    try:
        shown = b""
        while b"starting" not in shown and select.select([master], [], [], 30)[0]:
            data = os.read(master, 65536)
            shown += data
            os.write(master, b"\x1b[1;1R" * data.count(ASKS_PLACE))
        wall = time.perf_counter() - started
        fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
        cpu = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
        return wall * 1000, cpu * 1000
    finally:
        process.kill()
        process.wait()
        os.close(master)


def _own() -> None:
    os.setsid()
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


if __name__ == "__main__":
    main()
