"""Puts a session's questions to the person at the editor, and turns their choice into our answer."""

from collections.abc import Awaitable, Callable
from typing import Any

from treadle.doors.changed import other_input
from treadle.errors import RemoteError
from treadle.events import Asked
from treadle.session import Answer

Caller = Callable[[str, dict[str, Any]], Awaitable[Any]]

PERMISSION = [
    {"optionId": "once", "name": "Allow", "kind": "allow_once"},
    {"optionId": "session", "name": "Allow for this session", "kind": "allow_always"},
    {"optionId": "always", "name": "Always allow", "kind": "allow_always"},
    {"optionId": "reject", "name": "Reject", "kind": "reject_once"},
]
PLAN = [
    {"optionId": "once", "name": "Approve the plan", "kind": "allow_once"},
    {"optionId": "reject", "name": "Keep planning", "kind": "reject_once"},
]
_SCOPES: dict[str, Any] = {"once": "once", "session": "session", "always": "always"}
UNANSWERABLE = "the editor cannot answer in words, and no choices were given"


async def put(call: Caller, session: str, asked: Asked, tool: dict[str, Any], *, forms: bool) -> Answer:
    """`tool` is how the request names the call; `forms` says whether the client can show a form."""
    try:
        if asked.kind == "question" and (forms or not asked.options):
            return await _by_form(call, session, asked) if forms else _denied(UNANSWERABLE, by="nobody")
        options = options_of(asked)
        params = {"sessionId": session, "toolCall": tool, "options": options}
        return read_choice(asked, await call("session/request_permission", params))
    except RemoteError as error:
        return _denied(f"the editor could not be asked: {error.message}", by="nobody")


def options_of(asked: Asked) -> list[dict[str, str]]:
    if asked.kind == "permission":
        return PERMISSION
    if asked.kind == "plan":
        return PLAN
    chosen = [
        {"optionId": f"choice-{number}", "name": text, "kind": "allow_once"}
        for number, text in enumerate(asked.options)
    ]
    return [*chosen, {"optionId": "reject", "name": "Do not answer", "kind": "reject_once"}]


def read_choice(asked: Asked, result: Any) -> Answer:
    """A choice that cannot be understood is a no."""
    outcome = result.get("outcome") if isinstance(result, dict) else None
    chosen = outcome.get("optionId") if isinstance(outcome, dict) and outcome.get("outcome") == "selected" else None
    if asked.kind == "question" and isinstance(chosen, str) and chosen.startswith("choice-"):
        number = chosen.removeprefix("choice-")
        if number.isascii() and number.isdigit() and int(number) < len(asked.options):
            return Answer(decision="allow", text=asked.options[int(number)])
    if asked.kind != "question" and chosen in _SCOPES:
        return Answer(decision="allow", scope=_SCOPES[chosen], changed_args=other_input(asked, outcome, result))
    return _denied("" if chosen == "reject" else "no one chose", by="person")


async def _by_form(call: Caller, session: str, asked: Asked) -> Answer:
    field: dict[str, Any] = {"type": "string", "title": "Answer"}
    if asked.options:
        field["enum"] = list(asked.options)
    params = {
        "sessionId": session,
        "mode": "form",
        "message": asked.text,
        "requestedSchema": {"type": "object", "properties": {"answer": field}, "required": ["answer"]},
    }
    result = await call("elicitation/create", params)
    reply = result if isinstance(result, dict) else {}
    content = reply.get("content")
    text = content.get("answer") if isinstance(content, dict) else None
    if reply.get("action") == "accept" and isinstance(text, str):
        return Answer(decision="allow", text=text)
    return _denied("not answered", by="person")


def _denied(text: str, *, by: str) -> Answer:
    return Answer(decision="deny", text=text, by=by)
