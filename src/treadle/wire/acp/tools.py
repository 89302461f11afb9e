"""One tool call, put together from an agent's messages: which tool, its arguments, its files, and the outcome.

Agents differ in what they send and when: a call may first appear as a tool_call, as an update of one or as a permission
request, and its arguments may come later or only as text. So everything that names the call is merged field by field.
"""

import difflib
import json
import re
from typing import Any, Literal, TypeAlias

import msgspec

from treadle.events import CommandRun, Event, FileChanged, ToolKind, Usage
from treadle.wire.acp.connection import diffs_in, texts_in
from treadle.wire.common.jsontext import amount

# Tokens and cost as agents report them, each at a different moment and over a different span.
#
# `span` is what the counts in the answer to a prompt cover, as measured: the `turn`, its last `step`, or the whole
# `session` so far, which is what the schema says. `none` is for agents that give no counts there.

Span: TypeAlias = Literal["turn", "step", "session", "none"]
_FIELDS = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens", "reasoning_tokens")


def read_counts(counts: Any, model: str = "") -> Usage | None:
    """Counts as a Usage whose buckets do not overlap; None when there are none, or only zeros.

    Some agents count cached tokens as input and others beside it: the total says which.
    """
    if not isinstance(counts, dict):
        return None
    given = _number(counts, "inputTokens", "input_tokens")
    output = _number(counts, "outputTokens", "output_tokens")
    read = _number(counts, "cachedReadTokens", "cachedInputTokens")
    written = _number(counts, "cachedWriteTokens", "cacheWriteInputTokens")
    if read + written and _number(counts, "totalTokens") == given + output:
        given = max(given - read - written, 0)
    if not given + output + read + written:
        return None
    return Usage(
        model=model,
        input_tokens=given,
        output_tokens=output,
        cache_read_tokens=read,
        cache_write_tokens=written,
        reasoning_tokens=_number(counts, "thoughtTokens", "reasoningOutputTokens"),
    )


class UsageMeter:
    """One session's counts. Nothing is made up: what an agent does not tell is not in any event."""

    def __init__(self, span: Span = "session") -> None:
        self.span = span
        self.model = ""
        self._before: Usage | None = None
        self._cost: float | None = None
        self._billed: float | None = None
        self._earlier_cost_unknown = False
        """The cost of earlier processes is still unknown, so the next total does not tell what this turn cost."""
        self._stepwise = False
        self.context: tuple[int | None, int | None] = None, None
        """How many tokens the conversation takes, and how many it may; None when it does not say."""

    def resumed(self) -> None:
        """The session was resumed: what an earlier process spent is not reported again."""
        self._billed, self._earlier_cost_unknown = self._cost, self._cost is None

    def updated(self, update: dict[str, Any]) -> None:
        """A usage_update: how full the context is, and the money spent over the whole session."""
        self.cost(update.get("cost"))
        used, size = _number(update, "used"), _number(update, "size")
        if used and size:
            self.context = used, size

    def cost(self, cost: Any) -> None:
        """`cost` of a usage_update: money spent over the whole session."""
        if isinstance(cost, dict) and cost.get("currency") == "USD":
            spent = amount(cost.get("amount"))
            self._cost = self._cost if spent is None else spent

    def step(self, counts: Any, duration_ms: Any = 0) -> Usage | None:
        """The usage of one model call, reported during the turn."""
        usage = read_counts(counts, self.model)
        if usage is not None:
            self._stepwise = True
            if type(duration_ms) is int:
                usage = _with(usage, duration_ms=duration_ms)
        return usage

    def turn(self, result: Any) -> list[Usage]:
        """The usage that the answer to a prompt adds. The turn's cost is on the last record."""
        answer = result if isinstance(result, dict) else {}
        found: list[Usage] = []
        if not self._stepwise and self.span != "none":
            usage = self._answer_usage(answer)
            found = [usage] if usage is not None else _quota(answer)
        cost = self._spent()
        if found and cost is not None:
            found[-1] = _with(found[-1], cost_usd=cost)
        return found

    def _answer_usage(self, answer: dict[str, Any]) -> Usage | None:
        usage = read_counts(answer.get("usage"), self.model)
        if usage is None or self.span != "session":
            return usage
        before, self._before = self._before, usage
        if before is None or any(getattr(usage, field) < getattr(before, field) for field in _FIELDS):
            return usage  # the first answer, or an agent that starts from zero each time
        rest = {field: getattr(usage, field) - getattr(before, field) for field in _FIELDS}
        return _with(usage, **rest) if any(rest.values()) else None

    def _spent(self) -> float | None:
        """The money spent since this was last asked; None when it is unknown."""
        if self._cost is None or self._cost < (self._billed or 0.0):
            return None
        spent = self._cost - (self._billed or 0.0)
        self._billed = self._cost
        if self._earlier_cost_unknown:
            self._earlier_cost_unknown = False
            return None
        return spent or None  # agents report 0 for a model whose price they do not know


