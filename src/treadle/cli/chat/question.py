"""A question of the agent as a person sees it: what would happen, what the keys do, and the answer they give."""

import json
import os
from typing import Literal

from treadle.agent.question import headline, reason
from treadle.events import Asked
from treadle.policy.shell import read
from treadle.session import Answer

# What a command would touch, as far as its text shows it, for the person who is asked whether it may run.

SHOWN = 8


def touched(command: str, cwd: str) -> str:
    """One line: where the command writes, and which existing files and directories it names."""
    script = read(command)
    writes = list(dict.fromkeys(script.writes))
    named = [word for part in script.parts for word in part.words[1:] if _is_there(word, cwd)]
    named = [word for word in dict.fromkeys(named) if word not in writes]
    parts = [f"writes {_listed([one + ('' if _is_there(one, cwd) else ' (new)') for one in writes])}"] if writes else []
    parts += [f"names {_listed(named)}"] if named else []
    if not script.understood:
        parts.append(f"not all of it can be understood: {script.why}")
    return "; ".join(parts) or "Files: none named"


def _is_there(word: str, cwd: str) -> bool:
    if not word or word.startswith("-") or "\0" in word:
        return False
    try:
        return os.path.lexists(os.path.join(cwd, os.path.expanduser(word)))
    except (OSError, ValueError):
        return False


def _listed(words: list[str]) -> str:
    more = f" and {len(words) - SHOWN} more" if len(words) > SHOWN else ""
    return ", ".join(words[:SHOWN]) + more


Want = Literal["keys", "reason", "change", "words"]
"""What is being typed: a single key, a reason for a no, changed arguments, or an answer in words."""

SCOPES: dict[str, Literal["once", "session", "always"]] = {"y": "once", "s": "session", "a": "always"}


class Question:
    """One open question. `press` and `enter` return the answer once there is one, and None while more must be typed."""

    def __init__(self, asked: Asked, cwd: str) -> None:
        self.asked = asked
        self.cwd = cwd
        self.want: Want = "words" if asked.kind == "question" else "keys"
        self.problem = ""
        self.chosen = 0
        """Which of the matching options the arrow keys have selected."""

    @property
    def headline(self) -> str:
        return headline(self.asked, self.cwd)

    @property
    def why(self) -> str:
        return reason(self.asked, self.cwd)

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
        change = " · e change it first" if self.asked.changeable else ""
        return f"y yes · n no, and why · s for this session · a always{change}"

    @property
    def rule(self) -> str:
        """The rule that "always" would make, in words; empty when it would make none."""
        if self.want != "keys" or self.asked.kind != "permission" or not self.asked.always:
            return ""
        return f"a keeps this rule: {', '.join(self.asked.always)}"

    def press(self, key: str) -> Answer | None:
        """Handle a single key, in the state where keys are expected."""
        key = key.lower()
        if key in SCOPES and (self.asked.kind == "permission" or key == "y"):
            return Answer(decision="allow", scope=SCOPES[key])
        if key == "n":
            self.want = "reason"
        if key == "e" and self.asked.changeable:
            self.want = "change"
        return None

    def begin(self) -> str:
        """What the field holds when the person begins to type."""
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
        """Esc: go back from the field to the keys. False when there is nothing to go back to."""
        if self.want not in ("reason", "change"):
            return False
        self.want, self.problem = "keys", ""
        return True

    def matching(self, text: str) -> list[str]:
        """The options that match what was typed so far."""
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


def confinement_words(confined: str) -> tuple[str, str]:
    """The style and the text that say how a command would be confined."""
    if confined:
        return "green", f"confined {confined}"
    return "yellow", "not sandboxed: runs with your full permissions"
