"""Recognises calls that cannot help before they are made: the model is told why and asked again.

Nothing here forbids anything. After a few objections a call is made unchanged, and its result says the rest.
"""

import ast
import json
import os
import re
from collections.abc import Sequence

import msgspec

from treadle.agent.messages import AssistantMessage, ChatMessage, ToolCall, ToolResult, UserMessage
from treadle.agent.small.names import undefined
from treadle.agent.small.render import argument, is_look
from treadle.agent.small.words import ANSWER, is_example, undefined_note
from treadle.agent.tools import editing
from treadle.errors import ToolError

_CLAIM = re.compile(
    r"\b(made|created|wrote|added|fixed|renamed|changed|updated|moved|replaced|committed)\b", re.IGNORECASE
)
_LITERAL = re.compile(r"""(?<![\w.])(\d+(?:\.\d+)?)(?![\w.]*\w)|"([^"\n]{1,40})"|`([^`\n]{1,40})`""")
"""Numbers and quoted texts."""
CHANGING = ("edit_file", "write_file", "bash")
LARGEST = 256 << 10
"""The largest file, in bytes, that is examined for this."""


class Objection(msgspec.Struct, frozen=True, kw_only=True):
    text: str
    without: str = ""
    """A tool that must not be called now."""


class Made(msgspec.Struct, frozen=True):
    """A call of this turn and its result."""

    call: ToolCall
    result: ToolResult


def made_in(turn: Sequence[ChatMessage]) -> list[Made]:
    calls = {call.id: call for message in turn if isinstance(message, AssistantMessage) for call in message.calls}
    return [
        Made(calls[message.call], message)
        for message in turn
        if isinstance(message, ToolResult) and message.call in calls
    ]


def to_call(call: ToolCall, turn: Sequence[ChatMessage], cwd: str) -> Objection | None:
    made = made_in(turn)
    since = _since_change(made)
    if any((one.call.name, one.call.arguments) == (call.name, call.arguments) for one in since):
        return Objection(text=_repeated_call(call, since), without=call.name)
    path = argument(call, "file_path")
    if is_example(call.name, call.arguments):
        return Objection(text="That was only an example of a call. Make the call that the task needs.")
    if call.name == "read_file" and path and not os.path.exists(os.path.join(cwd, path)):
        return Objection(
            text=f"There is no file {path}. Make it with write_file, or read another.", without="read_file"
        )
    if call.name == "write_file" and path and _foreign(path, made, cwd):
        return Objection(text=f"{path} exists already. Change it with edit_file.", without="write_file")
    if call.name == "edit_file" and argument(call, "old_string") == argument(call, "new_string"):
        return Objection(
            text="old_string and new_string are the same. new_string must be the text as it should become."
        )
    return _unsound(call, path, cwd) if call.name in ("edit_file", "write_file") else None


def to_answer(text: str, turn: Sequence[ChatMessage], cwd: str) -> Objection | None:
    """Objects to an answer that claims something which was not done, or that leaves a name without its definition."""
    if is_example(ANSWER, msgspec.json.encode({"text": text}).decode()):
        return Objection(text="That was only an example of an answer. Say what you did or found.")
    done = [one for one in made_in(turn) if one.result.ok and one.call.name in CHANGING and not is_look(one.result)]
    if not done and ("```" in text or _CLAIM.search(text)):
        return Objection(text="Nothing was changed yet. Do it now with edit_file, write_file or bash.", without=ANSWER)
    paths = [path for path in dict.fromkeys(argument(one.call, "file_path") for one in done) if path]
    for path in paths:
        text = (content(path, cwd) or "") if path.endswith(".py") else ""
        for name, line in undefined(text).items():
            return Objection(text=undefined_note(path, text, name, line))
    return _left_out(turn, paths, cwd) if paths else None


def _left_out(turn: Sequence[ChatMessage], paths: list[str], cwd: str) -> Objection | None:
    """A number or quoted text of the task that is in none of the changed files: perhaps half of it was forgotten."""
    task = turn[0].text if turn and isinstance(turn[0], UserMessage) else ""
    texts = [*paths, *(content(path, cwd) or "" for path in paths)]
    for found in _LITERAL.finditer(task):
        literal = next(group for group in found.groups() if group)
        if not any(literal in text for text in texts):
            where = " or ".join(paths)
            return Objection(text=f"The task says {literal!r}, which is not in {where}. Is something left to do?")
    return None


def _since_change(made: list[Made]) -> list[Made]:
    """What was done since files may last have changed: what was seen before may look different now."""
    last = max((at for at, one in enumerate(made) if one.result.ok and one.call.name in CHANGING), default=-1)
    return made[max(last, 0) :]


def _repeated_call(call: ToolCall, since: list[Made]) -> str:
    if call.name == "read_file":
        return f"{argument(call, 'file_path')} is shown above. Go on: change it, or answer."
    return "That call was made already, and its result is above. Make another one, or answer."


def _foreign(path: str, made: list[Made], cwd: str) -> bool:
    """Whether there is a file with content that this turn neither wrote nor failed to edit."""
    own = any(
        argument(one.call, "file_path") == path
        and (one.call.name == "write_file" or (one.call.name == "edit_file" and not one.result.ok))
        for one in made
    )
    return not own and bool(content(path, cwd))


def _unsound(call: ToolCall, path: str, cwd: str) -> Objection | None:
    """Python or JSON that could be parsed before and could not after this."""
    before = content(path, cwd) or ""
    after = argument(call, "content")
    if call.name == "edit_file":
        old, new = argument(call, "old_string"), argument(call, "new_string")
        try:
            after = editing.apply(before, old, new).text
        except ToolError:
            return None  # the tool itself explains it better, and shows the file
    wrong, line = fault(path, after)
    if not wrong or (before and fault(path, before)[0]):
        return None
    # Quote a line only when the call itself contains it: no one has decided yet whether the file may be read.
    wrong += f": {line}" if line and line in call_text(call) else ""
    return Objection(text=f"With that, {path} could not be read any more: {wrong}. Make the call again, correctly.")


def call_text(call: ToolCall) -> str:
    return argument(call, "content") + argument(call, "new_string")


def fault(path: str, text: str) -> tuple[str, str]:
    """Why the content is not what the file's name says, and the line; empty when it is, or when that is unknown."""
    try:
        if path.endswith(".py"):
            ast.parse(text)
        elif path.endswith(".json"):
            json.loads(text)
    except SyntaxError as error:
        return f"line {error.lineno}: {error.msg}", (error.text or "").strip()
    except (ValueError, RecursionError, MemoryError) as error:
        return str(error), ""
    return "", ""


def content(path: str, cwd: str) -> str | None:
    """The content of a file of the workspace; None when it is missing, too large, or not text."""
    from treadle.io.reading import read

    place = os.path.join(cwd, path)
    try:
        if not os.path.isfile(place) or os.path.getsize(place) > LARGEST:
            return None
        return read(place).decode()
    except (OSError, ValueError):
        return None
