"""A right server of the Model Context Protocol, small, with one fault if its argument names one (`rpc.py`)."""

import os
import threading
from typing import Any

from rpc import F, Peer, Refused

PEER = Peer()
VERSIONS = ("2025-06-18", "2025-03-26", "2024-11-05")
SAFE = {"readOnlyHint": True, "openWorldHint": False}
TEXT = {"type": "string"}
NUMBER = {"type": "number"}


def schema(**fields: Any) -> dict[str, Any]:
    return {"type": "object", "properties": fields, "required": sorted(fields)}


def tools() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = [
        {"name": "echo", "description": "Say it again", "inputSchema": schema(text=TEXT), "annotations": SAFE},
        {
            "name": "add",
            "inputSchema": schema(a=NUMBER, b=NUMBER),
            "outputSchema": schema(sum=NUMBER),
            "annotations": SAFE,
        },
        {"name": "clock", "inputSchema": {"type": "object"}, "annotations": SAFE},
        {"name": "picture", "inputSchema": {"type": "object"}, "annotations": SAFE},
        {"name": "link", "inputSchema": {"type": "object"}, "annotations": SAFE},
    ]
    first, second = found[0], found[1]
    if F("two tools have one name"):
        second["name"] = "echo"
    if F("a tool has no name"):
        del found[3]["name"]
    if F("a tool has no schema"):
        del found[2]["inputSchema"]
    if F("a schema is of no object"):
        second["inputSchema"] = {"type": "string"}
    if F("a type of a schema is unknown"):
        first["inputSchema"]["properties"]["text"] = {"type": "str"}
    if F("a schema names what is required in its fields"):
        first["inputSchema"] = {"type": "object", "properties": {"text": {"type": "string", "required": True}}}
    if F("a required argument is no property"):
        first["inputSchema"]["required"] = ["text", "other"]
    if F("a description is no text"):
        first["description"] = ["Say it again"]
    if F("an output schema is of no object"):
        second["outputSchema"] = {"type": "number"}
    if F("annotations are no object"):
        first["annotations"] = "read-only"
    if F("a hint is text"):
        first["annotations"] = {"readOnlyHint": "yes"}
    return found


RESOURCES: list[dict[str, Any]] = [
    {"uri": f"memo://{number}", "name": f"memo {number}", "mimeType": "text/plain"} for number in range(5)
]
PROMPTS: list[dict[str, Any]] = [
    {"name": "greet", "arguments": [{"name": "who", "required": True}]},
    {"name": "bye"},
    {"name": "thanks"},
]


def page(kind: str, items: list[dict[str, Any]], params: dict[str, Any]) -> Any:
    cursor = params.get("cursor")
    if cursor is not None and (not isinstance(cursor, str) or not cursor.isdigit() or int(cursor) >= len(items)):
        if not F("any cursor is taken"):
            raise Refused(-32602)
        cursor = None
    first = int(cursor or 0)
    if F(f"the pages of {kind} overlap"):
        first = max(0, first - 1)
    found: dict[str, Any] = {kind: items[first : first + 2]}
    if F(f"the list of {kind} is none"):
        found[kind] = {each.get("name"): each for each in items}
    if F(f"the list of {kind} has no end"):
        return {**found, "nextCursor": "2"}
    if first + 2 < len(items):
        found["nextCursor"] = first + 2 if F(f"the next page of {kind} is a number") else str(first + 2)
    elif F(f"the end of {kind} is null"):
        found["nextCursor"] = None
    return found


# F("the pages of tools overlap"), F("the pages of resources overlap"), F("the list of tools is none"),
# F("the list of resources is none"), F("the list of prompts is none"), F("the list of tools has no end"),
# F("the list of resources has no end"), F("the list of prompts has no end"),
# F("the next page of tools is a number"), F("the next page of prompts is a number"), F("the end of tools is null")


def initialize(params: dict[str, Any]) -> Any:
    version = params.get("protocolVersion")
    if version not in VERSIONS and not F("any version is spoken"):
        version = VERSIONS[0]
    if F("the version is no date"):
        version = "latest"
    found: dict[str, Any] = {
        "protocolVersion": version,
        "capabilities": {
            "tools": {},
            "resources": {"subscribe": True},
            "prompts": {},
            "logging": {},
            "completions": {},
        },
        "serverInfo": {"name": "right", "version": "1"},
        "instructions": 7 if F("the instructions are a number") else "Be kind.",
    }
    if F("logs are written and not offered"):
        del found["capabilities"]["logging"]
    if F("completions are there and not offered"):
        del found["capabilities"]["completions"]
    if F("a capability is true"):
        found["capabilities"]["tools"] = True
    if F("there are no capabilities"):
        del found["capabilities"]
    if F("the server has no version"):
        del found["serverInfo"]["version"]
    if F("the server says nothing of itself"):
        del found["serverInfo"]
    return found


