"""Permission rules: `Bash(git status*)`, `Write(.env*)`, `Read(secrets/**)`, `WebFetch(*.example.com)`, `mcp__github`.

A rule is a tool and, in parentheses, a pattern for what the tool touches: the command, the paths or the host. It looks
at `session.Access` only, so it means the same whatever a tool calls its arguments. Deny beats ask beats allow. Rules
that forbid are read broadly, rules that allow narrowly:

- deny and ask match if any part of a shell command or any path matches; allow matches only if all of them do;
- an allow rule never matches a command that could not be understood, unless it is exactly that command.
"""

from __future__ import annotations

import itertools
import posixpath
import re
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias

import msgspec

from treadle.errors import ConfigError
from treadle.policy import patterns, protected
from treadle.session import Access, Decision, Guard, Mode, Rules

if TYPE_CHECKING:
    from treadle.policy import shell


# What rules need to know about the file system. The caller passes it in, because policy itself does no I/O.
#
# `treadle.io.paths.DISK` reads the file system of this machine.


class Disk(Protocol):
    def expand(self, path: str) -> str:
        """The path with `~` and `~name` replaced by the home directory."""
        ...

    def real(self, path: str) -> str:
        """Where an absolute path leads, with every link followed."""
        ...

    def found(self, base: str, pattern: str) -> Iterable[str]:
        """The files in the directory `base` that a shell would put in place of a word with wildcards."""
        ...


class AsWritten:
    """Takes paths as they are written: no links are followed and no wildcards expanded."""

    def __init__(self, disk: Disk) -> None:
        self.expand = disk.expand

    def real(self, path: str) -> str:
        return posixpath.normpath(path)

    def found(self, base: str, pattern: str) -> Iterable[str]:
        return ()


_RULE = r"(?s)([\w*-]+)(?:\((.*)\))?"
_KINDS = {
    "read": ("read",),
    "write": ("write",),
    "edit": ("write",),
    "execute": ("execute", "other"),
    "network": ("network",),
}
_WRITING = ("write", "edit", "writefile", "editfile", "multiedit")
_OTHERS = {("edit", "write_file"), ("write", "edit_file")}
"""To allow one of them is not to allow the other, unless it is by paths; to forbid one forbids both."""
MAX_FOUND = 10_000
_SHELL_NAMES = {"bash", "shell", "sh", "execcommand", "localshell", "runshellcommand", "terminal"}


def written(script: shell.ShellScript) -> list[str]:
    """The files that a script writes, as far as its words show: redirections, and operands that are written to."""
    from treadle.policy import programs, shell

    found = [*script.writes]
    for part in script.parts:
        words = [word for word in part.words[1:] if not word.startswith("-")]
        if part.name in ("cp", "ln", "install"):
            words = words[-1:]
        elif part.name in ("chmod", "chown") or part.name == "sed" and any(word[:2] == "-i" for word in part.words):
            words = words[1:]
        elif part.name == "dd":
            words = [word.removeprefix("of=") for word in words if word.startswith("of=")]
        elif part.name not in programs.WRITERS or part.name == "sed":
            continue
        found += shell.joined(script.bases, words)
    return found


class Rule(msgspec.Struct, frozen=True):
    text: str
    tool: str
    """In lower case and without `_` and `-`."""
    pattern: str | None

    def concerns(self, access: Access) -> bool:
        """Whether the rule is about this tool at all."""
        name = access.tool.lower()
        if self.tool == "*":
            return True
        if self.tool.startswith("mcp__"):
            return patterns.wildcard(self.tool, name) or name.startswith(self.tool + "__")
        if self.tool in _KINDS:
            return access.kind in _KINDS[self.tool]
        if self.tool == "bash":
            return access.command is not None or _plain(name) in _SHELL_NAMES
        return self.tool == _plain(name) or (self.tool, name) == ("agent", "task")


