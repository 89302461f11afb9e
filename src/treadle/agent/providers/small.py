"""The profile for small models around any provider; the loop does not know about it.

A model of a few billion parameters writes the wrong call, repeats itself, edits files that it has not read and never
stops. So it gets four tools and a short prompt, may only write what a schema allows, makes one step at a time, is shown
the files that it needs, and is told the correct call after a wrong one. Each of these is a part of `SmallProfile` that
can be switched off, so that its benefit can be measured.
"""

import ast
import builtins
import json
import os
import re
import sys
from collections.abc import AsyncGenerator, Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing
from difflib import get_close_matches
from typing import Any

import msgspec

from treadle.agent.context import estimated
from treadle.agent.messages import (
    AssistantMessage,
    ChatMessage,
    ModelRequest,
    Provider,
    Reply,
    ReplyItem,
    ToolCall,
    ToolResult,
    ToolSchema,
    UserMessage,
)
from treadle.agent.providers.known import SmallProfile
from treadle.agent.tools import files
from treadle.errors import ToolError
from treadle.events import TextDelta, Usage
from treadle.sessions.session import new_id

# What a small model is told. It is short, because all of it is read again for every answer where nothing is cached.

ANSWER = "answer"
_WORD = re.compile(r"\b(?:def|class)\s+(\w+)|^(\w+)\s*=", re.MULTILINE)
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


# Detects an endless reply: one line after the other of the same form. Pure.

LINES = 12
"""This many lines in a row that differ only in their texts and numbers mean that the model cannot stop."""
_BREAK = re.compile(r"(?<!\\)\\n")
"""A line break as it is written inside a JSON text."""
_VARYING = re.compile(r"""'[^']*'|\\"[^"]*\\"|\d+""")
_LETTER = re.compile(r"[A-Za-z]")


def endless(text: str) -> str:
    """The first of the lines that repeat one form at the end of the text so far; empty when none do.

    Lines of plain data (`"red": 1,`) do not count: a long table is not endless.
    """
    lines = _BREAK.split(text)[:-1][-LINES:]
    forms = {_VARYING.sub("_", line.strip()) for line in lines}
    if len(lines) < LINES or len(forms) != 1 or not _LETTER.search(forms.pop()):
        return ""
    return lines[0].strip()


# Names that a Python file uses but does not define, as after half of a rename. Pure.

_KNOWN = {*dir(builtins), "__file__", "__name__", "__doc__", "__path__", "__spec__"}


