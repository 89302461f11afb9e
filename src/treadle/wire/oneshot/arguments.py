"""Our tools and their arguments by the names that Claude Code gives them, and back, for programs that drive it."""

from typing import Any

OURS = {
    **{"Bash": "bash", "Read": "read_file", "Write": "write_file", "Edit": "edit_file", "MultiEdit": "multi_edit"},
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
