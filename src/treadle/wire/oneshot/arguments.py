"""Our tools and their arguments by the names that Claude Code gives them, and back, for programs that drive it."""

import re
from typing import Any

from treadle.errors import ConfigError
from treadle.events import Asked
from treadle.session import Answer, Subagent

OURS = {
    **{"Bash": "bash", "Read": "read_file", "Write": "write_file", "Edit": "edit_file"},
    **{"Glob": "glob", "Grep": "grep", "WebFetch": "web_fetch", "Task": "task", "Agent": "task", "Skill": "skill"},
    **{"TodoWrite": "todo", "AskUserQuestion": "ask_user"},
}
"""Their name -> our name."""

THEIRS = {ours: theirs for theirs, ours in reversed(OURS.items())}
"""Our name -> their name; where they have two, the first."""

USED = {**THEIRS, "task": "Agent"}
"""The same in a call: the tool that `tools` of a session lists as Task is called Agent there."""

_NAMES = {
    "bash": {"background": "run_in_background"},
    "task": {"agent_type": "subagent_type", "background": "run_in_background"},
    "grep": {"ignore_case": "-i", "context": "-C", "limit": "head_limit"},
}
"""By tool: our name of an argument -> theirs."""
_EMPTY: tuple[Any, ...] = (None, False, "", [])


def to_theirs(tool: str, given: Any) -> Any:
    """Arguments that were left out stay out, and a time is in milliseconds."""
    if not isinstance(given, dict):
        return given
    names = _NAMES.get(tool, {})
    found = {
        names.get(name, name): value
        for name, value in given.items()
        if value not in _EMPTY or name in _MEANT_WHEN_EMPTY
    }
    if tool == "bash":
        if isinstance(found.get("timeout"), int | float):
            found["timeout"] = round(found["timeout"] * 1000)
        if found.pop("outside", ""):
            found["dangerouslyDisableSandbox"] = True
    return found


def to_ours(tool: str, given: dict[str, Any]) -> dict[str, Any]:
    ours = {theirs: name for name, theirs in _NAMES.get(tool, {}).items()}
    found = {ours.get(name, name): value for name, value in given.items()}
    if tool == "bash":
        if isinstance(found.get("timeout"), int | float):
            found["timeout"] = found["timeout"] / 1000
        if found.pop("dangerouslyDisableSandbox", False):
            found["outside"] = "the host lets it run outside"
    return found


_MEANT_WHEN_EMPTY = {"content", "new_string", "old_string", "edits", "todos"}
"""Arguments that mean something when they are empty."""


def questions(text: str, options: tuple[str, ...]) -> dict[str, Any]:
    """A question of the agent as the input of AskUserQuestion."""
    choices = [{"label": option, "description": ""} for option in options]
    return {"questions": [{"question": text, "header": "Question", "options": choices, "multiSelect": False}]}


def chosen(given: Any, text: str) -> str:
    """The answer in what came back for AskUserQuestion; empty when there is none."""
    answers = given.get("answers") if isinstance(given, dict) else None
    if not isinstance(answers, dict):
        return ""
    found = answers.get(text, next(iter(answers.values()), ""))
    return ", ".join(map(str, found)) if isinstance(found, list) else str(found)


# What a host is offered to allow for longer than one call, and the rules that it sends back, in Claude Code's form.


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


# Subagents as Claude Code defines them, in `--agents` and in `initialize`.


def subagent(name: str, entry: Any) -> Subagent:
    for key in ("description", "prompt"):
        if not isinstance(entry, dict) or not isinstance(entry.get(key), str):
            hint = 'write {"NAME": {"description": ..., "prompt": ...}}'
            raise ConfigError(f"the agent {name!r} has no {key}", hint=hint)
    unusable = [
        key for key in ("mcpServers", "permissionMode", "memory", "background", "hooks", "isolation") if entry.get(key)
    ]
    if unusable:
        raise ConfigError(f"the agent {name!r} asks for {', '.join(unusable)}, which subagents do not have here")
    given = entry.get("tools")
    tools = None if given in (None, "", "*") or given == ["*"] else _names(given)
    model = entry.get("model")
    return Subagent(
        name=name,
        description=entry["description"],
        prompt=entry["prompt"],
        tools=tools,
        denied=_names(entry.get("disallowedTools")),
        model=None if model in (None, "inherit") else str(model),
        max_turns=entry.get("maxTurns") if type(entry.get("maxTurns")) is int else None,
    )


def _names(value: Any) -> tuple[str, ...]:
    """The tools; a rule, such as `Bash(ls:*)`, stands for its whole tool, as in Claude Code."""
    words = re.split(r"[,\s]+(?![^(]*\))", value) if isinstance(value, str) else value or ()
    tools = (word.partition("(")[0].strip() for word in words if isinstance(word, str))
    return tuple(OURS.get(tool, tool) for tool in tools if tool)
