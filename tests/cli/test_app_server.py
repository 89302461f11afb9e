"""`treadle app-server` as an installed command."""

import json
from pathlib import Path

from click.testing import CliRunner

from tests.cli.served import talk
from tests.installed import treadle
from tests.scripts import calls
from treadle.cli.doors import app_server
from treadle.errors import ConfigError


def test_it_greets_as_codex_does_and_names_what_it_does_not_use(tmp_path: Path) -> None:
    greeting = {"id": 1, "method": "initialize", "params": {"clientInfo": {"name": "t", "version": "1"}}}
    done = treadle("app-server", "-c", "features.x=true", input=json.dumps(greeting) + "\n", cwd=tmp_path)
    told = json.loads(done.stdout)
    assert told["id"] == 1 and "jsonrpc" not in told and told["result"]["platformFamily"] == "unix"
    assert done.returncode == 0 and "features.x is not used" in done.stderr


def test_it_listens_on_its_standard_streams_only() -> None:
    done = treadle("app-server", "--listen", "ws://127.0.0.1:1")
    assert done.returncode == 1 and "stdio:// is" in done.stderr


def test_looking_is_free_and_everything_else_is_asked_of_the_client(tmp_path: Path) -> None:
    (tmp_path / "s.toml").write_text(
        calls("bash", {"command": "ls"}, when="go") + calls("bash", {"command": "touch made"}, when="s.toml")
    )
    words = ("app-server", "--model", f"scripted:{tmp_path / 's.toml'}", "--permission-mode", "suggest")
    with talk(*words, cwd=tmp_path) as client:
        client.ask("initialize", 1, clientInfo={"name": "t", "version": "1"})
        client.ask("thread/start", 2, cwd=str(tmp_path))
        thread = client.until(id=2)["result"]["thread"]["id"]
        client.ask("turn/start", 3, threadId=thread, input=[{"type": "text", "text": "go"}])
        asked = client.until(method="item/commandExecution/requestApproval")
        assert asked["params"]["command"] == "touch made" and not (tmp_path / "made").exists()


def test_a_network_that_nothing_could_limit_is_refused_before_anything_is_served() -> None:
    refused = CliRunner().invoke(app_server, ["--no-sandbox", "--network", "off"])
    assert isinstance(refused.exception, ConfigError) and "nothing can limit the network" in str(refused.exception)
    found = app_server.make_context("x", ["-c", "a=1", "--config", "b=2"]).params
    assert found["config"] == ("a=1", "b=2") and found["listen"] == "stdio://"