def _quota(answer: dict[str, Any]) -> list[Usage]:
    """Counts by model, as Gemini gives them."""
    meta = answer.get("_meta")
    quota = meta.get("quota") if isinstance(meta, dict) else None
    models = quota.get("model_usage") if isinstance(quota, dict) else None
    found = [
        read_counts(one.get("token_count"), str(one.get("model") or ""))
        for one in (models if isinstance(models, list) else [])
        if isinstance(one, dict)
    ]
    return [usage for usage in found if usage is not None]


def _with(usage: Usage, **fields: Any) -> Usage:
    return msgspec.structs.replace(usage, **fields)


def _number(counts: dict[str, Any], *names: str) -> int:
    for name in names:
        value = counts.get(name)
        if type(value) is int and value >= 0:
            return value
    return 0


KINDS: dict[str, ToolKind] = {
    "read": "read",
    "search": "read",
    "edit": "write",
    "delete": "write",
    "move": "write",
    "execute": "execute",
    "fetch": "network",
}
"""Our kind for each of the protocol's kinds. The rest (think, switch_mode, other) becomes other."""
_NAMES = {"read": "read", "write": "edit", "execute": "bash", "network": "web_fetch"}
_IDENTIFIER = re.compile(r"[A-Za-z][A-Za-z0-9_.-]*")
_NAME_IN_ID = re.compile(r"([a-z]+(?:_[a-z]+)*)__")
DENIED = "tool_denied"
"""In the `_meta` of a client's capabilities: it understands this name in that of a call, which then was denied."""
WARNING = "warning"
"""In the `_meta` of a thought: it is a warning with this code. The protocol has no message for one, and a thought is
shown to a person without being part of the answer."""
DIFF_LINES = 20_000
"""Texts with more lines are not compared: the time grows with the product of their lengths."""


def parent_of(update: dict[str, Any]) -> str | None:
    """The call that started the subagent which says this. The protocol has no field for it; two agents have one."""
    meta = update.get("_meta")
    if not isinstance(meta, dict):
        return None
    claude = meta.get("claudeCode")
    found = meta.get("parentToolCallId") or (claude.get("parentToolUseId") if isinstance(claude, dict) else None)
    return found if isinstance(found, str) else None


