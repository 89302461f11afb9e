"""A repository with two people's agents, and the installed commands run in it as a person would."""

import io
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from treadle.cli.heimdall import dispatch as commands
from treadle.coordination.claims import Claims
from treadle.coordination.identity import SESSION_VARIABLES
from treadle.coordination.mcp import Server
from treadle.coordination.planning import Planning

BIN = Path(sys.executable).parent
Run = Callable[..., "subprocess.CompletedProcess[str]"]


def git(where: Path, *arguments: str) -> str:
    done = subprocess.run(["git", "-C", str(where), *arguments], capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.fixture(autouse=True)
def quiet_git(monkeypatch: pytest.MonkeyPatch) -> None:
    """git without the machine's settings, and with a known user."""
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    for variable in (
        *SESSION_VARIABLES,
        "HEIMDALL_HAID",
        "HEIMDALL_PROCESS",
        "HEIMDALL_PLANNING_DIR",
    ):  # an agent may run the tests
        monkeypatch.delenv(variable, raising=False)
    for who in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{who}_NAME", "Ann")
        monkeypatch.setenv(f"GIT_{who}_EMAIL", "ann@example.org")


@pytest.fixture(scope="session")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository with one commit, to be copied: git takes several times as long to make one."""
    top = tmp_path_factory.mktemp("prepared") / "project"
    (top / "src" / "a").mkdir(parents=True)
    (top / "src" / "a" / "b.ts").write_text("export {}\n")
    git(top, "init", "-q", "-b", "main", "--template=")
    git(top, "config", "user.email", "ann@example.org")
    git(top, "config", "user.name", "Ann")
    git(top, "add", ".")
    git(top, "commit", "-qm", "start")
    (top / ".git" / "hooks").mkdir()
    return top


@pytest.fixture
def project(prepared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with one commit, as the working directory."""
    top = tmp_path / "project"
    shutil.copytree(prepared, top)
    monkeypatch.chdir(top)
    return top


class Clock:
    now = 1_781_179_647.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def planning(tmp_path: Path, clock: Clock) -> Planning:
    return Planning(str(tmp_path / ".planning"), project=str(tmp_path), clock=clock)


def grow_old(claims: Claims, haid: str) -> None:
    """As if this claim had not been renewed for years."""
    claim = claims.of(haid)
    assert claim is not None
    claims.store.write(Path(claim.path).name, {**claim.fields, "heartbeat": "2020-01-01T00:00:00Z"}, 0)


def trail(planning: Planning) -> list[list[str]]:
    return [line.split("\t")[1:] for line in Path(planning.path("protocol.log")).read_text().splitlines()]


@pytest.fixture
def claims(project: Path) -> Claims:
    """Bob's claims."""
    claims = Claims(Planning(project=str(project)), str(project))
    claims.claim("haid:bob.box-0002", ["src/a/**"], "T-1")
    return claims


@pytest.fixture
def installed(project: Path) -> Run:
    """`installed("resolve", "set", "F1", "x")` runs the command `heimdall-resolve set F1 x` in the project."""

    def run(
        name: str, *arguments: str, stdin: str | bytes = "", cwd: Path = project, **env: str
    ) -> "subprocess.CompletedProcess[str]":
        command = [str(BIN / f"heimdall-{name}"), *arguments]
        env = {**os.environ, **env}
        done = subprocess.run(command, input=_given(stdin), capture_output=True, cwd=cwd, env=env, timeout=60)
        return _finished(done.args, done.returncode, done.stdout, done.stderr)

    return run


@pytest.fixture
def heimdall(installed: Run, project: Path) -> Run:
    """The same in the test's own process, because starting Python takes longest; a server gets its own process."""

    def run(
        name: str, *arguments: str, stdin: str | bytes = "", cwd: Path = project, **env: str
    ) -> "subprocess.CompletedProcess[str]":
        if name == "ledger-mcp":
            return installed(name, *arguments, stdin=stdin, cwd=cwd, **env)
        return here(name, *arguments, stdin=stdin, cwd=cwd, **env)

    return run


def here(
    name: str, *arguments: str, cwd: Path, stdin: str | bytes = "", **env: str
) -> "subprocess.CompletedProcess[str]":
    """What `heimdall-NAME` or `treadle coord NAME` does, in this process."""
    out, err = io.BytesIO(), io.BytesIO()
    with pytest.MonkeyPatch.context() as inside:
        inside.chdir(cwd)
        inside.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(_given(stdin))))
        inside.setattr(sys, "stdout", io.TextIOWrapper(out, write_through=True))
        inside.setattr(sys, "stderr", io.TextIOWrapper(err, write_through=True))
        for variable, value in env.items():
            inside.setenv(variable, value)
        code = commands.run(name, list(arguments))
        said = out.getvalue(), err.getvalue()
    return _finished([name, *arguments], code, *said)


def at_once(runs: Iterable[tuple[list[str], dict[str, str]]]) -> list[int]:
    """The exit codes of many commands that run at the same time, each in its own forked process."""
    children = [_forked(words, env) for words, env in runs]
    return [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]


def _forked(words: list[str], env: dict[str, str]) -> int:
    child = os.fork()
    if child == 0:
        code = 99
        try:
            code = here(*words, cwd=Path.cwd(), **env).returncode
        finally:
            os._exit(code)
    return child


def _given(stdin: str | bytes) -> bytes:
    return stdin if isinstance(stdin, bytes) else stdin.encode(errors="surrogateescape")


def _finished(args: list[str], code: int, out: bytes, err: bytes) -> "subprocess.CompletedProcess[str]":
    return subprocess.CompletedProcess(args, code, out.decode(errors="surrogateescape"), err.decode())


@pytest.fixture
def connect(planning: Planning) -> Iterator[Any]:
    servers: list[Server] = []

    def make(name: str | None = None, extended: bool = False) -> Server:
        server = Server(planning, extended=extended)
        servers.append(server)
        if name:
            server.handle("initialize", {"clientInfo": {"name": name, "version": "1"}})
        return server

    yield make
    for server in servers:
        server.close()
