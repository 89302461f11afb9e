"""`treadle acp` as a person meets it; an editor meets it in tests/e2e/test_acp.py."""

import subprocess
from pathlib import Path

from click.testing import CliRunner

from tests.cli.served import talk
from tests.installed import treadle
from tests.scripts import calls
from treadle.cli.doors import acp
from treadle.errors import ConfigError


def run(*arguments: str, given: str = "") -> subprocess.CompletedProcess[str]:
    return treadle("acp", *arguments, input=given)


def test_an_agent_or_a_mode_that_does_not_exist_is_said_before_anything_is_served() -> None:
    for arguments, words in (
        (["--agent", "nobody"], "no agent"),
        (["--permission-mode", "wild"], "no permission mode"),
    ):
        done = run(*arguments)
        assert done.returncode == 1 and words in done.stderr and done.stdout == ""


def test_an_editor_that_leaves_at_once_is_no_failure() -> None:
    assert run().returncode == 0


def test_garbage_is_answered_and_survived() -> None:
    done = run(
        given='garbage\n{"jsonrpc":"2.0","id":1,"method":"session/new"}\n{"id":2,"method":"initialize","params":{}}\n'
    )
    assert done.returncode == 0
    assert '"id":1' in done.stdout and "-32600" in done.stdout and "agentCapabilities" in done.stdout


def test_what_the_agent_may_not_do_by_itself_is_asked_of_the_editor(tmp_path: Path) -> None:
    (tmp_path / "s.toml").write_text(calls("bash", {"command": "touch made"}))
    with talk(
        "acp", "--model", f"scripted:{tmp_path / 's.toml'}", "--permission-mode", "suggest", cwd=tmp_path
    ) as editor:
        editor.ask("initialize", 1, protocolVersion=1, clientCapabilities={})
        editor.ask("session/new", 2, cwd=str(tmp_path), mcpServers=[])
        session = editor.until(id=2)["result"]
        assert session["modes"]["currentModeId"] == "suggest"
        prompt = [{"type": "text", "text": "go"}]
        editor.ask("session/prompt", 3, sessionId=session["sessionId"], prompt=prompt)
        asked = editor.until(method="session/request_permission")
        assert "touch made" in str(asked["params"]) and not (tmp_path / "made").exists()


def test_a_network_that_nothing_could_limit_is_refused_before_anything_is_served() -> None:
    refused = CliRunner().invoke(acp, ["--no-sandbox", "--network", "off"])
    assert isinstance(refused.exception, ConfigError) and "nothing can limit the network" in str(refused.exception)
