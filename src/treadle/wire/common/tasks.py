"""To-do lists, as the arguments of the tools that keep them have them."""

from typing import Any

LIST_TOOLS = ("todo", "todowrite", "update_plan")
"""Tools that keep a to-do list, by their names in lower case. Their calls are shown as plans."""
_STATUSES = ("pending", "in_progress", "completed")


def tasks_of(args: Any) -> list[tuple[str, str]] | None:
    """The text and the status of each task; None when the arguments are not a list of tasks."""
    given = args if isinstance(args, dict) else {}
    items = next((given[key] for key in ("todos", "plan", "items") if isinstance(given.get(key), list)), None)
    if items is None:
        return None
    found = []
    for item in items:
        content = item.get("content") or item.get("step") if isinstance(item, dict) else None
        if isinstance(content, str):
            found.append((content, item["status"] if item.get("status") in _STATUSES else "pending"))
    return found
