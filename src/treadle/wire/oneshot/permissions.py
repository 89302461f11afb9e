"""What a host is offered to allow for longer than one call, and the rules that it sends back, in Claude Code's form."""

from typing import Any

from treadle.events import Asked
from treadle.session import Answer
from treadle.wire.oneshot.names import THEIRS


def question(asked: Asked) -> dict[str, Any]:
    """What a host is asked."""
    name = THEIRS.get(asked.name or "", asked.name or asked.kind)
    return {
        "subtype": "can_use_tool",
        "tool_name": name,
        "display_name": name,
        "input": asked.args if isinstance(asked.args, dict) else {"text": asked.text},
        "description": asked.text,
        "permission_suggestions": suggested(asked),
        "blocked_path": None,
        "tool_use_id": asked.call or "",
    }


def answered(said: dict[str, Any], asked: Asked) -> Answer:
    """What it answers. Everything but a clear yes is a no."""
    if said.get("behavior") != "allow":
        return Answer(decision="deny", text=str(said.get("message") or ""), by="host")
    changed = said.get("updatedInput")
    return Answer(decision="allow", changed_args=changed if changed != asked.args else None, by="host")


def suggested(asked: Asked) -> list[dict[str, Any]]:
    """The updates that would make this question needless the next time. None when no rule can say it."""
    found: list[dict[str, Any]] = []
    if asked.always:
        rules = [_rule(text) for text in asked.always]
        found.append({"type": "addRules", "rules": rules, "behavior": "allow", "destination": "session"})
    if asked.kind == "permission" and asked.tool_kind == "write":
        found.append({"type": "setMode", "mode": "acceptEdits", "destination": "session"})
    return found


def rules_of(update: dict[str, Any]) -> list[tuple[str, str]]:
    """(allow, ask or deny, the rule) of an `addRules`; nothing when it is another update or cannot be read whole."""
    rules, behavior = update.get("rules"), update.get("behavior")
    if update.get("type") != "addRules" or behavior not in ("allow", "ask", "deny") or not isinstance(rules, list):
        return []
    found = []
    for rule in rules:
        match rule:
            case {"toolName": str(tool), "ruleContent": str(content)} if content:
                found.append((behavior, f"{tool}({content})"))
            case {"toolName": str(tool)}:
                found.append((behavior, tool))
            case _:
                return []
    return found


def _rule(text: str) -> dict[str, str]:
    tool, _, content = text.partition("(")
    named = {"toolName": THEIRS.get(tool, tool)}
    return {**named, "ruleContent": content.removesuffix(")")} if content else named
