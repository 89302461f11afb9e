"""The guard of a session. It combines rules, mode, directories, what a person allowed, and any further guard; and says
what each mode allows.
"""

import itertools
import posixpath
from collections.abc import Callable, Iterable
from typing import Literal, TypeAlias

from treadle.policy import patterns, protected
from treadle.policy.rules import Disk, RuleSet
from treadle.session import Access, Decision, Guard, Mode, Rules

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
MAX_FOUND = 1000
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
        private: Iterable[str] = (),
        disk: Disk,
        looks_freely: bool = False,
        unreachable: Callable[[str], str] = lambda url: "",
        configured: Callable[[str], str] = lambda directory: "",
    ) -> None:
        """With `mode` None, whatever no rule forbids is allowed. `readable`: further directories that may only be read.
        `contained`: whether commands can reach only the workspace, so that the mode need not ask about them.
        `unreachable`: why an address is not among those that this session reaches; a rule that allows it goes before.
        `configured`: why git runs a program in a directory because of that repository's own configuration.
        `private`: Treadle's own files. Without a mode, which would ask, they are denied unless a rule names them."""
        self.contained = contained
        self.looks_freely = looks_freely
        self.unreachable = unreachable
        self.configured = configured
        self.private = [*map(disk.real, private)]
        self.mode = mode
        self.rules = RuleSet(rules, disk.real(cwd), disk)
        self.denying = RuleSet(Rules(deny=rules.deny), disk.real(cwd), disk) if rules.ask or rules.allow else self.rules
        """The deny rules alone, which hold in every mode."""
        self.inside = [disk.real(posixpath.join(cwd, directory)) for directory in (cwd, *add_dirs)]
        self.readable = [*self.inside, *map(disk.real, readable)]
        self.extra = extra
        self.remembered: set[tuple[str, str]] = set()

    def __call__(self, access: Access) -> Decision:
        decision = self.judge(access)
        if decision.verdict == "ask" and self.was_allowed(access):
            decision = Decision(verdict="allow", by="person")
        if self.extra is not None:
            decision = strictest(decision, *map(self.extra, (access, *_redirected(access))))
        return decision

    def judge(self, access: Access) -> Decision:
        if self.mode == "yolo":
            denied = map(self.denying.judge, (access, *_redirected(access)))
            return strictest(Decision(verdict="allow", by="mode"), *(one for one in denied if one is not None))
        ruled = self.rules.judge(access)
        decisions = [ruled or self.by_mode(access)]
        named = self.rules.names_command(access)
        decisions += [one for one in map(self.judge, _redirected(access)) if not (named and one.by == "mode")]
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
                decisions.append(Decision(verdict="deny", reason="what Treadle keeps for itself is not for its agents"))
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
                return Decision(verdict="allow", reason="it only looks at files of the workspace", by="mode")
        return judge(access, self.mode)

    def is_harmless(self, command: str, *, edits: bool) -> bool:
        """Whether a command only reads, in places that may be read; with `edits`, or only moves files about in the
        workspace. A file that a rule hides, or that a link leads out of the workspace, makes it one to ask about."""
        from treadle.policy import shell
        from treadle.policy.writes import in_sight, looks_around, named, only_looks, only_organises

        if not in_sight(command):
            return False
        script = shell.read(command)
        looks = only_looks(script)
        if not looks and not (edits and only_organises(script)):
            return False
        if looks_around(script) and self.rules.hidden_patterns():
            return False
        places = [*script.reads]
        for part in script.parts:
            if (words := named(part)) is None:
                return False
            if part.globs:
                words += itertools.islice((path for glob in part.globs for path in self.rules.found(glob)), MAX_FOUND)
            places += words
        return len(places) < MAX_FOUND and all(map(self._in_sight, places)) and (looks or self._editable(places))

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
    """The writes of a command's redirections: `echo x > f` writes f as surely as a tool does."""
    if access.command is None:
        return []
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
