"""Puts a session's questions to a client of Codex, in the form that it knows, and reads its answer.

A decision that cannot be carried out as it was given, such as one with a rule of Codex's own, is a denial.
"""

from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

from treadle.doors.changed import other_input
from treadle.errors import RemoteError
from treadle.events import Asked
from treadle.session import Answer

Caller = Callable[[str, dict[str, Any]], Awaitable[Any]]
DECISIONS = ["accept", "acceptForSession", "decline", "cancel"]
APPROVE, KEEP_PLANNING = "Approve the plan", "Keep planning"


class Decided(NamedTuple):
    answer: Answer
    stop: bool = False
    """Whether the turn is to end, too."""


async def put(call: Caller, where: dict[str, Any], asked: Asked, item: dict[str, Any]) -> Decided:
    """`where` names the thread and the turn, `item` is how the call was shown."""
    try:
        if asked.kind != "permission":
            return _answered(asked, await call("item/tool/requestUserInput", _questions(where, asked, item)))
        about = {**where, "itemId": item["id"], "startedAtMs": int(asked.ts * 1000), "reason": asked.text or None}
        match item["type"]:
            case "commandExecution":
                more = {name: item[name] for name in ("command", "cwd", "commandActions")}
                extra = {"kind": "command", "environmentId": None, "availableDecisions": DECISIONS}
                return _decided(asked, await call("item/commandExecution/requestApproval", {**about, **more, **extra}))
            case "fileChange":
                return _decided(asked, await call("item/fileChange/requestApproval", {**about, "grantRoot": None}))
            case _:
                return _accepted(asked, await call("mcpServer/elicitation/request", _elicitation(where, asked, item)))
    except RemoteError as error:
        return Decided(_denied(f"the client could not be asked: {error.message}", by="nobody"))


def _decided(asked: Asked, reply: Any) -> Decided:
    decision = reply.get("decision") if isinstance(reply, dict) else None
    match decision:
        case "accept":
            return Decided(Answer(decision="allow", changed_args=other_input(asked, reply)))
        case "acceptForSession":
            return Decided(Answer(decision="allow", scope="session", changed_args=other_input(asked, reply)))
        case "decline":
            return Decided(_denied(""))
        case "cancel":
            return Decided(_denied(""), stop=True)
    return Decided(_denied("the decision cannot be carried out here as it was given"))


def _elicitation(where: dict[str, Any], asked: Asked, item: dict[str, Any]) -> dict[str, Any]:
    """Codex asks in this way whether a tool of an MCP server may run."""
    about = {"codex_approval_kind": "mcp_tool_call", "tool_params": item["arguments"]}
    message = f'Allow the {item["server"]} MCP server to run tool "{item["tool"]}"?'
    return {
        **where,
        "serverName": item["server"],
        "mode": "form",
        "message": f"{message} {asked.text}".rstrip(),
        "requestedSchema": {"type": "object", "properties": {}},
        "_meta": about,
    }


def _accepted(asked: Asked, reply: Any) -> Decided:
    action = reply.get("action") if isinstance(reply, dict) else None
    meta = reply.get("_meta") if isinstance(reply, dict) else None
    if action == "accept":
        lasting = isinstance(meta, dict) and meta.get("persist") in ("session", "always")
        changed = other_input(asked, reply, reply.get("content"))
        return Decided(Answer(decision="allow", scope="session" if lasting else "once", changed_args=changed))
    return Decided(_denied("" if action == "decline" else "no one decided"), stop=action == "cancel")


def _questions(where: dict[str, Any], asked: Asked, item: dict[str, Any]) -> dict[str, Any]:
    labels = (APPROVE, KEEP_PLANNING) if asked.kind == "plan" else asked.options
    question = {
        "id": asked.request,
        "header": asked.kind.capitalize(),
        "question": asked.text,
        "isOther": asked.kind == "question",
        "isSecret": False,
        "options": [{"label": label, "description": ""} for label in labels] or None,
    }
    return {**where, "itemId": item["id"], "questions": [question], "isBlocking": True, "autoResolutionMs": None}


def _answered(asked: Asked, reply: Any) -> Decided:
    answers = reply.get("answers") if isinstance(reply, dict) else None
    given = answers.get(asked.request) if isinstance(answers, dict) else None
    texts = given.get("answers") if isinstance(given, dict) else None
    text = "\n".join(map(str, texts)) if isinstance(texts, list) else ""
    if asked.kind == "plan":
        return Decided(Answer(decision="allow") if text == APPROVE else _denied("" if text == KEEP_PLANNING else text))
    return Decided(Answer(decision="allow", text=text) if text else _denied("not answered"))


def _denied(text: str, *, by: str = "person") -> Answer:
    return Answer(decision="deny", text=text, by=by)