def parse_rule(text: str) -> Rule:
    found = re.fullmatch(_RULE, text.strip())
    if found is None:
        raise ConfigError(
            f"{text!r} is not a permission rule", hint="write Tool or Tool(pattern), as in Bash(git status*)"
        )
    tool, pattern = found[1].lower(), found[2]
    if not tool.startswith("mcp__"):
        tool = _plain(tool)
    if pattern in ("", "*", "**") and tool != "webfetch":
        pattern = None
    if pattern is not None and tool != "bash" and not tool.startswith("mcp__"):
        patterns.parse(pattern)  # refuses an invalid pattern early
    return Rule(text.strip(), tool, pattern)


def _plain(name: str) -> str:
    return name.lower().replace("_", "").replace("-", "")


class RuleSet:
    """Rules prepared for one working directory."""

    def __init__(
        self, rules: Rules, cwd: str, disk: Disk, looks: Callable[[str, shell.Part], bool] = lambda command, part: False
    ) -> None:
        """`looks`: whether this part of a command only looks at what may be read, so that no rule need allow it."""
        self.cwd = cwd
        self._disk = disk
        self._looks = looks
        self.allow = [parse_rule(text) for text in rules.allow]
        self.ask = [parse_rule(text) for text in rules.ask]
        self.deny = [parse_rule(text) for text in rules.deny]
        about = ("read", "readfile", "grep", "glob", "*")
        hiding = [rule.pattern for rule in (*self.deny, *self.ask) if rule.pattern is not None and rule.tool in about]
        self._hiding = [one for pattern in hiding for one in self.candidates(pattern, wide=True)]

    def hidden_patterns(self) -> list[str]:
        """Absolute patterns of the files that deny rules keep from being read, for a sandbox to hide."""
        return self._denied("read", "readfile", "grep", "glob", "*")

    def protected_patterns(self) -> list[str]:
        """Absolute patterns of the files that deny rules keep from being changed."""
        return self._denied(*_WRITING, "*")

    def names_for_writing(self, path: str) -> bool:
        """Whether an allow rule about writing names exactly this file, or everything in this directory."""
        named = [rule.pattern for rule in self.allow if rule.pattern is not None and rule.tool in _WRITING]
        return any(
            self.path_matches(one, path) or one.endswith("/**") and self.path_matches(one.removesuffix("/**"), path)
            for one in named
        )

    def _denied(self, *tools: str) -> list[str]:
        named = [rule.pattern for rule in self.deny if rule.pattern is not None and rule.tool in tools]
        return list(dict.fromkeys(one for pattern in named for one in self.candidates(pattern, wide=True)))

    def judge(self, access: Access) -> Decision | None:
        """The decision of the rules; None when no rule matches."""
        if not (self.deny or self.ask or self.allow):
            return None
        from treadle.policy import shell  # a session opens without reading any command

        script = shell.read(access.command) if access.command is not None else None
        for rule in self.deny:
            if self.touches(rule, access, script):
                return Decision(verdict="deny", reason=f"{access.tool} is denied by the rule {rule.text}", by="rule")
        for rule in self.ask:
            if self.touches(rule, access, script):
                return Decision(verdict="ask", reason=f"{access.tool} must ask: the rule {rule.text}", by="rule")
        if self.allowed(access, script):
            return Decision(verdict="allow", by="rule")
        if script is not None and not script.understood and self.limits_commands():
            return Decision(
                verdict="ask",
                reason=f"{access.tool} must ask: the rules cannot be applied to this command ({script.why})",
                by="rule",
            )
        return None

    def limits_commands(self) -> bool:
        return any(rule.pattern is not None and rule.tool in ("bash", "*") for rule in (*self.deny, *self.ask))

    def touches(self, rule: Rule, access: Access, script: shell.ShellScript | None) -> bool:
        """Whether any part of the access matches. For rules that forbid."""
        if script is not None and rule.pattern is not None:
            if rule.tool in ("read", "write", "edit"):
                return self.touches_in_shell(rule, script)
            if rule.tool in ("bash", "*") and any(
                command_matches(rule.pattern, text) for part in script.parts for text in _all_forms(part)
            ):
                return True
            if rule.tool in ("bash", "*") and any(mentions(rule.pattern, text) for text in script.loose):
                return True
        if not rule.concerns(access):
            return False
        if rule.pattern is None:
            return True
        if rule.tool == _plain(access.tool) or rule.tool == "agent":  # such as Task(NAME) and Skill(NAME)
            names = msgspec.to_builtins(access.args) if isinstance(access.args, msgspec.Struct) else None
            if any(isinstance(name, str) and command_matches(rule.pattern, name) for name in (names or {}).values()):
                return True
        return any(self.path_matches(rule.pattern, path, wide=True) for path in access.paths) or (
            access.url is not None and host_matches(rule.pattern, access.url)
        )

    def touches_in_shell(self, rule: Rule, script: shell.ShellScript) -> bool:
        """A rule about files also applies to redirections, and to words of a command that can only mean such files."""
        from treadle.policy import programs, shell

        assert rule.pattern is not None
        reading = rule.tool == "read"
        named = [*script.reads] if reading else [*script.writes]
        for part in script.parts:
            words = [*programs.mentioned(_words(part))] if reading else [*programs.written(part.words)]
            named += shell.joined(script.bases, [word for word in words if word])
            globs = shell.joined(script.bases, [glob for glob in part.globs if glob in words])
            try:
                named += itertools.islice((path for glob in globs for path in self.found(glob)), MAX_FOUND)
            except ConfigError:
                return True  # it stands for more than we can follow
            if len(named) > MAX_FOUND:
                return True
        unique = dict.fromkeys(path for path in named if "\0" not in path)
        return any(self.path_matches(rule.pattern, path, wide=True) for path in unique)

    def found(self, word: str) -> Iterator[str]:
        """The files that the shell would put in place of a word with wildcards."""
        for pattern in patterns.expand_braces(word):
            yield from self._disk.found(self.cwd, self._disk.expand(pattern))

    def allowed(self, access: Access, script: shell.ShellScript | None) -> bool:
        rules = [rule for rule in self.allow if rule.concerns(access)]
        if any(rule.pattern is None and (rule.tool, access.tool) not in _OTHERS for rule in rules):
            return True
        texts = [rule.pattern for rule in rules if rule.pattern is not None]
        if script is not None:
            if self.names_command(access):
                return True
            judged = [part for part in script.parts if not part.wrapper]
            rest = [part for part in judged if not _part_allowed(part, texts)] if script.understood else judged
            return len(rest) < len(judged) and all(self._looks(access.command or "", part) for part in rest)
        if access.paths:
            return all(any(self.path_matches(text, path) for text in texts) for path in access.paths)
        return access.url is not None and any(host_matches(text, access.url) for text in texts)

    def names_command(self, access: Access) -> bool:
        """Whether an allow rule is exactly this command, so that nothing in it is left to judge."""
        if access.command is None:
            return False
        return any(rule.concerns(access) and rule.pattern == access.command for rule in self.allow)

    def by_parts(self, access: Access) -> bool:
        """Whether only the parts of a command are allowed, in a form that Claude Code would ask about as a whole."""
        form = re.search(r"^\s*\(|\b(?:ba|da|z)?sh\s+-\w*c\b|&\s*$", access.command or "")
        whole = any(rule.pattern is None and rule.concerns(access) for rule in self.allow)
        return form is not None and not whole and not self.names_command(access)

    def names_paths(self, access: Access) -> bool:
        """Whether allow rules cover each of these paths, so that their location does not matter."""
        texts = [rule.pattern for rule in self.allow if rule.concerns(access) and rule.pattern is not None]
        return bool(access.paths) and all(any(self.path_matches(text, path) for text in texts) for path in access.paths)

    def hides(self, path: str) -> bool:
        """Whether a rule forbids reading this file without asking; tools that look at many files then skip it."""
        return any(patterns.match(pattern, path) for pattern in self._hiding)

    def path_matches(self, pattern: str, path: str, wide: bool = False) -> bool:
        candidates = self.candidates(pattern, wide)
        # The path as written and its real location: one match is enough to forbid, both must match to allow.
        matched = (any(patterns.match(one, place) for one in candidates) for place in self.places(path))
        return any(matched) if wide else all(matched)

    def candidates(self, pattern: str, wide: bool) -> list[str]:
        """The absolute patterns that a rule's pattern stands for."""
        candidates = [self.absolute(pattern)]
        if "/" not in pattern.rstrip("/"):
            candidates.append(f"/**/{pattern}")
        if wide and pattern.endswith("/**"):
            candidates.append(self.absolute(pattern.removesuffix("/**")))
        elif wide and not set("*?[{").isdisjoint(pattern.rpartition("/")[2]):
            # As in .gitignore, a directory that matches goes with all that is in it.
            candidates += [f"{one}/**" for one in candidates]
        return candidates

    def places(self, path: str) -> tuple[str, ...]:
        """The path as written, and its real location if that differs."""
        whole = posixpath.join(self.cwd, self._disk.expand(path))
        written = patterns.normalise(whole)
        real = self._disk.real(whole) if "\0" not in whole else written
        return (written,) if real == written else (written, real)

    def absolute(self, pattern: str) -> str:
        if pattern.startswith("~"):
            return patterns.escape(self._disk.expand("~")) + pattern.lstrip("~")
        return pattern if pattern.startswith("/") else f"{patterns.escape(self.cwd)}/{pattern}"