def called(params: dict[str, Any]) -> Any:
    name, given = params.get("name"), params.get("arguments", {})
    if F("arguments are needed where none are required") and "arguments" not in params:
        raise Refused(-32602)
    tool = next((each for each in tools() if each.get("name") == name), None)
    if tool is None:
        if F("an unknown tool is fine"):
            return {"content": [{"type": "text", "text": "ok"}]}
        raise Refused(-32603 if F("an unknown tool is an internal error") else -32602)
    if not isinstance(given, dict):
        if F("arguments that are a list are fatal"):
            os._exit(1)
        if not F("arguments that are a list are fine"):
            raise Refused(-32602)
        given = {}
    needed = tool.get("inputSchema", {}).get("required", [])
    if any(each not in given for each in needed):
        if F("a missing argument is fatal"):
            os._exit(1)
        if F("a missing argument is fine"):
            return {"content": [{"type": "text", "text": "ok"}]}
        return {"isError": True, "content": [{"type": "text", "text": "an argument is missing"}]}
    if F("a right call is not answered"):
        threading.Event().wait()
    if F("a second call is not answered"):
        BUSY.acquire()
    for one in LEVELS:
        if LEVELS.index(one) >= LEVELS.index(LEAST[-1]) or F("the level is not kept to"):
            PEER.tell("notifications/message", {"level": "fatal" if F("a level is unknown") else one, "data": "called"})
    if F("a call with _meta is refused") and "_meta" in params:
        raise Refused(-32602)
    token = (params.get("_meta") or {}).get("progressToken")
    steps = [1, 1] if F("progress stands still") else [1, 2]
    for step in steps if token is not None or F("progress is told to who did not ask") else []:
        about = "another" if F("progress is of another call") else token
        PEER.tell("notifications/progress", {"progressToken": about, "progress": step})
    if F("progress goes on after the end"):
        late = {"progressToken": token, "progress": 3}
        threading.Timer(0.1, PEER.tell, ["notifications/progress", late]).start()
    return result(str(name), given)


BUSY = threading.Lock()
LAST: list[Any] = []


def result(name: str, given: dict[str, Any]) -> Any:
    if F("an argument of a megabyte is fatal") and len(str(given)) > 1_000_000:
        os._exit(1)
    if F("a right call is an internal error"):
        raise Refused(-32603)
    blocks = {
        "picture": {"type": "image", "data": "aGk=", "mimeType": "image/png"},
        "link": {"type": "resource_link", "uri": "memo://0", "name": "memo 0"},
    }
    text = "no text" if F("an answer is of another call") else str(given.get("text", "hm"))
    found: dict[str, Any] = {"content": [blocks.get(name, {"type": "text", "text": text})]}
    if name == "add":
        found["structuredContent"] = {"sum": given["a"] + given["b"]}
        if F("structured output is missing"):
            del found["structuredContent"]
        if F("structured output does not fit its schema"):
            found["structuredContent"] = {"sum": "three"}
        if F("structured output lacks a field"):
            found["structuredContent"] = {}
        if F("structured output is text"):
            found["structuredContent"] = '{"sum": 3}'
    if F("content is plain text"):
        found["content"] = "hm"
    if F("a result has no content"):
        del found["content"]
    if F("a block has no type"):
        found["content"] = [{"text": "hm"}]
    if F("a block of text has none"):
        found["content"] = [{"type": "text"}]
    if F("a picture has no type") and name == "picture":
        found["content"] = [{"type": "image", "data": "aGk="}]
    if F("a picture is no base64") and name == "picture":
        found["content"] = [{"type": "image", "data": "<png>", "mimeType": "image/png"}]
    if F("a link has no uri") and name == "link":
        found["content"] = [{"type": "resource_link", "name": "memo"}]
    if F("a block's type is unknown"):
        found["content"] = [{"type": "html", "text": "<b>"}]
    if F("whether it failed is text"):
        found["isError"] = "false"
    return found