def undefined(text: str) -> dict[str, int]:
    """Name -> the first line that uses it. Cautious: a name that is bound anywhere in the file counts as defined."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return {}
    bound: set[str] = set()
    used: dict[str, int] = {}
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name, ctx=ast.Load()):
                used.setdefault(name, node.lineno)
            case ast.Name(id=name) | ast.arg(arg=name):
                bound.add(name)
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                bound.add(name)
            case ast.ImportFrom(names=names) | ast.Import(names=names):
                if any(alias.name == "*" for alias in names):
                    return {}
                bound |= {(alias.asname or alias.name).partition(".")[0] for alias in names}
            case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
                bound.add(name)
            case ast.MatchMapping(rest=str(name)):
                bound.add(name)
            case ast.Global(names=names) | ast.Nonlocal(names=names):
                bound |= set(names)
    return {name: line for name, line in used.items() if name not in bound | _KNOWN}


# What a small model may write, as a JSON Schema, and what it wrote, as calls. Pure.
#
# A call is one flat object, `{"tool": NAME, ARGUMENT: VALUE, ...}`. The end of a turn is a call too, `answer`, so
# that there is only one form to learn. Only the arguments that a tool requires are offered.

CAPS = {"file_path": 160, "command": 400, "old_string": 1000, "new_string": 1500, "content": 2400, "text": 1000}
OTHER_CAP = 1000
MOST_CALLS = 4
_ANSWER = ToolSchema(
    name=ANSWER, description="", parameters={"properties": {"text": {"type": "string"}}, "required": ["text"]}
)
_NAMED = re.compile(r'"tool"\s*:\s*"(\w+)"')
_FENCE = re.compile(r"```(?:json)?\s*(\{.*?\})\s*```", re.DOTALL)


class Written(msgspec.Struct, frozen=True, kw_only=True):
    """What a reply says: calls to make, or the answer, or neither when it is not a readable call."""

    calls: tuple[tuple[str, str], ...] = ()
    """Names and arguments, as JSON text."""
    answer: str | None = None


def offered(tools: Iterable[ToolSchema]) -> list[ToolSchema]:
    """The tools that can be written as flat objects."""
    return [tool for tool in tools if "tool" not in tool.parameters.get("properties", {}) and tool.name != ANSWER]


def reply_schema(tools: Sequence[ToolSchema], profile: SmallProfile, *, answer: bool = True) -> dict[str, Any]:
    calls = [_call_schema(tool, profile) for tool in tools]
    if answer:
        calls.append(_call_schema(_ANSWER, profile))
    if profile.one_step:
        return {"anyOf": calls}
    several = {"type": "array", "items": {"anyOf": calls[: len(tools)]}, "minItems": 1, "maxItems": MOST_CALLS}
    many = {"type": "object", "properties": {"calls": several}, "required": ["calls"], "additionalProperties": False}
    return {"anyOf": [*calls, many]}


def _call_schema(tool: ToolSchema, profile: SmallProfile) -> dict[str, Any]:
    known = tool.parameters.get("properties", {})
    names = [name for name in known if name in tool.parameters.get("required", ())]
    if profile.path_first:
        names.sort(key=lambda name: name != "file_path")
    properties = {name: _value(name, known[name], profile) for name in names}
    return {
        "type": "object",
        "properties": {"tool": {"const": tool.name}, **properties},
        "required": ["tool", *names],
        "additionalProperties": False,
    }


def _value(name: str, schema: dict[str, Any], profile: SmallProfile) -> dict[str, Any]:
    plain = {key: value for key, value in schema.items() if key not in ("description", "title", "default")}
    if profile.caps and plain.get("type") == "string" and "enum" not in plain:
        plain.setdefault("maxLength", CAPS.get(name, OTHER_CAP))
    return plain


def read(text: str) -> Written:
    """Tolerant: where the schema could not be enforced, there may be words or a fence around the call."""
    found = _object(text)
    if found is None:
        named = _NAMED.search(text)
        return Written(calls=((named[1], text),)) if named else Written(answer=text.strip())
    several = found.get("calls")
    objects = [one for one in several if isinstance(one, dict)] if isinstance(several, list) else [found]
    calls = [(str(one.get("tool", "")), {key: one[key] for key in one if key != "tool"}) for one in objects]
    if len(calls) == 1 and (calls[0][0] == ANSWER or not calls[0][0]):
        answer = calls[0][1].get("text")
        return Written(answer=answer if isinstance(answer, str) else text.strip())
    return Written(
        calls=tuple((name, msgspec.json.encode(arguments).decode()) for name, arguments in calls if name != ANSWER)
    )


def _object(text: str) -> dict[str, Any] | None:
    fenced = _FENCE.search(text)
    outer = text[text.find("{") : text.rfind("}") + 1]
    for piece in (text, fenced[1] if fenced else "", outer):
        try:
            found = msgspec.json.decode(piece)
        except (msgspec.DecodeError, RecursionError, UnicodeError):
            continue
        if isinstance(found, dict) and ("tool" in found or "calls" in found):
            return found
    return None


# Turns a conversation with calls into one of words only, which small models follow better. Pure.
#
# The same messages always give the same words, so that the service can reuse its cache.

LOOK = "look-"
"""How the ids of calls begin that we made for the model."""
_NUMBER = re.compile(r"^ *\d+\t", re.MULTILINE)
LONGEST_TASK = 1500
LONGEST_RESULT = 6000
"""How many characters of one result are shown: a small model loses its way in more."""
CUT_OFF = "Error: your reply was too long and was cut off. Make a shorter call: a few lines are enough, at most 15."
REMINDER = "The task was: {}\nIf all of it is done, answer. If not, make the next call."
SAME_AGAIN = "This is the same call as before, with the same result. Do something else now."


def rendered(
    messages: Sequence[ChatMessage], tools: Mapping[str, ToolSchema], profile: SmallProfile
) -> tuple[ChatMessage, ...]:
    """Adjacent messages of the same side become one: many chat templates require the sides to alternate."""
    merged: list[ChatMessage] = []
    spoken = list(_spoken(messages, tools, profile))
    if profile.remind and isinstance(messages[-1], ToolResult) and not _first_look(messages):
        spoken.append(UserMessage(text=REMINDER.format(_task(messages))))
    for message in spoken:
        last = merged[-1] if merged else None
        if last is not None and type(last) is type(message):
            merged[-1] = msgspec.structs.replace(last, text=f"{last.text}\n\n{message.text}")
        else:
            merged.append(message)
    return tuple(merged)


def _spoken(
    messages: Sequence[ChatMessage], tools: Mapping[str, ToolSchema], profile: SmallProfile
) -> Iterator[UserMessage | AssistantMessage]:
    calls: dict[str, ToolCall] = {}
    seen: dict[tuple[str, str], str] = {}
    task = ""
    for at, message in enumerate(messages):
        if task and not is_look(message):  # what was looked at comes before the task, which is read last
            yield UserMessage(text=f"Task: {task}")
            task = ""
        if isinstance(message, UserMessage):
            seen.clear()
            if at + 1 < len(messages) and is_look(messages[at + 1]):
                task = message.text
            else:
                yield message
        elif isinstance(message, AssistantMessage):
            calls |= {call.id: call for call in message.calls}
            if not is_look(message):
                yield AssistantMessage(text="\n".join(map(written, message.calls)) or _answered(message.text))
        elif is_look(message):
            yield UserMessage(text=_looked(message, calls.get(message.call)))
        else:
            call = calls.get(message.call)
            key = (message.name, call.arguments if call else "")
            again = profile.spell_out and seen.get(key) == message.text
            seen[key] = message.text
            yield UserMessage(text=_result(message, tools, profile) + (f"\n{SAME_AGAIN}" if again else ""))
    if task:
        yield UserMessage(text=f"Task: {task}")


def is_look(message: ChatMessage) -> bool:
    """Whether it is a call that we made for the model, or its result."""
    if isinstance(message, AssistantMessage):
        return bool(message.calls) and all(call.id.startswith(LOOK) for call in message.calls)
    return isinstance(message, ToolResult) and message.call.startswith(LOOK)


def _first_look(messages: Sequence[ChatMessage]) -> bool:
    """Whether only our own looks have followed the person's words, which then come last anyway."""
    start = max((at for at, message in enumerate(messages) if isinstance(message, UserMessage)), default=0)
    return all(is_look(message) for message in messages[start + 1 :])


