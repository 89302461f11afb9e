"""A question of the agent as a person sees it: what would happen, what the keys do, and the answer they make."""

from __future__ import annotations

import json
import os
import re
from typing import Any, Literal

import msgspec

from treadle.agent.tools.diff import unified
from treadle.events import Asked
from treadle.io.files import read_at_most
from treadle.session import Answer

Want = Literal["keys", "reason", "change", "words"]
"""What is typed now: one key, why not, other arguments, or an answer in words."""

SCOPES: dict[str, Literal["once", "session", "always"]] = {"y": "once", "s": "session", "a": "always"}
PREVIEW_BYTES = 1 << 20
USUAL = re.compile(r"requires approval( in [\w-]+ mode)?$")


class Question:
    """One open question. `press` and `enter` give the answer when there is one, and None while more is to be typed."""

    def __init__(self, asked: Asked, cwd: str) -> None:
        self.asked = asked
        self.cwd = cwd
        self.want: Want = "words" if asked.kind == "question" else "keys"
        self.problem = ""
        self.chosen = 0
        """Which of the matching options the arrow keys stand on."""

    @property
    def headline(self) -> str:
        """What is to be decided, in words; the rest stands below it."""
        asked = self.asked
        if asked.kind != "permission" or not (asked.command or asked.name):
            return asked.text
        if asked.command:
            return "May this command run?"
        if asked.tool_kind == "write" and asked.paths:
            names = ", ".join(nearer(path, self.cwd) for path in asked.paths)
            new = not any(os.path.lexists(os.path.join(self.cwd, path)) for path in asked.paths)
            return f"May {names} be {'made' if new else 'changed'}?"
        return f"May {asked.name} be used?"

    @property
    def why(self) -> str:
        """Why it is asked; empty when it is only because the mode asks for everything of its kind."""
        text = self.asked.text
        return "" if text == self.headline or USUAL.search(text) else text

    @property
    def keys(self) -> str:
        """What can be pressed now, in words."""
        if self.want == "reason":
            return "why not? (Enter alone says nothing, Esc goes back)"
        if self.want == "change":
            return "change it, Enter runs it as changed (Esc goes back)"
        if self.want == "words":
            if not self.asked.request:
                return "arrows and Enter choose, typing narrows the list, Esc leaves it"
            return "arrows and Enter choose, or type an answer" if self.asked.options else "your answer"
        if self.asked.kind == "plan":
            return "y go ahead · n not like this"
        return "y yes · n no, and why · s for this session · a always · e change it first"

    @property
    def rule(self) -> str:
        """Which rule "always" makes, in words; empty when there is none to make now."""
        if self.want != "keys" or self.asked.kind != "permission" or not self.asked.always:
            return ""
        return f"a keeps this rule: {', '.join(self.asked.always)}"

    def press(self, key: str) -> Answer | None:
        """A single key, while keys are wanted."""
        key = key.lower()
        if key in SCOPES and (self.asked.kind == "permission" or key == "y"):
            return Answer(decision="allow", scope=SCOPES[key])
        if key == "n":
            self.want = "reason"
        if key == "e" and self.asked.kind == "permission":
            self.want = "change"
        return None

    def begin(self) -> str:
        """What the field holds when typing begins."""
        if self.want != "change":
            return ""
        if self._has_command():
            return self.asked.command or ""
        return json.dumps(self.asked.args, indent=2, ensure_ascii=False)

    def enter(self, text: str) -> Answer | None:
        if self.want == "reason":
            return Answer(decision="deny", text=text.strip())
        if self.want == "words":
            return self._words(text.strip())
        try:
            changed = {**self.asked.args, "command": text} if self._has_command() else json.loads(text)
        except ValueError as error:
            self.problem = f"this is no JSON: {error}"
            return None
        return Answer(decision="allow", changed_args=changed)

    def back(self) -> bool:
        """Esc: from a field to the keys. False when there is nothing to go back to."""
        if self.want not in ("reason", "change"):
            return False
        self.want, self.problem = "keys", ""
        return True

    def matching(self, text: str) -> list[str]:
        """The options that what was typed so far leaves."""
        return [option for option in self.asked.options if text.strip().lower() in option.lower()]

    def move(self, by: int, text: str) -> None:
        self.chosen = max(0, min(self.chosen + by, len(self.matching(text)) - 1))

    def _words(self, word: str) -> Answer:
        matching = self.matching(word)
        if word.isdigit() and 0 < int(word) <= len(self.asked.options):
            word = self.asked.options[int(word) - 1]
        elif matching:
            word = matching[min(self.chosen, len(matching) - 1)]
        return Answer(decision="allow" if word else "deny", text=word or "no answer")

    def _has_command(self) -> bool:
        return self.asked.command is not None and isinstance(self.asked.args, dict) and "command" in self.asked.args


def nearer(path: str, cwd: str) -> str:
    """The path as one says it in this directory."""
    inside = os.path.relpath(os.path.join(cwd, path), cwd)
    return path if inside.startswith("..") else inside


def confinement_words(confined: str) -> tuple[str, str]:
    """A style, and what is said of how a command would be confined."""
    if confined:
        return "green", f"confined {confined}"
    return "yellow", "not confined: it can do all that you can"


def diff_of(asked: Asked, cwd: str) -> str:
    """What an edit or write would change, as a unified diff; empty when the arguments do not tell or nothing would."""
    args = asked.args if isinstance(asked.args, dict) else {}
    name = args.get("file_path", args.get("path"))
    if not isinstance(name, str):
        return ""
    old = _read(os.path.join(cwd, name))
    new = _after(args, old)
    return unified(old, new, os.path.relpath(os.path.join(cwd, name), cwd)) if new is not None else ""


def _after(args: dict[str, Any], old: str) -> str | None:
    if isinstance(args.get("content"), str):
        content: str = args["content"]
        return content
    edits = args.get("edits") if isinstance(args.get("edits"), list) else [args]
    new = old
    for edit in edits or ():
        try:
            one = msgspec.convert(edit, Replacement)
        except msgspec.ValidationError:
            return None
        new = new.replace(one.old_string, one.new_string, -1 if one.replace_all else 1)
    return new


class Replacement(msgspec.Struct, frozen=True, kw_only=True):
    """One replacement, as the editing tools of most agents spell it."""

    old_string: str
    new_string: str
    replace_all: bool = False


def _read(path: str) -> str:
    try:
        return read_at_most(path, PREVIEW_BYTES).decode("utf-8", "replace")
    except OSError:
        return ""