def read(params: dict[str, Any]) -> Any:
    uri = params.get("uri")
    if uri not in [each["uri"] for each in RESOURCES]:
        if F("an unknown resource is empty"):
            return {"contents": []}
        raise Refused(-32002)
    content: dict[str, Any] = {"uri": uri, "mimeType": "text/plain", "text": "A memo."}
    if F("what is read is another resource"):
        content["uri"] = RESOURCES[-1]["uri"]
    if F("only the first resource can be read") and uri != RESOURCES[0]["uri"]:
        raise Refused(-32603)
    if F("what is read has no uri"):
        del content["uri"]
    if F("what is read has neither text nor bytes"):
        del content["text"]
    return {"content": [content]} if F("what is read is named otherwise") else {"contents": [content]}


def got(params: dict[str, Any]) -> Any:
    prompt = next((each for each in PROMPTS if each["name"] == params.get("name")), None)
    if prompt is None:
        if F("an unknown prompt is fine"):
            return {"messages": []}
        raise Refused(-32602)
    if prompt["name"] == "greet" and not (params.get("arguments") or {}).get("who"):
        if not F("a prompt's missing argument is fine"):
            raise Refused(-32602)
    message: dict[str, Any] = {"role": "user", "content": {"type": "text", "text": "Hello."}}
    if F("a prompt's role is unknown"):
        message["role"] = "system"
    if F("a prompt's content is plain text"):
        message["content"] = "Hello."
    return {} if F("a prompt has no messages") else {"messages": [message]}


LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")
LEAST = ["notice"]


def level(params: dict[str, Any]) -> Any:
    if params.get("level") in LEVELS:
        LEAST.append(params["level"])
    elif not F("any level is taken"):
        raise Refused(-32602)
    return {}


def complete(params: dict[str, Any]) -> Any:
    values = ["world"] * (101 if F("there are more than 100 completions") else 1)
    return {"completion": "world" if F("a completion is plain text") else {"values": values}}


FOLLOWED: list[str] = []


def follow(uri: str) -> Any:
    FOLLOWED.append(uri)
    threading.Timer(0.3, follow_on, [uri]).start()
    return {}


def follow_on(uri: str) -> None:
    if uri in FOLLOWED or F("it tells of changes after the end of a subscription"):
        PEER.tell("notifications/resources/updated", {"uri": uri})
        threading.Timer(0.3, follow_on, [uri]).start()


def main() -> None:
    PEER.methods = {
        "initialize": initialize,
        "ping": lambda params: {"ok": True} if F("a ping is answered with more") else {},
        "tools/list": lambda params: page("tools", tools(), params),
        "tools/call": called,
        "resources/list": lambda params: page("resources", resources(), params),
        "resources/templates/list": lambda params: {"resourceTemplates": []},
        "resources/read": read,
        "resources/subscribe": lambda params: follow(params["uri"]),
        "resources/unsubscribe": lambda params: FOLLOWED.clear() or {},
        "prompts/list": lambda params: page("prompts", prompts(), params),
        "prompts/get": got,
        "logging/setLevel": level,
        "completion/complete": complete,
    }
    PEER.slow = {"tools/call"}
    absent = {
        "tools/list": F("tools are offered and absent"),
        "resources/list": F("resources are offered and absent"),
        "resources/templates/list": F("templates of resources are absent"),
        "resources/subscribe": F("subscriptions are offered and absent"),
        "prompts/list": F("prompts are offered and absent"),
        "logging/setLevel": F("levels are offered and absent"),
        "completion/complete": F("completions are offered and absent"),
        "ping": F("there is no ping"),
    }
    for method, gone in absent.items():
        if gone:
            del PEER.methods[method]
    if F("the client is asked for what it does not offer"):
        PEER.notices = {
            "notifications/initialized": lambda params: PEER.send({"id": "x", "method": "roots/list", "params": {}})
        }
    if F("a change is told that was not offered"):
        PEER.notices = {"notifications/initialized": lambda params: PEER.tell("notifications/tools/list_changed", {})}
    if F("a cancel of nothing is fatal"):
        PEER.notices = {"notifications/cancelled": lambda params: os._exit(1)}
    PEER.serve()


def resources() -> list[dict[str, Any]]:
    if F("a resource has no uri"):
        return [{"name": "memo"}]
    if F("two resources have one uri"):
        return [RESOURCES[0], RESOURCES[0]]
    return RESOURCES


def prompts() -> list[dict[str, Any]]:
    if F("a prompt has no name"):
        return [{"description": "hm"}]
    if F("arguments of a prompt are no list"):
        return [{"name": "greet", "arguments": {"who": {"required": True}}}]
    return PROMPTS


if __name__ == "__main__":
    main()
