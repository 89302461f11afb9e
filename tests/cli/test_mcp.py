"""`treadle mcp` as a person meets it; a client meets it in tests/e2e/test_mcp.py."""

import subprocess

from tests.installed import treadle


def run(*arguments: str, given: str = "") -> subprocess.CompletedProcess[str]:
    return treadle("mcp", *arguments, input=given)


def test_the_help_shows_how_to_add_it_to_a_client() -> None:
    assert "claude mcp add treadle -- treadle mcp --agent codex" in run("--help").stdout


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