class ToolRecord:
    def __init__(self, call: str) -> None:
        self.call = call
        self.name = ""
        self.title = ""
        self.kind: ToolKind = "other"
        self.status = "pending"
        self.args: Any = None
        self.content: list[Any] = []
        self.diffs: list[dict[str, Any]] = []
        """The latest diffs. When a call ends, some agents send other content without any diff."""
        self.locations: list[str] = []
        self.raw_output: Any = None
        self.meta: dict[str, Any] = {}
        self.started = False
        self.ended = False
        self.denied = False
        self.parent: str | None = None
        """The call that started the subagent which makes this call."""
        self.permitted = False
        """Whether a person or a rule allowed it when it asked."""
        self.output = ""
        self._described: Any = None
        """The description that the model gave. A title equal to it is not the tool's name."""

    def merge(self, update: dict[str, Any]) -> None:
        """Take over the fields that the message has, and keep the others."""
        if isinstance(update.get("status"), str):
            self.status = update["status"]
        if isinstance(update.get("kind"), str):
            self.kind = KINDS.get(update["kind"], "other")
        if isinstance(update.get("_meta"), dict):
            self.meta = {**self.meta, **update["_meta"]}
        if (parent := parent_of(update)) is not None and parent != self.call:
            self.parent = parent
        title = update.get("title")
        if isinstance(title, str) and title:
            self.title = title
        self.name = self.name or self._name(update)
        if update.get("rawInput"):
            self.args = update["rawInput"]
        if isinstance(update.get("content"), list):
            self.content = update["content"]
            self.diffs = diffs_in(self.content) or self.diffs
            self._arguments_as_text()
        if isinstance(update.get("locations"), list):
            found = [place.get("path") for place in update["locations"] if isinstance(place, dict)]
            self.locations = [path for path in found if isinstance(path, str)] or self.locations
        if update.get("rawOutput") is not None:
            self.raw_output = update["rawOutput"]

    def _name(self, update: dict[str, Any]) -> str:
        """The tool's name. The protocol has no field for it, so agents put it in one of four places."""
        claude = self.meta.get("claudeCode")
        for given in (
            update.get("name"),
            claude.get("toolName") if isinstance(claude, dict) else None,
            self.meta.get("toolName"),
        ):
            if isinstance(given, str) and given:
                return given
        if found := _NAME_IN_ID.match(self.call):
            return found[1]
        described = update["rawInput"].get("description") if isinstance(update.get("rawInput"), dict) else None
        self._described = described or self._described
        if _IDENTIFIER.fullmatch(self.title) and self.title != self._described:
            return self.title
        return ""

    def _arguments_as_text(self) -> None:
        """One agent sends the arguments as JSON text in the content until the tool has ended."""
        text = texts_in(self.content)
        if self.args or self.status in ("completed", "failed") or not text.startswith("{"):
            return
        try:
            args = json.loads(text)
        except ValueError:
            return
        if isinstance(args, dict):
            self.args = args

    @property
    def tool(self) -> str:
        return self.name or _NAMES.get(self.kind, "tool")

    @property
    def paths(self) -> list[str]:
        """The files that the call is about. The directory that a command runs in is not one of them."""
        named = self.locations if self.kind in ("read", "write") else []
        return list(dict.fromkeys([*named, *(diff["path"] for diff in self.diffs)]))

    @property
    def terminals(self) -> list[str]:
        """The ids of the client's terminals that show this call's output."""
        shown = [item for item in self.content if isinstance(item, dict) and item.get("type") == "terminal"]
        return [item["terminalId"] for item in shown if isinstance(item.get("terminalId"), str)]

    @property
    def closed(self) -> bool:
        return self.status in ("completed", "failed")

    # What came of it

    @property
    def refusal(self) -> dict[str, Any] | None:
        """Why, and by whom, the agent itself denied the call; None if it did not, or does not say."""
        found = self.meta.get(DENIED)
        return found if isinstance(found, dict) and self.closed else None

    @property
    def exit_code(self) -> int | None:
        output = self.raw_output if isinstance(self.raw_output, dict) else {}
        metadata = output.get("metadata")
        terminal = self.meta.get("terminal_exit")
        for value in (
            output.get("exitCode"),
            output.get("exit_code"),
            metadata.get("exit") if isinstance(metadata, dict) else None,
            terminal.get("exit_code") if isinstance(terminal, dict) else None,
        ):
            if type(value) is int:
                return value
        return None

    @property
    def result(self) -> str:
        raw = self.raw_output
        if isinstance(raw, dict):
            raw = next((raw[key] for key in ("output", "text", "message") if isinstance(raw.get(key), str)), None)
        text = texts_in(self.content)
        return text or (raw if isinstance(raw, str) else "") or self.output

    def new_output(self) -> str:
        """What a running tool has printed since this was last asked, for tools whose content is their output."""
        terminal = self.meta.pop("terminal_output", None)
        if isinstance(terminal, dict) and isinstance(terminal.get("data"), str):
            self.output += terminal["data"]
            return str(terminal["data"])
        return ""

    def effects(self, command: str | None) -> list[Event]:
        """The files that it changed and the command that it ran, as far as the agent reports them."""
        found: list[Event] = []
        if self.status == "completed" and self.kind == "write":
            found += [_changed(diff, self.call) for diff in self.diffs]
        if command is not None and self.kind == "execute" and self.exit_code is not None:
            found.append(CommandRun(command=command, exit_code=self.exit_code, output=self.result, call=self.call))
        return found


def _changed(diff: dict[str, Any], call: str) -> FileChanged:
    old, new = diff.get("oldText"), diff.get("newText")
    path = str(diff["path"])
    text = unified(path, old if isinstance(old, str) else "", new if isinstance(new, str) else "")
    # Two agents give an empty old text for a file that did not exist.
    change: Literal["added", "modified", "deleted"] = "modified" if old else "added"
    if new is None:
        change = "deleted"
    return FileChanged(path=path, change=change, diff=text, call=call)


def unified(path: str, old: str, new: str) -> str:
    """A unified diff; empty when the texts are too long to compare."""
    before, after = old.splitlines(keepends=True), new.splitlines(keepends=True)
    if len(before) + len(after) > DIFF_LINES:
        return ""
    lines = difflib.unified_diff(before, after, f"a/{path.lstrip('/')}", f"b/{path.lstrip('/')}")
    return "".join(line if line.endswith("\n") else line + "\n\\ No newline at end of file\n" for line in lines)
