"""What a host is offered to allow for longer than one call, and the rules that it sends back, in Claude Code's form."""

from typing import Any

from treadle.events import Asked
from treadle.session import Answer
from treadle.wire.oneshot.arguments import THEIRS, USED, chosen, questions, to_ours, to_theirs


def question(asked: Asked) -> dict[str, Any]:
    """What a host is asked, by the names that Claude Code has for tools and their arguments."""
    name, given = _asked_for(asked)
    return {
        "subtype": "can_use_tool",
        "tool_name": name,
        "display_name": name,
        "input": given,
        "description": asked.text,
        "permission_suggestions": suggested(asked),
        "blocked_path": None,
        "tool_use_id": asked.call or "",
    }


def _asked_for(asked: Asked) -> tuple[str, Any]:
    if asked.kind == "question":
        return "AskUserQuestion", questions(asked.text, asked.options)
    if asked.kind == "plan":
        return "ExitPlanMode", {"plan": asked.text}
    name = asked.name or asked.kind
    given = to_theirs(name, asked.args) if isinstance(asked.args, dict) else {"text": asked.text}
    return USED.get(name, name), given


def answered(reply: dict[str, Any], asked: Asked) -> Answer:
    """What it answers. Everything but a clear yes is a no."""
    if reply.get("behavior") != "allow":
        return Answer(decision="deny", text=str(reply.get("message") or ""), by="host")
    changed = reply.get("updatedInput")
    if asked.kind == "question":
        return Answer(decision="allow", text=chosen(changed, asked.text), by="host")
    if asked.kind == "plan" or not isinstance(changed, dict) or changed == _asked_for(asked)[1]:
        return Answer(decision="allow", by="host")
    return Answer(decision="allow", changed_args=to_ours(asked.name or "", changed), by="host")


def suggested(asked: Asked) -> list[dict[str, Any]]:
    """The updates that would make this question needless the next time. None when no rule can say it."""
    return suggested_rules(asked.always, asked.tool_kind or "" if asked.kind == "permission" else "")


def suggested_rules(always: tuple[str, ...], kind: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    if always:
        rules = [_rule(text) for text in always]
        found.append({"type": "addRules", "rules": rules, "behavior": "allow", "destination": "session"})
    if kind == "write":
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
