"""What a confined program reads of a person's credentials: nothing, wherever the home and our own files are."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.io.sandbox.rooms import shown_place
from tests.safety import as_nobody
from treadle.io.sandbox import methods
from treadle.io.sandbox.start import start
from treadle.policy import protected
from treadle.sandboxed.confining import Confining, settled
from treadle.session import Confinement
from treadle.settings import config
from treadle.settings.config import SandboxSettings, Settings

pytestmark = pytest.mark.skipif(methods.available().method != "bubblewrap", reason="needs bubblewrap")
DIRECTORIES = {".ssh": "id", ".aws": "credentials", ".gnupg": "key", ".mozilla": "a/cookies", ".config/gh": "hosts.yml"}


def fill(home: Path) -> list[Path]:
    """A file with a canary for each place that is to be hidden."""
    made = []
    for name in protected.CREDENTIALS:
        path = home / name
        is_file = "." in path.name[1:] or path.name.endswith(("history", "rc", "pass", "cnf", "token", "info", "hst"))
        path = path if is_file and name not in DIRECTORIES else path / DIRECTORIES.get(name, "secret")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("canary")
        made.append(path)
    return made


@pytest.fixture(params=["home", "home below /tmp"])
def home(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    with TemporaryDirectory(dir=shown_place() if request.param == "home" else "/tmp", prefix="h-") as base:
        os.chmod(base, 0o755)
        place = Path(base)
        monkeypatch.setenv("HOME", base)
        monkeypatch.setenv("TREADLE_HOME", f"{base}/state")
        monkeypatch.setenv("KUBECONFIG", f"{base}/clusters/one:{base}/clusters/two")
        for name in ("state", "clusters", "w", "bin"):
            (place / name).mkdir()
        (place / "state" / "signing-key").write_text("canary")
        (place / "clusters" / "two").write_text("canary")
        yield place


async def found(home: Path, settings: Settings | None = None, **asked: object) -> set[str]:
    """The files with a canary that a command finds, which looks at all of the home that it sees."""
    walls = settled(Confinement(use="on", **asked), settings or Settings())  # type: ignore[arg-type]
    made = Confining(str(home / "w"), (), walls, session="s")
    try:
        child = await start(made.now(), ["grep", "-rls", "canary", str(home)], cwd=str(home / "w"))
        async with child:
            said = b""
            while data := await child.stdio.read():
                said += data
            await child.wait()
    finally:
        made.close()
    return {os.path.relpath(path, home) for path in said.decode().split()}


async def test_no_credential_no_history_and_nothing_of_ours_is_read(home: Path) -> None:
    assert len(fill(home)) >= 50
    assert await found(home) == set()


async def test_a_program_beside_our_state_shows_nothing_of_it(home: Path) -> None:
    fill(home)
    # As for a driven program that lies in the home directory itself: the directory is shown.
    assert await found(home, read_only=(str(home),)) == set()


async def test_what_the_settings_give_back_is_read_and_nothing_beside_it(home: Path) -> None:
    fill(home)
    (home / ".ssh" / "known_hosts").write_text("canary")
    given = Settings(sandbox=SandboxSettings(read=("~/.aws", "~/.ssh/known_hosts")))
    seen = {".aws/credentials", ".ssh/known_hosts"} if not str(home).startswith("/tmp") else set()
    assert await found(home, given) == seen
    assert await found(home, given, read_only=(str(home),)) == {".aws/credentials", ".ssh/known_hosts"}


async def test_a_driven_agent_reads_its_own_and_no_other_agents(home: Path) -> None:
    fill(home)
    assert await found(home, write=(str(home / ".claude"),)) == {".claude/.credentials.json"}


async def test_a_home_that_is_the_workspace_hides_them_too(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(home)
    walls = Confining(str(home), (), Confinement(use="on"), session="s")
    try:
        child = await start(walls.now(), ["grep", "-rls", "canary", "."], cwd=str(home))
        async with child:
            assert await child.stdio.read() == b""
    finally:
        walls.close()


async def test_a_project_gets_nothing_back_before_it_is_trusted(home: Path) -> None:
    (home / "w" / ".treadle").mkdir()
    (home / "w" / ".treadle" / "config.toml").write_text('[sandbox]\nuse = true\nread = ["~/.ssh"]\nsockets = ["/s"]\n')
    loaded = config.load(str(home / "w"), trusted=False)
    assert loaded.settings.sandbox == SandboxSettings(use=True)
    assert sorted(line.rpartition(": ")[2] for line in loaded.ignored) == ["sandbox.read", "sandbox.sockets"]
    assert config.load(str(home / "w"), trusted=True).settings.sandbox.read == ("~/.ssh",)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs another user to become")
def test_an_ordinary_users_are_hidden_as_well(home: Path) -> None:
    fill(home)
    for path in [home, *home.rglob("*")]:
        os.chown(path, as_nobody.NO_ID, as_nobody.NO_ID)
    made = Confining(str(home / "w"), (), Confinement(use="on"), session="s")
    walls = made.now()
    assert walls is not None
    made.close()
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    walls = Confinement(write=walls.write, hidden=walls.hidden, read_only=(str(home),))
    argv = as_nobody.argv(walls, f"grep -rls canary {home}; echo end", home)
    done = subprocess.run(argv, env=env, capture_output=True, text=True, timeout=60)
    assert done.stdout == "end\n", done.stdout + done.stderr
