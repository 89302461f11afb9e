"""An MCP server on its standard streams, in plain Python: one tool, and a line about how it was started.

python notes_server.py LOG
"""

import json
import os
import sys

TOOL = "recall"
SAID = "the violet ledger says forty-two"
DESCRIPTION = "Recalls the violet ledger."


def result(method: str, params: dict[str, object]) -> dict[str, object] | None:
    if method == "initialize":
        about = {"name": "notes", "version": "1"}
        return {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}}, "serverInfo": about}
    if method == "tools/list":
        schema = {"type": "object", "properties": {}}
        return {"tools": [{"name": TOOL, "description": DESCRIPTION, "inputSchema": schema}]}
    if method == "tools/call":
        return {"content": [{"type": "text", "text": SAID}]}
    return None


def main() -> None:
    with open(sys.argv[1], "a", encoding="utf-8") as log:
        log.write(json.dumps({"pid": os.getpid(), "key": os.environ.get("NOTES_KEY")}) + "\n")
    for line in sys.stdin:
        asked = json.loads(line)
        if "id" not in asked:
            continue
        told = result(asked["method"], asked.get("params") or {})
        body = {"result": told} if told is not None else {"error": {"code": -32601, "message": "unknown"}}
        print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], **body}), flush=True)


if __name__ == "__main__":
    main()