def _task(messages: Sequence[ChatMessage]) -> str:
    return next((message.text for message in reversed(messages) if isinstance(message, UserMessage)), "")[:LONGEST_TASK]


def _looked(message: ToolResult, call: ToolCall | None) -> str:
    path = argument(call, "file_path") if call else ""
    if not path:
        return f"Files here:\n{shown(message)}"
    text = shown(message)
    missing = undefined(text) if path.endswith(".py") and message.ok else {}
    notes = [undefined_note(path, text, name, line) for name, line in list(missing.items())[:1]]
    return "\n".join([f"{path} holds:\n{text}", *notes])


def _answered(text: str) -> str:
    return example(ANSWER, {"text": text})


def argument(call: ToolCall, name: str) -> str:
    try:
        found = msgspec.json.decode(call.arguments)
    except (msgspec.DecodeError, RecursionError):
        return ""
    value = found.get(name) if isinstance(found, dict) else None
    return value if isinstance(value, str) else ""


def written(call: ToolCall) -> str:
    """A call in the form in which the model must write it; a broken one stays as it was written."""
    try:
        arguments = msgspec.json.decode(call.arguments)
    except (msgspec.DecodeError, RecursionError):
        return call.arguments
    return example(call.name, arguments) if isinstance(arguments, dict) else call.arguments


def _result(message: ToolResult, tools: Mapping[str, ToolSchema], profile: SmallProfile) -> str:
    text = shown(message)
    if message.ok and message.name == "edit_file" and profile.show_file:
        text = text.partition("\n")[0]  # the file itself follows
    if not message.ok and profile.spell_out:
        text += _help(message, tools)
    return f"Result of {message.name}:\n{text}"


def shown(message: ToolResult) -> str:
    """A result without line numbers, which small models copy, and not too long."""
    text = _NUMBER.sub("", message.text) if message.name == "read_file" and message.ok else message.text
    if len(text) > LONGEST_RESULT:
        text = f"{text[: LONGEST_RESULT // 2]}\n[...]\n{text[-LONGEST_RESULT // 2 :]}"
    return text


