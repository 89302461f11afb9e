"""Forty secrets planted wherever one can be, looked for in all that we write: logs, receipts, events, errors, history.

Twenty are ours, in variables of the environment: nothing may have them, not even a session's history. Twenty stand in
the workspace, the prompt and the model's words, in the shapes that keys have: a history keeps what was said, as resume
needs it; everything that leaves this machine or outlives the session does not.
"""

import json
import os
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from tests.installed import treadle
from tests.scripts import says
from treadle.io.sandbox import methods

NAMES = (
    *("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "TREADLE_API_KEY", "GEMINI_API_KEY", "GROQ_API_KEY", "MISTRAL_API_KEY"),
    *("GH_TOKEN", "GITHUB_TOKEN", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "NPM_TOKEN", "PYPI_TOKEN", "MY_SECRET"),
    *("DATABASE_PASSWORD", "DB_PASSWD", "STRIPE_SECRET_KEY", "SLACK_TOKEN", "CI_JOB_TOKEN", "VAULT_TOKEN"),
    "SSH_PRIVATE_KEY",
)
SHAPES = (
    *("sk-proj-{}", "ghp_{}", "github_pat_{}", "glpat-{}", "xoxb-{}", "npm_{}", "hf_{}", "pypi-{}", "sk_live_{}"),
    *("rk_test_{}", "ya29.{}", "hvs.{}", "postgres://me:{}@db.example.com/x", "https://a.b/c?access_token={}&d=e"),
    *("aws_secret_access_key = {}", "api_key={}", "password: {}", "Authorization: Bearer {}", "DEPLOY_TOKEN={}"),
    '{{"client_secret":"{}"}}',
)
OURS = {name: f"canary{number:02}of0the0environment" for number, name in enumerate(NAMES)}
THEIRS = [f"canary{number}0123456789abcdef0123456789abcdef" for number in range(len(OURS), len(OURS) + len(SHAPES))]
SAID = [shape.format(secret) for shape, secret in zip(SHAPES, THEIRS, strict=True)]
LOOK = r"env; cat /proc/*/environ | tr '\\0' '\\n'; cat leak.txt; ps axe"


def script() -> str:
    look = {"name": "bash", "arguments": {"command": f"{LOOK}; echo {SAID[0]}"}}
    read = {"name": "read_file", "arguments": {"file_path": "leak.txt"}}
    return says(f"I have seen: {' , '.join(SAID)}", call=[look, read]) + says(f"Done: {SAID[1]}")


class Place:
    def __init__(self, base: Path) -> None:
        self.workspace, self.home, self.log = base / "w", base / "home", base / "log.jsonl"
        self.workspace.mkdir()
        (self.workspace / "leak.txt").write_text("\n".join(SAID) + "\n")
        (base / "script.toml").write_text(script())
        self.script = f"scripted:{base}/script.toml"

    def run(self, *arguments: str, code: int = 0, **env: str) -> str:
        """What it prints on both of its outputs."""
        state = {"TREADLE_HOME": str(self.home), "TREADLE_LOG": f"debug:{self.log}"}
        env = {**os.environ, **OURS, **state, "TREADLE_MODEL": self.script, **env}
        done = treadle(*arguments, env=env, cwd=self.workspace, stderr=subprocess.STDOUT, timeout=120)
        assert done.returncode == code, done.stdout
        return done.stdout

    def written(self) -> dict[str, str]:
        files = [path for path in self.home.rglob("*") if path.is_file()]
        if self.log.exists():
            files.append(self.log)
        assert files
        return {str(path): path.read_bytes().decode("latin-1") for path in files}


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def found(secrets: list[str], texts: dict[str, str]) -> list[tuple[str, str]]:
    return [(secret, name) for name, text in texts.items() for secret in secrets if secret in text]


def test_forty_are_planted() -> None:
    assert len(OURS) == len(THEIRS) == 20 and len({*OURS.values(), *THEIRS}) == 40


if methods.available().method == "bubblewrap":

    @pytest.mark.parametrize("form", ["text", "json", "stream-json"])
    def test_a_confined_run_writes_none_of_ours_anywhere(place: Place, form: str) -> None:
        said = place.run("-p", f"fix {SAID[2]}", "--permission-mode", "full-auto", "--output-format", form)
        texts = place.written()
        assert any(THEIRS[0] in text for name, text in texts.items() if "/sessions/" in name), "nothing was looked at"
        assert found([*OURS.values()], {"what it printed": said, **texts}) == []
        assert found(THEIRS, {name: text for name, text in texts.items() if "/sessions/" not in name}) == []


def test_no_receipt_no_event_and_no_log_of_a_run_has_any(place: Place) -> None:
    said = place.run("host", "run", "--task", f"fix {SAID[3]}", "--agent", "native", "--json")
    assert "run_completed" in said
    texts = {name: text for name, text in place.written().items() if "/sessions/" not in name}
    assert any("/receipts/" in name for name in texts)
    assert found([*OURS.values(), *THEIRS], {"what it printed": said, **texts}) == []
    shown = place.run("receipt", "show", "latest", "--json")
    assert found([*OURS.values(), *THEIRS], {"the receipt": shown}) == []


class Echo(BaseHTTPRequestHandler):
    """A service that says in its error which key it was given."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", "0")))
        given = [value for name, value in self.headers.items() if "auth" in name.lower() or "key" in name.lower()]
        body = json.dumps({"error": {"message": f"wrong key: {given}", "type": "invalid_request_error"}}).encode()
        self.send_response(401)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def service() -> Iterator[str]:
    with HTTPServer(("127.0.0.1", 0), Echo) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


@pytest.mark.parametrize(
    ("model", "variable"), [("openai:x", "OPENAI_BASE_URL"), ("anthropic:x", "ANTHROPIC_BASE_URL")]
)
def test_a_service_that_repeats_the_key_does_not_have_it_printed(
    place: Place, service: str, model: str, variable: str
) -> None:
    said = place.run("-p", "hi", "--model", model, code=1, **{variable: service, "TREADLE_API_KEY": ""})
    assert "wrong key" in said
    assert found([*OURS.values()], {"what it printed": said, **place.written()}) == []
