"""An approval that carries another input, in protocols that have no member for one.

A client that lets its person change a call adds the new input under a name of its own. If it were not read, what was
never approved would run.
"""

from typing import Any

from treadle.events import Asked

NAMES = ("updatedInput", "updated_input", "rawInput", "raw_input", "toolInput", "input", "arguments", "args")


def other_input(asked: Asked, *parts: Any) -> Any:
    """The input that these parts of a reply name, each with its `_meta`; None: they name none."""
    for part in parts:
        if not isinstance(part, dict):
            continue
        found = next((part[name] for name in NAMES if part.get(name) is not None), None)
        if found is None and part.get("command") is not None:
            found = {**(asked.args if isinstance(asked.args, dict) else {}), "command": part["command"]}
        if found is None:
            found = other_input(asked, part.get("_meta"))
        if found is not None:
            return found
    return None
