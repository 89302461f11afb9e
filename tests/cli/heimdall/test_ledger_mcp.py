"""`heimdall-ledger-mcp` on its streams."""

import json

from tests.coordination.conftest import Run

ASK = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}


def test_it_speaks_on_its_streams_and_ends_with_them(heimdall: Run) -> None:
    done = heimdall("ledger-mcp", stdin=json.dumps(ASK) + "\n")
    (answer,) = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.returncode == 0 and len(answer["result"]["tools"]) == 6
    more = json.loads(heimdall("ledger-mcp", "--extended", stdin=json.dumps(ASK) + "\n").stdout)
    assert len(more["result"]["tools"]) > 6