def command_matches(pattern: str, command: str) -> bool:
    """`git status*` is matched literally; `git *` and `npm run test:*` also match the command without arguments."""
    if pattern.endswith(":*"):
        pattern = pattern.removesuffix(":*") + " *"
    return patterns.wildcard(pattern, command) or pattern.endswith(" *") and patterns.wildcard(pattern[:-2], command)


def mentions(pattern: str, text: str) -> bool:
    """Whether a word in the text, with those after it, is a command that matches."""
    program = re.match(r"[\w.+-]+", pattern)
    if program is None or program[0] not in text:
        return False
    words = re.findall(r"[\w./+-]+", re.sub(r"\\[nrt]", " ", text))
    found = (number for number, word in enumerate(words) if posixpath.basename(word) == program[0])
    return any(command_matches(pattern, " ".join((program[0], *words[at + 1 : at + 16]))) for at in found)


def _words(part: shell.Part) -> tuple[str, ...]:
    """All words that it is given, including assignments, because later commands can read those variables."""
    return (*part.assignments, *part.words[(0 if "=" in part.words[0] else 1) :])


def _part_allowed(part: shell.Part, allowed: list[str]) -> bool:
    """Whether every word is known and no option runs or writes something, unless the rule itself has that option."""
    from treadle.policy import programs

    if not part.certain:
        return False
    forms = (part.text, part.full, part.source) if part.plain else (part.full, part.source)
    risky = programs.risky(part.words)
    covering = [pattern for pattern in allowed if all(_names(pattern, option) for option in risky)]
    return any(command_matches(pattern, form) for pattern in covering for form in forms)


