"""Four signals end every command that goes on: no process and no temporary file of it is left."""

import os
import select
import signal
import subprocess
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from typing import IO

import pytest

from tests.cli.fleet.test_demo import nothing_left
from tests.fleet.repositories import git
from tests.installed import TREADLE, treadle
from tests.scripts import calls
from tests.waiting import until
from treadle.cli import root
from treadle.cli.help import every

pytestmark = pytest.mark.slow

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
TOOL = calls("bash", {"command": "sleep 600"}, when="go on", text="I wait.")
GOING_ON: dict[str, tuple[str, ...]] = {
    "verify": ("--check", "sleep 600"),
    "conform": ("mcp", "sleep", "600"),
    "serve": ("--port", "0"),
    "a2a": ("--port", "0"),
    "acp": (),
    "app-server": (),
    "mcp": (),
    "worker": (),
    "sidecar": (),
    "exec": ("--json", "--dangerously-bypass-approvals-and-sandbox", "go on"),
    "host run": ("--task", "go on", "--agent", "native"),
    "-p": ("go on", "--permission-mode", "yolo", "--output-format", "stream-json"),
    "tail": ("-f", "here"),
    "wait": ("here", "--exit"),
    "fleet node": ("--name", "second"),
}
"""Commands that go on until they are ended, and the arguments that they need here."""


def test_each_of_them_is_a_command_and_all_that_serve_a_protocol_are_here() -> None:
    table = {" ".join(path[1:]): root.COMMANDS.get(path[-1], "") for path in every()}
    doors = {name for name, place in table.items() if place.startswith(("treadle.cli.doors:", "treadle.cli.serve:"))}
    assert doors - {"door"} <= set(GOING_ON) - {"-p"} <= set(table), "`door` has those of other distributions"


@pytest.mark.parametrize("name", GOING_ON)
async def test_a_signal_ends_it_and_leaves_nothing(name: str, tmp_path: Path) -> None:
    work, script, place = tmp_path / "work", tmp_path / "script.toml", tmp_path / "tmp"
    for made in (work, place):
        made.mkdir()
    script.write_text(TOOL)
    (work / "a.txt").write_text("one\n")
    git(work, "init", "-q", "-b", "main")
    git(work, "add", "-A")
    git(work, "-c", "user.name=A", "-c", "user.email=a@example.org", "commit", "-qm", "a")
    (work / "a.txt").write_text("two\n")
    env = {**os.environ, "TMPDIR": str(place), "TREADLE_MODEL": f"scripted:{script}"}
    with ExitStack() as stack:
        if "here" in GOING_ON[name]:
            assert treadle("run", "--id", "here", "--detach", "--", "sh", "-c", "echo begun; sleep 600").returncode == 0
            stack.callback(treadle, "kill", "here")
        if name == "fleet node":
            assert treadle("fleet", "up", "--name", "first", "--no-page").returncode == 0
            stack.callback(treadle, "fleet", "down", "--forget", "--yes")
        for number in SIGNALS:
            each = stack.enter_context(
                subprocess.Popen(
                    [TREADLE, *name.split(), *GOING_ON[name]],
                    cwd=work,
                    env=env,
                    stdin=subprocess.DEVNULL if GOING_ON[name] else subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                )
            )
            stack.callback(each.kill)
            if each.stdin:
                each.stdin.write(b"x\n")
                each.stdin.flush()
            assert each.stdout
            out = each.stdout
            await until(partial(at_work, each, out, place))
            assert each.poll() is None, each.stdout.read().decode()
            each.send_signal(number)
            code, told = each.wait(60), out.read().decode()
            ended = (0, 128 + number, -number)  # light commands leave their end to the signal: a shell shows the same
            assert code in ((1, *ended) if name == "host run" else ended), (number, told)
            assert "Traceback" not in told
            await nothing_left(place)


def at_work(child: subprocess.Popen[bytes], out: IO[bytes], place: Path) -> bool:
    """Whether it prints, has a temporary file or, all that is seen of a command that waits, a socket."""
    if child.poll() is not None or select.select([out], [], [], 0)[0] or any(place.glob("treadle-tmp-*")):
        return True
    files = f"/proc/{child.pid}/fd"
    with suppress(OSError):
        return any(os.readlink(f"{files}/{each}").startswith("socket:") for each in os.listdir(files))
    return False
