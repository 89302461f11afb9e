"""A push from inside the sandbox that is refused says in plain words what to allow."""

import os
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from tests.agent.checkouts import checkout, git
from tests.agent.tools.workspace import Workspace
from treadle.events import Warned
from treadle.io.sandbox import methods
from treadle.session import Confinement

needs_sandbox = pytest.mark.skipif(methods.available().method is None, reason="needs a sandbox")


class Locked(BaseHTTPRequestHandler):
    """A git server that wants a password."""

    def do_GET(self) -> None:
        self.send_response(401)
        self.send_header("WWW-Authenticate", 'Basic realm="git"')
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[str]:
    with HTTPServer(("127.0.0.1", 0), Locked) as made:
        thread = threading.Thread(target=made.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{made.server_port}/x.git"
        made.shutdown()
        thread.join()


@needs_sandbox
async def test_a_push_that_wants_a_password_says_what_to_allow_and_tells_the_person_once(
    tmp_path: Path, server: str
) -> None:
    top = checkout(tmp_path / "w")
    git(top, "remote", "add", "origin", server)
    walls = Confinement(use="on", network="on", write=(str(top),), temp=str(tmp_path))
    workspace = Workspace(top, confinement=lambda: walls)
    for _ in range(2):
        said = await workspace.run("bash", command="GIT_TERMINAL_PROMPT=0 git push origin main")
        assert "[it could not sign in: " in said and 'read = ["~/.git-credentials"]' in said
    [warned] = [event for event in workspace.events if isinstance(event, Warned)]
    assert warned.code == "git" and "saved passwords" in warned.message


@needs_sandbox
async def test_what_a_command_misses_of_home_and_environment_is_named_with_the_line_that_shows_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, top = tmp_path / "home", checkout(tmp_path / "w")
    (home / ".aws").mkdir(parents=True)
    (home / ".aws" / "config").touch()
    monkeypatch.setenv("HOME", str(home))
    walls = Confinement(use="on", network="on", write=(str(top),), variables=("PATH", "HOME"), temp=str(tmp_path))
    env = {"PATH": os.environ["PATH"], "HOME": str(home), "MINE": "1", "OTHER": "2"}
    workspace = Workspace(top, confinement=lambda: walls, env=env)
    said = await workspace.run("bash", command="echo [$MINE]; cat ~/.aws/config ~/.none")
    assert "[]\n" in said and 'with env = ["MINE"] in the settings]' in said and "OTHER" not in said
    assert 'with read = ["~/.aws/config"] under [sandbox]' in said and ".none is not" not in said
    assert "OTHER is not passed" in await workspace.run("bash", command="python3 -c 'import os; os.environ[\"OTHER\"]'")
    assert "is not" not in await workspace.run("bash", command="echo ~/.aws/config")
