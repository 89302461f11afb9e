"""Turns a conversation with calls into one of words only, which small models follow better. Pure.

The same messages always give the same words, so that the service can reuse its cache.
"""

import re
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from treadle.agent.messages import AssistantMessage, ChatMessage, ToolCall, ToolResult, ToolSchema, UserMessage
from treadle.agent.small.names import undefined
from treadle.agent.small.profile import SmallProfile
from treadle.agent.small.words import ANSWER, example, right_call, undefined_note

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
