"""Write what the kit knows of a protocol's messages from the schema that the protocol publishes.

    python -m tests.conform.published acp schema.unstable.json
    python -m tests.conform.published mcp schema.json

`schema.unstable.json` is in the package of ACP's SDK for JavaScript: beside the stable one it has further kinds of
messages. That of MCP is in its repository, one for each revision.
"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import treadle.conform

DROPPED = {"description", "title", "examples", "default", "discriminator", "$comment"}
RESULTS = {
    "initialize": "Initialize",
    "tools/list": "ListTools",
    "tools/call": "CallTool",
    "resources/list": "ListResources",
    "resources/templates/list": "ListResourceTemplates",
    "resources/read": "ReadResource",
    "prompts/list": "ListPrompts",
    "prompts/get": "GetPrompt",
    "completion/complete": "Complete",
}


def plain(node: Any) -> Any:
    """The schema without what is said for people only."""
    if isinstance(node, list):
        return [plain(one) for one in node]
    if not isinstance(node, dict):
        return node.rpartition("/")[2] if isinstance(node, str) and node.startswith("#/") else node
    found = {
        key: {name: plain(one) for name, one in value.items()} if key == "properties" else plain(value)
        for key, value in node.items()
        if key not in DROPPED and not key.startswith("x-")
    }
    return found["allOf"][0] if list(found) == ["allOf"] and len(found["allOf"]) == 1 else found


def acp(document: dict[str, Any]) -> dict[str, dict[str, Any]]:
    made: dict[str, dict[str, Any]] = {"results": {}, "asked": {}, "told": {}}
    for name, kind in document["$defs"].items():
        side, method = kind.get("x-side"), kind.get("x-method")
        if side == "agent" and name.endswith("Response"):
            made["results"][method] = name
        elif side in ("client", "protocol") and not name.endswith("Response"):
            made["told" if name.endswith("Notification") else "asked"][method] = name
    return {**made, "kinds": plain(document["$defs"])}


def mcp(document: dict[str, Any]) -> dict[str, dict[str, Any]]:
    kinds = plain(document["definitions"])
    made: dict[str, dict[str, Any]] = {"results": {method: f"{name}Result" for method, name in RESULTS.items()}}
    for group, name in (("asked", "ServerRequest"), ("told", "ServerNotification")):
        found = [kinds[each["$ref"]]["properties"] for each in kinds[name]["anyOf"]]
        made[group] = {each["method"]["const"]: f"{each['method']['const']} params" for each in found}
        kinds |= {f"{each['method']['const']} params": each.get("params", {}) for each in found}
    return {**made, "kinds": kinds}


def needed(table: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """The kinds that the messages of a program are made of."""
    found: dict[str, Any] = {}
    left = [name for group in ("results", "asked", "told") for name in table[group].values()]
    while left:
        if (name := left.pop()) not in found:
            found[name] = table["kinds"][name]
            left += references(found[name])
    return dict(sorted(found.items()))


def references(node: Any) -> Iterator[str]:
    if isinstance(node, dict):
        yield from [node["$ref"]] if isinstance(node.get("$ref"), str) else []
    for inner in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
        yield from references(inner)


def main() -> None:
    protocol, source = sys.argv[1:]
    table = {"acp": acp, "mcp": mcp}[protocol](json.loads(Path(source).read_text()))
    table["kinds"] = needed(table)
    parts = [f'"{group}": {json.dumps(table[group])}' for group in ("results", "asked", "told")]
    kinds = ",\n".join(f"{json.dumps(name)}: {json.dumps(kind)}" for name, kind in table["kinds"].items())
    target = Path(treadle.conform.__file__).parent / f"{protocol}.json"
    target.write_text("{\n" + ",\n".join(parts) + ',\n"kinds": {\n' + kinds + "\n}\n}\n")


if __name__ == "__main__":
    main()