def _names(pattern: str, option: str) -> bool:
    return option.partition("=")[0] in re.split(r"[\s=]", pattern)


def _all_forms(part: shell.Part) -> tuple[str, ...]:
    """Every form in which a rule may name this command."""
    return part.text, part.full, part.source, " ".join((part.name, *part.words[1:]))


def host_matches(pattern: str, url: str) -> bool:
    from urllib.parse import urlsplit  # rarely needed: few sessions fetch a page

    try:
        host = urlsplit(url).hostname or ""
    except ValueError:
        return False
    return patterns.wildcard(pattern.removeprefix("domain:").lower(), host.rstrip(".").lower())


# The guard of a session. It combines rules, mode, directories, what a person allowed, and any further guard; and says
# what each mode allows.

# What each approval mode says about each kind of tool.

Category: TypeAlias = Literal["read", "network", "write", "execute"]
HookVerdict: TypeAlias = Literal["allow", "ask", "deny"]

MATRIX: dict[Mode, dict[Category, HookVerdict]] = {
    "plan": {"read": "allow", "network": "allow", "write": "deny", "execute": "deny"},
    "suggest": {"read": "allow", "network": "allow", "write": "ask", "execute": "ask"},
    "auto-edit": {"read": "allow", "network": "allow", "write": "allow", "execute": "ask"},
    "full-auto": {"read": "allow", "network": "allow", "write": "allow", "execute": "allow"},
    "yolo": {"read": "allow", "network": "allow", "write": "allow", "execute": "allow"},
}
_MODES_BY_STRICTNESS: tuple[Mode, ...] = ("yolo", "full-auto", "auto-edit", "suggest", "plan")


