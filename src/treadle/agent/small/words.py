"""What a small model is told. It is short, because all of it is read again for every answer where nothing is cached."""

import re
from collections.abc import Iterable
from difflib import get_close_matches
from typing import Any

import msgspec

from treadle.agent.messages import ToolSchema

ANSWER = "answer"
_WORD = re.compile(r"\b(?:def|class)\s+(\w+)|^(\w+)\s*=", re.MULTILINE)
PERSONA = """\
You are a coding agent. You do the task by calling tools, one call at a time, and look at each result.
- Do what was asked, completely, and nothing else. Keep all other code as it is.
- Change an existing file with edit_file. Make a new one with write_file. Files that are shown need not be read again.
- old_string is copied exactly from the file, without line numbers. Use several whole lines when one is not unique.
- When several lines of a file must change, replace them all in one call.
- When a call fails, read the error and do something else. Never make the same call twice.
- When all is done, or to answer a question, call answer. Say what you did or found, with file names and values."""

_EXAMPLES: dict[str, tuple[str, dict[str, Any]]] = {
    "edit_file": (
        "replace text in a file",
        {
            "file_path": "shop.py",
            "old_string": "def total(items):\n    return 0",
            "new_string": "def total(items):\n    return sum(items)",
        },
    ),
    "write_file": (
        "make a new file",
        {"file_path": "colors.py", "content": 'RED = "#f00"\nBLUE = "#00f"\n'},
    ),
    "bash": ("run a command", {"command": "python3 shop.py"}),
    "read_file": ("look at a file", {"file_path": "shop.py"}),
    ANSWER: ("end the task", {"text": "I made colors.py with RED and BLUE."}),
}


def example(name: str, arguments: dict[str, Any]) -> str:
    """A call as the model writes it."""
    return msgspec.json.encode({"tool": name, **arguments}).decode()


def is_example(name: str, arguments: str) -> bool:
    """Whether these are the arguments of our example, which a model that knows no better repeats."""
    return name in _EXAMPLES and arguments == msgspec.json.encode(_EXAMPLES[name][1]).decode()


def right_call(tool: ToolSchema) -> str:
    """A correct call of this tool; with the names of its arguments where there is no better example."""
    if tool.name in _EXAMPLES:
        return example(tool.name, _EXAMPLES[tool.name][1])
    required = tool.parameters.get("required", ())
    return example(tool.name, dict.fromkeys(required, "..."))


def undefined_note(path: str, text: str, name: str, line: int) -> str:
    """Which line uses an undefined name, and if a similar name is defined, the call that fixes it."""
    old = text.splitlines()[line - 1]
    wrong = f"Line {line} of {path} uses {name}, which nothing defines: {old.strip()}"
    near = get_close_matches(name, sorted(_defined(text)), n=1, cutoff=0.5)
    if not near:
        return f"{wrong}\nMend that line with edit_file."
    new = re.sub(rf"\b{re.escape(name)}\b", near[0], old)
    call = example("edit_file", {"file_path": path, "old_string": old, "new_string": new})
    return f"{wrong}\nIf {near[0]} is meant, call: {call}"


def _defined(text: str) -> set[str]:
    return {name for found in _WORD.findall(text) for name in found if name}


def manual(tools: Iterable[ToolSchema]) -> str:
    """How calls are written, by example."""
    lines = ["Answer with one JSON object and nothing else. These are the calls, by example:"]
    for tool in sorted(tools, key=lambda tool: tool.name == "read_file"):  # what comes first is called most
        purpose = _EXAMPLES[tool.name][0] if tool.name in _EXAMPLES else tool.description.split(". ")[0]
        lines.append(f"{right_call(tool)}  <- {purpose}")
    purpose, arguments = _EXAMPLES[ANSWER]
    lines.append(f"{example(ANSWER, arguments)}  <- {purpose}")
    return "\n".join(lines)


def descriptions(tools: Iterable[ToolSchema]) -> str:
    """The same, with everything that is known about every tool."""
    lines = ['Answer with one JSON object and nothing else: {"tool":NAME, ...ARGUMENTS}. The tools are:']
    lines += [f"{tool.name}: {tool.description} {msgspec.json.encode(tool.parameters).decode()}" for tool in tools]
    return "\n".join([*lines, f"{ANSWER}: End the task. {example(ANSWER, _EXAMPLES[ANSWER][1])}"])


def several_note() -> str:
    return 'Several calls at once are written {"calls":[...]}.'
