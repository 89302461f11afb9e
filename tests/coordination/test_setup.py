"""init, and `.mcp.json`."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.coordination.conftest import Run, trail
from treadle.coordination.hosts import command, init, write_mcp_config
from treadle.coordination.ledger import Symbols
from treadle.coordination.planning import Planning
from treadle.errors import ConfigError
from treadle.wire.heimdall.messages import schema


def test_init_makes_what_is_missing_and_keeps_what_is_there(project: Path) -> None:
    planning = Planning(project=str(project))
    Symbols(planning).set("F1", "x")
    init(planning)
    init(planning)
    assert Symbols(planning).get("F1") == "x"
    assert json.loads(Path(planning.path("protocol", "message-schema.json")).read_text()) == schema()
    assert Path(planning.path("protocol", "ledger.jsonl")).read_text() == ""
    assert Path(planning.path("protocol", "baselines.json")).exists()


def test_the_registered_command_works_from_any_directory(heimdall: Run, project: Path, tmp_path: Path) -> None:
    (project / ".mcp.json").write_text('{"mcpServers":{"other":{"command":"x"}},"more":1}')
    assert heimdall("protocol", "init", "--mcp", cwd=project / "src").returncode == 0
    config = json.loads((project / ".mcp.json").read_text())
    assert config["more"] == 1 and config["mcpServers"]["other"] == {"command": "x"}
    entry = config["mcpServers"]["heimdall-ledger"]
    request = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "tools/call",
        "params": {"name": "make_claim", "arguments": {"surfaces": ["x"], "task": "T"}},
    }
    done = subprocess.run(
        [entry["command"], *entry["args"]],
        input=json.dumps(request).encode(),
        cwd="/",
        env={name: value for name, value in os.environ.items() if name != "PATH"} | {"PATH": "/usr/bin:/bin"},
        capture_output=True,
    )
    assert done.returncode == 0, done.stderr
    assert heimdall("claim", "list").stdout.startswith("ACTIVE CLAIMS (1)")


def test_a_planning_directory_elsewhere_is_told_to_the_host(heimdall: Run, project: Path) -> None:
    heimdall("protocol", "init", "--mcp", HEIMDALL_PLANNING_DIR="plans")
    entry = json.loads((project / ".mcp.json").read_text())["mcpServers"]["heimdall-ledger"]
    assert entry["env"] == {"HEIMDALL_PLANNING_DIR": str(project / "plans")}


@pytest.mark.parametrize("text", ["{", "[]", '{"mcpServers": 3}'])
def test_a_file_of_another_kind_is_left_alone(project: Path, text: str) -> None:
    (project / ".mcp.json").write_text(text)
    with pytest.raises(ConfigError):
        write_mcp_config(Planning(project=str(project)))
    assert (project / ".mcp.json").read_text() == text


def test_outside_of_a_repository_the_project_is_the_top_and_it_is_in_the_trail(tmp_path: Path) -> None:
    planning = Planning(str(tmp_path / "plans"), project=str(tmp_path))
    init(planning)
    assert trail(planning) == [["protocol", "init", planning.path("protocol")]]
    assert write_mcp_config(planning) == str(tmp_path / ".mcp.json")
    (entry,) = json.loads((tmp_path / ".mcp.json").read_text())["mcpServers"].values()
    assert entry == {"command": command("heimdall-ledger-mcp"), "args": ["--project", str(tmp_path)]}