def stricter(a: Mode | None, b: Mode | None) -> Mode | None:
    """The one of two modes that allows less; no mode at all allows the most."""
    known = [mode for mode in (a, b) if mode is not None]
    return max(known, key=_MODES_BY_STRICTNESS.index, default=None)


def category(access: Access) -> Category:
    """Whatever is not reading, writing or network counts as executing, which is the most it could do."""
    return "execute" if access.kind == "other" else access.kind


def judge(access: Access, mode: Mode) -> Decision:
    kind = category(access)
    verdict = MATRIX[mode][kind]
    reason = ""
    if verdict == "ask":
        reason = f"{access.tool} ({kind}) requires approval in {mode} mode"
    elif verdict == "deny":
        reason = f"{access.tool} ({kind}) is not allowed in {mode} mode"
    return Decision(verdict=verdict, reason=reason, by="mode")


NO_RULES = Rules()
MOST_PLACES = 1000
"""A command that names more files than this is asked about."""
_STRICTNESS = {"allow": 0, "ask": 1, "deny": 2}


class Profile:
    """A Guard that remembers a person's answers. Called with an Access; the strictest of all its parts wins."""

    def __init__(
        self,
        cwd: str,
        rules: Rules = NO_RULES,
        mode: Mode | None = None,
        add_dirs: Iterable[str] = (),
        extra: Guard | None = None,
        readable: Iterable[str] = (),
        contained: Callable[[], bool] = lambda: False,
        *,
        confined: Callable[[], bool] = lambda: False,
        private: Iterable[str] = (),
        disk: Disk,
        looks_freely: bool = False,
        unreachable: Callable[[str], str] = lambda url: "",
        configured: Callable[[str], str] = lambda directory: "",
    ) -> None:
        """With `mode` None, whatever no rule forbids is allowed. `readable`: further directories that may only be read.
        `contained`: whether commands can reach only the workspace, so that the mode need not ask about them.
        `confined`: whether they run in a sandbox, so that what their text seems to write does not matter.
        `unreachable`: why an address is not among those that this session reaches; a rule that allows it goes before.
        `configured`: why git runs a program in a directory because of that repository's own configuration.
        `private`: Treadle's own files. Without a mode, which would ask, they are denied unless a rule names them."""
        self.contained = contained
        self.confined = confined
        self.looks_freely = looks_freely
        self.unreachable = unreachable
        self.configured = configured
        self.private = [*map(disk.real, private)]
        self.mode = mode
        self.rules = RuleSet(rules, disk.real(cwd), disk, self._only_looks)
        self.denying = RuleSet(Rules(deny=rules.deny), disk.real(cwd), disk) if rules.ask or rules.allow else self.rules
        """The deny rules alone, which hold in every mode."""
        self.inside = [disk.real(posixpath.join(cwd, directory)) for directory in (cwd, *add_dirs)]
        self.readable = [*self.inside, *map(disk.real, readable)]
        self.extra = extra
        self.remembered: set[tuple[str, str]] = set()

    def __call__(self, access: Access) -> Decision:
        if access.command is not None and not access.outside and self.mode not in ("plan", "suggest"):
            access = msgspec.structs.replace(access, confined=self.confined())
        decision = self.judge(access)
        if decision.verdict == "ask" and self.was_allowed(access):
            decision = Decision(verdict="allow", by="person")
        if self.extra is not None:
            written = [] if access.confined else _redirected(access)
            decision = strictest(decision, *map(self.extra, (access, *written)))
        return decision

    def judge(self, access: Access) -> Decision:
        if self.mode == "yolo":
            denied = map(self.denying.judge, (access, *_redirected(access)))
            return strictest(Decision(verdict="allow", by="mode"), *(one for one in denied if one is not None))
        ruled = self.rules.judge(access)
        decisions = [ruled or self.by_mode(access)]
        named = self.rules.names_command(access)
        written = map(self.rules.judge if access.confined else self.judge, _redirected(access))
        decisions += [one for one in written if one is not None and not (named and one.by == "mode")]
        if self.mode == "plan":
            decisions.append(judge(access, "plan"))
        if access.url is not None and ruled is None and (why := self.unreachable(access.url)):
            # An order, which has no mode, waits for no one.
            decisions.append(Decision(verdict="deny" if self.mode is None else "ask", reason=why))
        if ruled is not None and ruled.verdict == "allow" and not named and (why := self.runs_by_git(access)):
            decisions.append(Decision(verdict="ask", reason=why))
        if access.outside:
            decisions.append(Decision(verdict="ask", reason=f"to run outside of the sandbox: {access.outside}"))
        if self.mode is not None and not self.rules.names_paths(access):
            decisions += [self.outside(access, path) for path in access.paths]
            decisions += [self.protected(access, path) for path in access.paths if access.kind == "write"]
        if self.mode is None and self.private and not self.rules.names_paths(access):
            places = [place for path in access.paths for place in self.rules.places(path)]
            if any(map(self.is_private, places)):
                decisions.append(Decision(verdict="deny", reason="agents have no access to Treadle's own files"))
        return strictest(*decisions)

    def runs_by_git(self, access: Access) -> str:
        """Why an allowed `git diff` or the like runs more than it says: what the repository configures."""
        if access.command is None or "git" not in access.command:
            return ""
        from treadle.policy import shell

        script = shell.read(access.command)
        if not any(part.name == "git" for part in script.parts):
            return ""
        places = dict.fromkeys(posixpath.join(self.rules.cwd, base) for base in script.bases)
        return next(filter(None, map(self.configured, places)), "")

    def by_mode(self, access: Access) -> Decision:
        if self.mode is None:
            return Decision(verdict="allow", by="mode")
        if self.mode == "auto-edit" and access.command is not None and not access.outside and self.contained():
            return Decision(verdict="allow", reason="it runs in the sandbox, without the network", by="mode")
        freely = self.looks_freely and self.mode in ("suggest", "auto-edit")
        if freely and access.command is not None and not access.outside:
            if self.is_harmless(access.command, edits=self.mode == "auto-edit"):
                return Decision(verdict="allow", reason="it only reads files of the workspace", by="mode")
        return judge(access, self.mode)

    def is_harmless(self, command: str, *, edits: bool) -> bool:
        """Whether a command only reads, in places that may be read; with `edits`, or only moves files about in the
        workspace. A file that a rule hides, or that a link leads out of the workspace, makes it one to ask about."""
        from treadle.policy import shell

        script = shell.read(command)
        plain = bool(script.parts) and script.understood and not script.writes
        return plain and all(self._only_looks(command, part, edits=edits) for part in script.parts)

    def _only_looks(self, command: str, part: shell.Part, *, edits: bool = False) -> bool:
        """The same for a part of a command."""
        from treadle.policy import shell
        from treadle.policy.writes import ORGANISERS, in_sight, looks, looks_around, named

        words, script = named(part), shell.read(command)
        organises = edits and part.certain and not part.assignments and part.words[0] in ORGANISERS
        if words is None or not in_sight(command) or not (looks(part) or organises):
            return False
        if looks_around(part) and self.rules.hidden_patterns():
            return False
        globs = (path for glob in shell.joined(script.bases, part.globs) for path in self.rules.found(glob))
        places = [
            *script.bases,
            *script.reads,
            *shell.joined(script.bases, words),
            *itertools.islice(globs, MOST_PLACES),
        ]
        seen = len(places) < MOST_PLACES and all(map(self._in_sight, places))
        return seen and (not organises or self._editable(places))

    def _in_sight(self, path: str) -> bool:
        at = self.rules.places(path)
        return all(any(is_under(place, base) for base in self.readable) and not self.hides(place) for place in at)

    def _editable(self, paths: Iterable[str]) -> bool:
        places = [place for path in paths for place in self.rules.places(path)]
        inside = all(any(is_under(place, base) for base in self.inside) for place in places)
        return inside and not any(map(protected.is_protected, places))

    def outside(self, access: Access, path: str) -> Decision:
        bases = self.readable if access.kind == "read" else self.inside
        if all(any(is_under(place, base) for base in bases) for place in self.rules.places(path)):
            return Decision(verdict="allow", by="mode")
        return Decision(
            verdict="ask",
            reason=f"{access.tool} ({category(access)}) requires approval outside the working directory: {path}",
            by="mode",
        )

    def protected(self, access: Access, path: str) -> Decision:
        if not any(map(protected.is_protected, self.rules.places(path))):
            return Decision(verdict="allow", by="mode")
        reason = f"{access.tool} (write) requires approval: other programs act on {path}"
        return Decision(verdict="ask", reason=reason, by="mode")

    def hides(self, path: str) -> bool:
        """Whether a tool that looks at many files must skip this one."""
        rules = self.denying if self.mode == "yolo" else self.rules
        return rules.hides(path) or self.mode is None and self.is_private(path)

    def is_private(self, place: str) -> bool:
        ours = any(is_under(place, one) for one in self.private)
        return ours and not any(is_under(place, base) for base in self.readable)

    def remember(self, access: Access) -> None:
        """Remember that a person allowed this for the rest of the session."""
        self.remembered.update(_keys(access))

    def was_allowed(self, access: Access) -> bool:
        keys = _keys(access)
        return bool(keys) and all(key in self.remembered for key in keys)


