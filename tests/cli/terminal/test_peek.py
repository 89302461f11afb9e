"""`treadle peek`: the screen as it is."""

import json
from pathlib import Path

from tests.cli.terminal.shells import Shell
from tests.terminal.support import until


def test_peek_shows_the_screen(shell: Shell, tmp_path: Path) -> None:
    shell("run", "--detach", "--id", "x", "--cols", "40", "--rows", "5", "--", "sh", "-c", "printf '\\033[31mred'; cat")
    until(lambda: shell("peek", "x") == "red\n")
    assert json.loads(shell("peek", "x", "--json"))["cursor"] == {"x": 3, "y": 0, "visible": True}
    shell("peek", "x", "--png", str(tmp_path / "x.png"))
    assert (tmp_path / "x.png").read_bytes().startswith(b"\x89PNG")
