"""Agent cards: how an agent says what it is and where it is spoken to."""

from typing import Any

import msgspec

from treadle.wire.a2a.versions import VERSIONS, Malformed, Version, version_of

BINDING = "JSONRPC"


class AgentAddress(msgspec.Struct, frozen=True, kw_only=True):
    """What a client takes from a card."""

    name: str
    url: str
    version: Version
    agent_version: str = ""
    streaming: bool = False
    images: bool = False


def card(
    *, name: str, description: str, url: str, version: str, images: bool, push: bool, token: bool
) -> dict[str, Any]:
    """One that clients of both versions read: each ignores the fields of the other."""
    modes = ["text/plain", "application/json"]
    modes += ["image/png", "image/jpeg", "image/gif", "image/webp"] if images else []
    skill = {
        "id": "code",
        "name": "Coding",
        "description": "Reads, changes and runs code in its working directory, and answers questions about it.",
        "tags": ["code", "files", "shell"],
        "examples": ["Why does the build fail?", "Add a test for the parser."],
    }
    found: dict[str, Any] = {
        "name": name,
        "description": description,
        "version": version,
        "supportedInterfaces": [
            {"url": url, "protocolBinding": BINDING, "protocolVersion": spoken} for spoken in VERSIONS
        ],
        "capabilities": {"streaming": True, "pushNotifications": push},
        "defaultInputModes": modes,
        "defaultOutputModes": ["text/plain"],
        "skills": [skill],
        # What a client of 0.3 looks for.
        "protocolVersion": "0.3.0",
        "url": url,
        "preferredTransport": BINDING,
    }
    if token:
        scheme = {"httpAuthSecurityScheme": {"scheme": "Bearer"}, "type": "http", "scheme": "bearer"}
        found |= {"securitySchemes": {"token": scheme}, "security": [{"token": []}]}
        found["securityRequirements"] = [{"schemes": {"token": {"list": []}}}]
    return found


def read_card(found: Any) -> AgentAddress:
    """Where and how to speak to an agent; Malformed when it is no card, or names no way that we speak."""
    if not isinstance(found, dict) or not isinstance(found.get("name"), str):
        raise Malformed("there is no agent card")
    offered = _offered(found)
    for wanted in VERSIONS:
        for url, binding, version in offered:
            if binding == BINDING and version_of(version) == wanted:
                return _address(found, url, wanted)
    shown = ", ".join(f"{binding} {version}" for _, binding, version in offered) or "none"
    raise Malformed(f"the agent is reached only in ways that are not spoken here: {shown}")


def _offered(found: dict[str, Any]) -> list[tuple[str, str, str]]:
    listed = found.get("supportedInterfaces")
    ways = [
        (str(each.get("url")), str(each.get("protocolBinding")), str(each.get("protocolVersion") or "1.0"))
        for each in (listed if isinstance(listed, list) else [])
        if isinstance(each, dict)
    ]
    version = str(found.get("protocolVersion") or "0.3")
    if isinstance(found.get("url"), str):
        ways.append((found["url"], str(found.get("preferredTransport") or BINDING), version))
    more = found.get("additionalInterfaces")
    for each in more if isinstance(more, list) else []:
        if isinstance(each, dict):
            ways.append((str(each.get("url")), str(each.get("transport")), version))
    return ways


def _address(found: dict[str, Any], url: str, version: Version) -> AgentAddress:
    can = found.get("capabilities")
    modes = found.get("defaultInputModes")
    return AgentAddress(
        name=found["name"],
        url=url,
        version=version,
        agent_version=str(found.get("version") or ""),
        streaming=isinstance(can, dict) and can.get("streaming") is True,
        images=isinstance(modes, list) and any(str(mode).startswith("image/") for mode in modes),
    )
