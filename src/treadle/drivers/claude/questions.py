"""What Claude Code asks a person, and how the answer is returned: questions, plans, lasting permissions."""

from typing import Any, Literal

from treadle.session import Answer

ASKING: dict[str, Literal["question", "plan"]] = {"AskUserQuestion": "question", "ExitPlanMode": "plan"}
"""Tools that are a question to the person, and its kind."""


def text_of(args: Any) -> str:
    asked = [str(each.get("question")) for each in _questions(args)]
    if asked:
        return "\n".join(asked)
    return str(args["plan"]) if isinstance(args, dict) and isinstance(args.get("plan"), str) else ""


def options_of(args: Any) -> tuple[str, ...]:
    first: dict[str, Any] = next(iter(_questions(args)), {})
    return tuple(str(each.get("label")) for each in first.get("options") or [] if isinstance(each, dict))


def answered(name: str, args: Any, answer: Answer) -> Any:
    """The arguments with which the tool runs after this answer."""
    if answer.changed_args is not None:
        return answer.changed_args
    if name == "AskUserQuestion" and isinstance(args, dict):
        return {**args, "answers": {str(each.get("question")): answer.text for each in _questions(args)}}
    return args


def granted(suggestions: Any, answer: Answer) -> list[Any]:
    """The rules it suggested to remember, if the person allowed more than this once; never a wider mode."""
    if answer.scope == "once" or not isinstance(suggestions, list):
        return []
    rules = [each for each in suggestions if isinstance(each, dict) and each.get("type") == "addRules"]
    return [each if answer.scope == "always" else {**each, "destination": "session"} for each in rules]


def _questions(args: Any) -> list[dict[str, Any]]:
    found = args.get("questions") if isinstance(args, dict) else None
    return [each for each in found or [] if isinstance(each, dict)] if isinstance(found, list) else []
