"""`treadle share` beside a running `treadle serve`."""

import json
from pathlib import Path

from tests.cli.terminal.shells import Shell
from tests.installed import started


def test_a_terminal_is_shared_from_the_directory_that_the_server_shows(shell: Shell, tmp_path: Path) -> None:
    shell("run", "--detach", "--id", "here", "--", "sleep", "100")
    shell("run", "--detach", "--id", "there", "--socket-dir", str(tmp_path / "d"), "--", "sleep", "100")
    with started("serve", "--port", "0", "--json", "--terminals", "d", cwd=tmp_path) as server:
        try:
            assert server.stdout is not None
            while "url" not in (line := server.stdout.readline()):
                assert line, "it ended without a word"
            assert "/share.html#" in json.loads(shell("share", "there", "--json"))["url"]
            assert "No session found: here" in shell.run("share", "here").stderr
        finally:
            server.terminate()
            server.communicate(timeout=60)
            shell("kill", "there", "--socket-dir", str(tmp_path / "d"), "--grace", "0")
