"""Creates a planning directory, and tells MCP hosts where the ledger server is."""

import os
import sys

from treadle.coordination import repository
from treadle.coordination.ledger import Ledger
from treadle.coordination.planning import Planning, make_dirs, read_text, write_text
from treadle.coordination.table import Blackboard, Symbols
from treadle.errors import ConfigError
from treadle.io.files import open_append
from treadle.wire.common.jsontext import dumps, loads
from treadle.wire.heimdall.messages import schema

SERVER = "heimdall-ledger"


def init(planning: Planning) -> None:
    """Create what is missing, and publish the message schema; existing files stay as they are."""
    make_dirs(planning.path("protocol", "capsules"))
    for document in (Symbols(planning).document, Blackboard(planning).document, Ledger(planning).baselines):
        document.create()
    ledger = Ledger(planning).path
    make_dirs(os.path.dirname(ledger))
    os.close(open_append(ledger, 0o644))
    write_text(planning.path("protocol", "message-schema.json"), dumps(schema(), 2) + "\n")
    planning.log("protocol", "init", planning.path("protocol"))


def write_mcp_config(planning: Planning) -> str:
    """Register the server in `.mcp.json` at the top of the repository, keeping existing entries.

    Hosts start servers in directories of their own choosing, so both the program and the project are full paths.
    """
    found = repository.find(planning.project)
    top = found.top if found else planning.project
    path = os.path.join(top, ".mcp.json")
    text = read_text(path)
    try:
        document = loads(text) if text is not None else {}
        servers = document.setdefault("mcpServers", {})
        servers[SERVER] = {"command": command("heimdall-ledger-mcp"), "args": ["--project", top]}
        if os.environ.get("HEIMDALL_PLANNING_DIR"):  # the host may not have it set
            servers[SERVER]["env"] = {"HEIMDALL_PLANNING_DIR": planning.root}
    except (ValueError, AttributeError, TypeError):
        raise ConfigError(f"{path} is not a list of MCP servers", hint="fix it by hand first") from None
    write_text(path, dumps(document, 2) + "\n")
    planning.log("protocol", "init-mcp", path)
    return path


def command(name: str) -> str:
    """The full path of one of our commands, so that it works from any directory and with any PATH."""
    beside = os.path.join(os.path.dirname(sys.executable), name)
    if os.path.exists(beside):
        return beside
    import shutil

    return shutil.which(name) or name
