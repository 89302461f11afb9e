"""`treadle app-server` as an installed command."""

import json
from pathlib import Path

from tests.installed import treadle


def test_it_greets_as_codex_does_and_names_what_it_does_not_use(tmp_path: Path) -> None:
    greeting = {"id": 1, "method": "initialize", "params": {"clientInfo": {"name": "t", "version": "1"}}}
    done = treadle("app-server", "-c", "features.x=true", input=json.dumps(greeting) + "\n", cwd=tmp_path)
    told = json.loads(done.stdout)
    assert told["id"] == 1 and "jsonrpc" not in told and told["result"]["platformFamily"] == "unix"
    assert done.returncode == 0 and "features.x is not used" in done.stderr


def test_it_listens_on_its_standard_streams_only() -> None:
    done = treadle("app-server", "--listen", "ws://127.0.0.1:1")
    assert done.returncode == 1 and "stdio:// is" in done.stderr
