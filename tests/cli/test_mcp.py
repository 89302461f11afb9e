"""`treadle mcp` as a person meets it; a client meets it in tests/e2e/test_mcp.py."""

import subprocess
from pathlib import Path

from click.testing import CliRunner

from tests.cli.served import talk
from tests.installed import treadle
from tests.scripts import calls, says
from treadle.cli.doors import mcp
from treadle.errors import ConfigError


def run(*arguments: str, given: str = "") -> subprocess.CompletedProcess[str]:
    return treadle("mcp", *arguments, input=given)


def test_an_agent_or_a_mode_that_does_not_exist_is_said_before_anything_is_served() -> None:
    for arguments, words in (
        (["--agent", "nobody"], "no agent"),
        (["--permission-mode", "wild"], "no permission mode"),
    ):
        done = run(*arguments)
        assert done.returncode == 1 and words in done.stderr and done.stdout == ""


def test_what_is_piped_in_is_answered() -> None:
    done = run(
        given='garbage\n{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}\n{"id":2,"method":"tools/list"}\n'
    )
    assert done.returncode == 0
    assert "-32700" in done.stdout and '"serverInfo"' in done.stdout and '"inputSchema"' in done.stdout


def test_a_client_puts_the_agent_to_work_as_far_as_the_person_allowed(tmp_path: Path) -> None:
    (tmp_path / "s.toml").write_text(says("Here.", when="hello") + calls("bash", {"command": "touch made"}))
    words = ("mcp", "--model", f"scripted:{tmp_path / 's.toml'}", "--permission-mode", "suggest")
    with talk(*words, cwd=tmp_path) as client:
        client.ask(
            "initialize", 1, protocolVersion="2025-06-18", capabilities={}, clientInfo={"name": "t", "version": "1"}
        )
        client.ask("tools/call", 2, name="run", arguments={"prompt": "hello"})
        assert "Here." in str(client.until(id=2)["result"])
        client.ask("tools/call", 3, name="run", arguments={"prompt": "touch it", "mode": "yolo"})
        assert "suggest" in str(client.until(id=3)) and not (tmp_path / "made").exists()


def test_a_network_that_nothing_could_limit_is_refused_before_anything_is_served() -> None:
    refused = CliRunner().invoke(mcp, ["--no-sandbox", "--network", "off"])
    assert isinstance(refused.exception, ConfigError) and "nothing can limit the network" in str(refused.exception)