def _help(message: ToolResult, tools: Mapping[str, ToolSchema]) -> str:
    tool = tools.get(message.name)
    if tool is None:
        return "\nCall one of these:\n" + "\n".join(map(right_call, tools.values()))
    if "not valid JSON" in message.text:
        return f"\n{CUT_OFF}\nA right call: {right_call(tool)}"
    if "argument" in message.text:
        return f"\nA right call: {right_call(tool)}"
    return ""


# Edits whose place is clear although their text is not exact: small models lose blank lines and indentation. Pure.


def exact_place(text: str, old: str) -> str | None:
    """The text of the file that `old` means when blank lines and white space are ignored.

    None when it is there exactly, or not at all, or more than once.
    """
    if not old.strip() or old in text:
        return None
    wanted = [line.split() for line in old.splitlines() if line.strip()]
    lines = text.splitlines(keepends=True)
    solid = [at for at, line in enumerate(lines) if line.strip()]
    size = len(wanted)
    places = [
        at
        for at in range(len(solid) - size + 1)
        if all(lines[solid[at + step]].split() == wanted[step] for step in range(size))
    ]
    if len(places) != 1:
        return None
    first, last = solid[places[0]], solid[places[0] + size - 1]
    return "".join(lines[first : last + 1]).removesuffix("\n").removesuffix("\r")


def repaired(call: ToolCall, text: str) -> ToolCall:
    """The edit with the file's own text as the text to replace. The new text gets the first line's indentation."""
    old, new = argument(call, "old_string"), argument(call, "new_string")
    place = exact_place(text, old)
    if place is None:
        return call
    missing = _indent(place)[len(_indent(old.lstrip("\n"))) :]
    if missing:
        new = "".join(missing + line if line.strip() else line for line in new.lstrip("\n").splitlines(keepends=True))
    arguments = {"file_path": argument(call, "file_path"), "old_string": place, "new_string": new.rstrip("\n")}
    return msgspec.structs.replace(call, arguments=msgspec.json.encode(arguments).decode())


def _indent(text: str) -> str:
    return text[: len(text) - len(text.lstrip(" \t"))]


# Recognises calls that cannot help before they are made: the model is told why and asked again.
#
# Nothing here forbids anything. After a few objections a call is made unchanged, and its result says the rest.

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
            after = files.apply(before, old, new).text
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
    from treadle.io.files import read

    place = os.path.join(cwd, path)
    try:
        if not os.path.isfile(place) or os.path.getsize(place) > LARGEST:
            return None
        return read(place).decode()
    except (OSError, ValueError):
        return None


REPLY_TOKENS = 700
WARM = 0.7
OBJECTIONS = 2
"""How often a reply may be sent back before it is accepted unchanged."""
MOST_QUOTED = 200
"""How many characters of a rejected reply the model sees again: more of a long one only makes it go on."""
_LEFT_OUT = " ".join(f"-name '{name}' -prune -o" for name in (".?*", "node_modules", "__pycache__", "venv"))
LIST = f"find . {_LEFT_OUT} -type f -printf '%P\\n' | sort"
"""The files of a project, also those in its directories. Git could say it better, but runs what a repository's settings
name, so it needs a person's permission; this does not."""
MOST_FILES = 3
LARGEST_FILE = 6000
"""In bytes: a longer file is not shown unasked."""
_PATH = re.compile(r"[\w./-]*\w\.\w+|\b[A-Z][A-Za-z]+file\b")