def strictest(*decisions: Decision) -> Decision:
    return max(decisions, key=lambda decision: _STRICTNESS[decision.verdict])


def is_under(path: str, base: str) -> bool:
    return path == base or path.startswith(base.rstrip("/") + "/")


def _redirected(access: Access) -> list[Access]:
    """What a command's redirections write, and what the arguments of an unknown tool name to be written."""
    if access.command is None:
        from treadle.policy.guess import written_by

        named = written_by(access) if access.kind == "other" else []
        return [Access(tool=access.tool, kind="write", paths=tuple(named))] if named else []
    from treadle.policy import shell

    writes = shell.read(access.command).writes
    return [Access(tool=access.tool, kind="write", paths=(path,)) for path in writes]


def _keys(access: Access) -> list[tuple[str, str]]:
    """What exactly was allowed: this tool with this command, these paths or this host; else the whole tool."""
    if access.command is not None:
        return [(f"{access.tool} outside" if access.outside else access.tool, access.command)]
    return [(access.tool, target) for target in (*access.paths, *filter(None, [access.url]))] or [(access.tool, "")]


def as_rules(access: Access) -> tuple[str, ...]:
    """Rules that allow exactly this for good; none for a command with a star, which a rule reads as a wildcard."""
    if access.command is not None:
        return () if access.outside or "*" in access.command else (f"Bash({access.command})",)
    if access.url is not None:
        return ()
    return tuple(f"{access.tool}({patterns.escape(path)})" for path in access.paths) or (access.tool,)
