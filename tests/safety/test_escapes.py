"""Every way out that we know, tried for real, as root and as a user without any rights; judged by effect."""

import os
import shlex
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.io.sandbox.rooms import repository, room, sh, shown_place
from tests.machines import path_without
from tests.safety import as_nobody, corpora
from treadle.io.paths import state_dir
from treadle.io.sandbox import landlock, methods
from treadle.session import Confinement

USERS = ["root", "root for another", "nobody"] if os.geteuid() == 0 else ["user"]
"""Root who works in the directory of another user, as in a container, has one capability."""
method = methods.available().method


class World:
    """What there is to be reached: a workspace, files outside, sockets, a port, our own state."""

    def __init__(self, base: Path) -> None:
        self.outside, self.workspace, self.state = base / "out", base / "w", Path(state_dir())
        for place in (self.outside, self.workspace, self.workspace / "secrets", self.workspace / ".vscode", self.state):
            place.mkdir(parents=True, exist_ok=True)
        (self.outside / "file").write_text("as it was")
        (self.state / "kept").write_text("canary")
        repository(self.workspace)
        (self.workspace / ".git" / "info" / "attributes").write_text("")
        (self.workspace / "secrets" / "key").write_text("canary")
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.local = socket.socket(socket.AF_UNIX)
        self.local.bind(str(base / "s"))
        self.local.listen()
        self.abstract = socket.socket(socket.AF_UNIX)
        self.abstract.bind(f"\0treadle-abstract-{os.getpid()}")
        self.abstract.listen()
        self.socket = str(base / "s")
        self.walls = room(self.workspace, network="off", hidden=(str(self.workspace / "secrets"),))

    def attempts(self, user: str) -> list[str]:
        return corpora.escapes(
            OUT=str(self.outside),
            HOST=as_nobody.SELF_PID if user == "nobody" else str(os.getpid()),
            PORT=str(self.listener.getsockname()[1]),
            SOCKET=self.socket,
            STATE=str(self.state),
            TEST=str(os.getpid()),
        )

    def close(self) -> None:
        for one in (self.listener, self.local, self.abstract):
            one.close()


@pytest.fixture
def world() -> Iterator[World]:
    # Not below /tmp, which a sandbox has its own of: what is tried is what it does with places that it shows.
    with tempfile.TemporaryDirectory(dir=shown_place(), prefix="world-") as base:
        os.chmod(base, 0o755)
        made = World(Path(base))
        yield made
        made.close()


def script(tried: list[str]) -> str:
    lines = [
        f"echo; echo '#{at}'; timeout 10 bash -c {shlex.quote(one)} < /dev/null 2>&1" for at, one in enumerate(tried)
    ]
    return "\n".join([*lines, "echo; echo '#end'"])


def give_away(place: Path) -> None:
    for path in [place, *place.rglob("*")]:
        os.chown(path, as_nobody.NO_ID, as_nobody.NO_ID, follow_symlinks=False)


def run_as_nobody(world: World, command: str) -> str:
    give_away(world.workspace)
    give_away(world.state)
    argv = as_nobody.argv(world.walls, command, world.outside.parent, world.state)
    env = {**os.environ, "TREADLE_HOME": str(world.state), "PYTHONPATH": str(Path(__file__).parents[2])}
    done = subprocess.run(
        argv, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300, errors="replace"
    )
    return done.stdout


async def run(world: World, user: str, command: str, walls: Confinement) -> str:
    if user == "nobody":
        return run_as_nobody(world, command)
    return (await sh(walls, command, world.workspace, env=as_nobody.ENV)).text


if method == "bubblewrap":

    @pytest.mark.parametrize("user", USERS)
    async def test_no_way_out_works(user: str, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("SOME_KEY", "canary-of-ours")
        harmless = "python3 -I -S -c 'pass' && echo GOT"
        tried = [*world.attempts(user), harmless]  # which shows that the others could have been heard
        assert len(tried) >= 100
        if user == "root for another":
            give_away(world.workspace)
        said = await run(world, user, script(tried), world.walls)
        results = said.split("\n#")[1:]
        assert len(results) == len(tried) + 1 and results[-1].startswith("end"), said[-2000:]
        out = [(tried[at], result) for at, result in enumerate(results[:-1]) if "GOT" in result.split("\n")]
        assert [one for one, _ in out] == [harmless], out
        assert sorted(os.listdir(world.outside)) == ["file"] and (world.outside / "file").read_text() == "as it was"
        assert (world.workspace / "secrets" / "key").read_text() == "canary"
        assert [path for path in world.workspace.rglob("*") if path.lstat().st_mode & 0o4000] == []

elif method == "landlock":

    async def test_nothing_outside_is_written(world: World) -> None:
        """All that Landlock promises; the rest is named by `treadle doctor` and in docs/explanation/safety.md."""
        tried = [
            one.replace("OUT", str(world.outside))
            for one in corpora.commands("escapes-writes")
            if "chmod" not in one and "utime" not in one
        ]
        said = (await sh(world.walls, script(tried), world.workspace, env=as_nobody.ENV)).text
        out = [tried[at] for at, result in enumerate(said.split("\n#")[1:-1]) if "GOT" in result.split("\n")]
        assert out == [] and (world.outside / "file").read_text() == "as it was"


@pytest.fixture
def no_bubblewrap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A machine without the program, which is looked for once in each process."""
    monkeypatch.setenv("PATH", path_without("bwrap", tmp_path / "programs"))
    methods.available.cache_clear()
    yield
    monkeypatch.undo()
    methods.available.cache_clear()


@pytest.fixture
def holder() -> Iterator[int]:
    """A process of ours that holds a key, as our commands do."""
    code = "import sys, treadle; treadle.hold_secrets(); print('held', flush=True); sys.stdin.read()"
    env = {**os.environ, "SOME_KEY": "canary-of-ours"}
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", code], env=env, stdin=pipe, stdout=pipe) as process:
        assert process.stdout is not None and process.stdout.readline() == b"held\n"
        yield process.pid
        process.kill()


@pytest.mark.slow
async def test_landlock_keeps_writes_inside_where_it_is_there(world: World, no_bubblewrap: None, holder: int) -> None:
    """The second choice, tried also where the first works. It has no rights of root's, and the same filter."""
    if landlock.problem() is not None:
        assert methods.available().method is None
        return
    assert methods.available().method == "landlock"
    left_open = (
        "chmod",
        "utime",
        "chown",
        "setfattr",
        "touch OUT/file",
    )  # attributes: the kernel's Landlock has no say
    tried = [
        one.replace("OUT", str(world.outside))
        for one in corpora.commands("escapes-writes")
        if not any(word in one for word in left_open)
    ]
    tried += [
        *corpora.commands("escapes-owner"),
        *corpora.commands("escapes-calls"),
        "mknod dev b 8 0 && echo GOT",
        "chroot / true && echo GOT",
    ]
    tried.append(f"cat /proc/{holder}/environ | grep -q canary && echo GOT")
    walls = Confinement(write=(str(world.workspace),))
    said = (await sh(walls, script(tried), world.workspace, env=as_nobody.ENV)).text
    out = [tried[at] for at, result in enumerate(said.split("\n#")[1:-1]) if "GOT" in result.split("\n")]
    assert out == []
    assert (world.outside / "file").read_text() == "as it was" and os.listdir(world.outside) == ["file"]