class SmallModel:
    """The loop sees an ordinary provider that makes calls; the model sees words and a schema."""

    sees = False

    def __init__(self, inner: Provider, profile: SmallProfile, cwd: str) -> None:
        self.inner = inner
        self.profile = profile
        self._cwd = cwd

    @property
    def name(self) -> str:
        return self.inner.name

    @property
    def model(self) -> str:
        return self.inner.model

    @property
    def context_window(self) -> int | None:
        return self.inner.context_window

    @property
    def priced(self) -> bool:
        return self.inner.priced

    async def models(self) -> list[str]:
        return await self.inner.models()

    async def aclose(self) -> None:
        await self.inner.aclose()

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ReplyItem, None]:
        if not request.tools:  # a summary, for example: it has no required form
            async for item in self.inner.stream(request):
                yield item
            return
        unasked = self._unasked(request)
        if unasked:
            message = AssistantMessage(calls=unasked, model=self.model)
            yield Reply(message=message, finish="tool_calls", usage=Usage(model=self.model, cost_usd=0.0))
            return
        asked, usage = self._asked(request), None
        for left in reversed(range(1 + OBJECTIONS)):
            raw, objecting = None, left > 0 and self.profile.object
            async with aclosing(self._replying(asked, cut=objecting and left == OBJECTIONS)) as items:
                async for item in items:
                    if isinstance(item, Reply):
                        raw = item
                    else:
                        yield item
            if raw is None:
                return
            reply, usage = self._repaired(_understood(raw)), _sum(usage, raw.usage)
            objection = self._objection(reply, raw.finish, request.messages) if objecting else None
            if objection is None:
                break
            asked = self._with_objection(asked, raw.message.text[:MOST_QUOTED], objection, request)
        if reply.message.text:
            yield TextDelta(text=reply.message.text)
        yield msgspec.structs.replace(reply, usage=usage)

    async def _replying(self, asked: ModelRequest, cut: bool) -> AsyncGenerator[ReplyItem, None]:
        """Everything but the words, which are not yet an answer. With `cut`, an endless reply is cut off."""
        text = ""
        async with aclosing(self.inner.stream(asked)) as items:
            async for item in items:
                if not isinstance(item, TextDelta):
                    yield item
                elif cut and endless(text := text + item.text):
                    message = AssistantMessage(text=text, model=self.model)
                    usage = estimated(self.model, asked, message)
                    if self.name == "local":
                        usage = msgspec.structs.replace(usage, cost_usd=0.0)
                    yield Reply(message=message, finish="length", usage=usage)
                    return

    # What the model is asked

    def _asked(self, request: ModelRequest) -> ModelRequest:
        profile, tools = self.profile, offered(request.tools)
        described = (manual if profile.manual else descriptions)(tools)
        described += "" if profile.one_step else f"\n{several_note()}"
        again = _repeated(request.messages) if profile.vary else ""
        seen = "read_file" if profile.look_first and _all_shown(request.messages) else ""
        allowed = [tool for tool in tools if tool.name not in (again, seen)]
        return msgspec.structs.replace(
            request,
            system=f"{described}\n\n{request.system}",
            messages=rendered(request.messages, {tool.name: tool for tool in tools}, profile),
            tools=(),
            schema=reply_schema(allowed, profile) if profile.constrain else None,
            max_output_tokens=REPLY_TOKENS if profile.caps else request.max_output_tokens,
            temperature=WARM if again else 0.0,
            cached=profile.cache,
        )

    def _with_objection(
        self, asked: ModelRequest, reply: str, objection: Objection, request: ModelRequest
    ) -> ModelRequest:
        """The same question with what was wrong about the answer. History never sees either."""
        tools = [tool for tool in offered(request.tools) if tool.name != objection.without]
        return msgspec.structs.replace(
            asked,
            messages=(*asked.messages, AssistantMessage(text=reply), UserMessage(text=objection.text)),
            temperature=WARM if objection.text == CUT_OFF else asked.temperature,  # else it is cut off there again
            schema=reply_schema(tools, self.profile, answer=objection.without != ANSWER)
            if asked.schema is not None
            else None,
        )

    def _repaired(self, reply: Reply) -> Reply:
        if not self.profile.repair:
            return reply
        calls = tuple(
            repaired(call, content(argument(call, "file_path"), self._cwd) or "") if call.name == "edit_file" else call
            for call in reply.message.calls
        )
        return msgspec.structs.replace(reply, message=msgspec.structs.replace(reply.message, calls=calls))

    def _objection(self, reply: Reply, finish: str, messages: Sequence[ChatMessage]) -> Objection | None:
        turn = _turn(messages)
        if finish == "length":
            return Objection(text=CUT_OFF)
        for call in reply.message.calls:
            if (found := to_call(call, turn, self._cwd)) is not None:
                return found
        return to_answer(reply.message.text, turn, self._cwd) if not reply.message.calls else None

    # What needs no model

    def _unasked(self, request: ModelRequest) -> tuple[ToolCall, ...]:
        """Calls that are plainly the next step. They are judged and run like the model's own."""
        names = {tool.name for tool in request.tools}
        last = request.messages[-1] if request.messages else None
        if isinstance(last, UserMessage) and self.profile.look_first and len(_turn(request.messages)) == 1:
            return self._look(last.text, names)
        if isinstance(last, ToolResult) and self.profile.show_file and "read_file" in names:
            return self._show(last, request.messages)
        return ()

    def _look(self, prompt: str, names: set[str]) -> tuple[ToolCall, ...]:
        listing = LIST if sys.platform == "linux" and os.path.exists(os.path.join(self._cwd, ".git")) else "ls"
        calls = [_call("bash", command=listing)] if "bash" in names else []
        if "read_file" in names:
            paths = dict.fromkeys(match.removeprefix("./") for match in _PATH.findall(prompt))
            calls += [_call("read_file", file_path=path) for path in paths if self._showable(path)][:MOST_FILES]
        return tuple(calls)

    def _show(self, result: ToolResult, messages: Sequence[ChatMessage]) -> tuple[ToolCall, ...]:
        """Show the file that was to be changed as it is now: it shows what is left to do."""
        if result.name != "edit_file":
            return ()
        for message in reversed(messages):
            for call in message.calls if isinstance(message, AssistantMessage) else ():
                if call.id == result.call:
                    path = argument(call, "file_path")
                    return (_call("read_file", file_path=path),) if path and self._showable(path) else ()
        return ()

    def _showable(self, path: str) -> bool:
        try:
            return 0 < os.path.getsize(os.path.join(self._cwd, path)) <= LARGEST_FILE and os.path.isfile(
                os.path.join(self._cwd, path)
            )
        except (OSError, ValueError):
            return False


