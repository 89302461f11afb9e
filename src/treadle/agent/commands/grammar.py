"""Parses the arguments of `/agent run` and `/agent parallel`.

    run [TYPE] [--agent T] [--model M] [--isolation none|worktree] [--background|--detach] PROMPT
    parallel [--wait|--detach] [--model M] [--isolation ...] LABEL:"PROMPT" LABEL="PROMPT" LABEL=TYPE:"PROMPT" ...

Quotes are single or double. Inside them a backslash escapes the quote or another backslash; before anything
else it is just a backslash. Newlines and runs of spaces inside quotes, and in an unquoted PROMPT, survive.
"""

import re

import msgspec

from treadle.agent.commands.base import WrongUse
from treadle.agent.subagents import AGENT_TYPES, Assignment, Isolation

MAX_MEMBERS = 64
LABEL = 60

_VALUES = {
    "--agent": "agent_type",
    "--type": "agent_type",
    "-a": "agent_type",
    "--model": "model",
    "--isolation": "isolation",
}
_MEMBER = re.compile(r"""([^\s:="']+)(?::|=(?:([^\s:="']+):)?)(?=["'])""")
_OPTION = re.compile(r"--?[A-Za-z][\w-]*")
_TYPES = {kind.name for kind in AGENT_TYPES.values()}


class TaskRequest(msgspec.Struct, kw_only=True):
    members: list[Assignment]
    background: bool = False
    detach: bool = False


class Options(msgspec.Struct, kw_only=True):
    agent_type: str | None = None
    model: str | None = None
    isolation: Isolation = "none"
    flags: set[str] = msgspec.field(default_factory=set)


class Scanner:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0

    def space(self) -> None:
        while self.text[self.at : self.at + 1].isspace():
            self.at += 1

    @property
    def rest(self) -> str:
        return self.text[self.at :]

    def word(self) -> str:
        """Look at the next word without taking it."""
        return self.rest.split(maxsplit=1)[0] if self.rest.strip() else ""

    def quoted(self) -> str:
        quote, begun = self.text[self.at], self.at
        letters: list[str] = []
        self.at += 1
        while self.at < len(self.text):
            here, following = self.text[self.at], self.text[self.at + 1 : self.at + 2]
            if here == quote:
                self.at += 1
                return "".join(letters)
            if here == "\\" and following and following in (quote, "\\"):
                here = following
                self.at += 1
            letters.append(here)
            self.at += 1
        raise WrongUse(f"the quote in {_shown(self.text[begun:])} is never closed")

    def value(self, option: str) -> str:
        self.space()
        if self.rest[:1] in ('"', "'"):
            return self.quoted()
        word = self.word()
        self.at += len(word)
        if not word:
            raise WrongUse(f"{option} needs a value")
        return word

    def option(self, options: Options, flags: tuple[str, ...]) -> bool:
        """Take the option at this position. False when there is none."""
        found = _OPTION.match(self.rest)
        name = found[0] if found else ""
        after = self.rest[len(name) : len(name) + 1]
        if not name or (after and not after.isspace() and after != "="):
            return False
        if name in flags and after != "=":
            self.at += len(name)
            options.flags.add(name)
            return True
        if name not in _VALUES:
            raise WrongUse(f"there is no option {name}; put -- before a prompt that begins with a dash")
        self.at += len(name) + (after == "=")
        _set(options, name, self.value(name))
        return True


def _set(options: Options, name: str, value: str) -> None:
    field = _VALUES[name]
    if field == "isolation" and value not in ("none", "worktree"):
        raise WrongUse(f"--isolation is none or worktree, not {value!r}")
    if field == "agent_type" and value.lower() not in AGENT_TYPES:
        raise WrongUse(_no_type(value))
    setattr(options, field, value)


def parse_run(text: str) -> TaskRequest:
    scan, options = Scanner(text), Options()
    while True:
        scan.space()
        word = scan.word()
        if word == "--":
            scan.at += 2
            break
        if scan.option(options, ("--background", "--detach")):
            continue
        if options.agent_type is None and word in _TYPES and scan.rest[len(word) :].strip():
            options.agent_type = word
            scan.at += len(word)
            continue
        break
    prompt = _prompt(scan)
    return TaskRequest(
        members=[_assignment(prompt, " ".join(prompt.split())[:LABEL], options, None)],
        background="--background" in options.flags,
        detach="--detach" in options.flags,
    )


def _prompt(scan: Scanner) -> str:
    """Everything that is left; if that is one quoted text, the text inside the quotes."""
    scan.space()
    whole = scan.rest.rstrip()
    if whole[:1] in ('"', "'"):
        inner = Scanner(whole)
        try:
            inside = inner.quoted()
        except WrongUse:
            inside = ""  # perhaps an apostrophe at the start: then it is not quoted at all
        else:
            whole = inside if not inner.rest else whole
    if not whole.strip():
        raise WrongUse("what is the agent to do?")
    return whole


def parse_parallel(text: str) -> TaskRequest:
    scan, options = Scanner(text), Options()
    found: list[tuple[str, str | None, str]] = []
    while True:
        scan.space()
        if not scan.rest:
            break
        if not scan.option(options, ("--wait", "--detach")):
            found.append(_member(scan))
    if not found:
        raise WrongUse("there is no agent to start")
    if len(found) > MAX_MEMBERS:
        raise WrongUse(f"{len(found)} agents are more than the {MAX_MEMBERS} that can be started at once")
    return TaskRequest(
        members=[_assignment(prompt, label, options, kind) for label, kind, prompt in found],
        detach="--detach" in options.flags and "--wait" not in options.flags,
    )


def _member(scan: Scanner) -> tuple[str, str | None, str]:
    found = _MEMBER.match(scan.rest)
    if found is None:
        raise WrongUse(f'expected LABEL:"PROMPT" where {_shown(scan.rest)} stands')
    label, kind = found[1], found[2]
    if kind is not None and kind.lower() not in AGENT_TYPES:
        raise WrongUse(_no_type(kind))
    scan.at += found.end()
    prompt = scan.quoted()
    if scan.rest and not scan.rest[0].isspace():
        raise WrongUse(f"a space is missing before {_shown(scan.rest)}")
    if not prompt.strip():
        raise WrongUse(f"what is {label} to do?")
    return label, kind, prompt


def _assignment(prompt: str, label: str, options: Options, kind: str | None) -> Assignment:
    return Assignment(
        prompt=prompt,
        label=label,
        agent_type=kind or options.agent_type,
        model=options.model,
        isolation=options.isolation,
    )


def _no_type(name: str) -> str:
    return f"there is no agent type {name!r}: the types are {', '.join(sorted(_TYPES))}"


def _shown(text: str) -> str:
    return repr(text if len(text) <= 40 else text[:39] + "…")