def _call(name: str, **arguments: str) -> ToolCall:
    return ToolCall(id=LOOK + new_id("call"), name=name, arguments=msgspec.json.encode(arguments).decode())


def _turn(messages: Sequence[ChatMessage]) -> Sequence[ChatMessage]:
    """The messages from the person's newest one on."""
    start = max((at for at, message in enumerate(messages) if isinstance(message, UserMessage)), default=0)
    return messages[start:]


def _all_shown(messages: Sequence[ChatMessage]) -> bool:
    """Whether every file of the directory was shown, so that there is nothing else to read."""
    looks = [message for message in _turn(messages) if isinstance(message, ToolResult) and is_look(message)]
    listed = {line.strip() for look in looks if look.name == "bash" for line in look.text.splitlines()}
    calls = [call for message in _turn(messages) if isinstance(message, AssistantMessage) for call in message.calls]
    return bool(listed) and listed <= {argument(call, "file_path") for call in calls if call.name == "read_file"}


def _repeated(messages: Sequence[ChatMessage]) -> str:
    """The tool of the newest call, if the same call was made before in this turn: it may not be made again."""
    made = [message.calls for message in _turn(messages) if isinstance(message, AssistantMessage) and message.calls]
    steps = [tuple((call.name, call.arguments) for call in calls) for calls in made]
    return steps[-1][0][0] if len(steps) > 1 and steps[-1] in steps[:-1] else ""


def _understood(reply: Reply) -> Reply:
    written: Written = read(reply.message.text)
    calls = tuple(ToolCall(id=new_id("call"), name=name, arguments=arguments) for name, arguments in written.calls)
    message = msgspec.structs.replace(reply.message, text=written.answer or "", calls=calls)
    return msgspec.structs.replace(reply, message=message, finish="tool_calls" if calls else "stop")


def _sum(first: Usage | None, second: Usage | None) -> Usage | None:
    """What two requests used together."""
    if first is None or second is None:
        return second
    return msgspec.structs.replace(
        second,
        source="estimate" if "estimate" in (first.source, second.source) else second.source,
        input_tokens=first.input_tokens + second.input_tokens,
        output_tokens=first.output_tokens + second.output_tokens,
        cache_read_tokens=first.cache_read_tokens + second.cache_read_tokens,
        cache_write_tokens=first.cache_write_tokens + second.cache_write_tokens,
        reasoning_tokens=first.reasoning_tokens + second.reasoning_tokens,
        cost_usd=None if None in (first.cost_usd, second.cost_usd) else (first.cost_usd or 0) + (second.cost_usd or 0),
        duration_ms=first.duration_ms + second.duration_ms,
    )
