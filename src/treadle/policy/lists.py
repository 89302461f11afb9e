"""A work order's policy: seven lists, combined into one guard. An empty list means no rule.

Names of tools are compared without regard to case, `_` and `-`; `*` stands for anything, and the names read, write,
edit, bash stand for every tool of that kind, as in permission rules. Paths follow the dialect of `patterns.py` and are
relative to the workspace; a pattern without `/` matches at any depth. Hosts may contain `*`.
"""

import re
from collections.abc import Callable, Sequence
from urllib.parse import urlsplit

import msgspec

from treadle.errors import ConfigError
from treadle.policy import patterns, programs, shell
from treadle.policy.guess import access_of
from treadle.policy.rules import AsWritten, Disk, Rule, RuleSet, host_matches, parse_rule, written
from treadle.session import Access, Decision, Rules

_URL = re.compile(r"[a-z][a-z0-9+.-]*://[^\s'\"]+", re.I)
_CALLERS = {
    "curl",
    "wget",
    "http",
    "https",
    "ping",
    "ssh",
    "sftp",
    "nc",
    "ncat",
    "netcat",
    "telnet",
    "ftp",
    "dig",
    "host",
}
_COPIERS = {"scp", "rsync", "git"}
_HOST = re.compile(r"(?:[\w.+-]+@)?((?:[\w-]+\.)+[\w-]+|localhost)\.?(?:[:/?#]\S*)?")
_REMOTE = re.compile(r"(?:[\w.+-]+@)?((?:[\w-]+\.)+[\w-]+):\S*")
_PLAIN = re.compile(r"[\w ./:=,@%+-]*")
_BETWEEN = re.compile(r"[ /=]")
_WRITING = {*programs.WRITERS, *programs.CHANGERS, "git"}
ALLOW = Decision(verdict="allow", by="rule")


class Lists(msgspec.Struct, frozen=True, kw_only=True):
    allowed_tools: Sequence[str] = ()
    disallowed_tools: Sequence[str] = ()
    deny_read: Sequence[str] = ()
    deny_write: Sequence[str] = ()
    allow_network: Sequence[str] = ()
    deny_network: Sequence[str] = ()
    require_approval_for: Sequence[str] = ()


NOWHERE = "/dev/null"


class ListPolicy:
    """A Guard for one workspace. Raises ConfigError when a pattern is invalid."""

    def __init__(self, lists: Lists, root: str, disk: Disk) -> None:
        self.lists = lists
        self.root = disk.real(root)
        self._allowed = [_named(name) for name in lists.allowed_tools]
        self._disallowed = [_named(name) for name in lists.disallowed_tools]
        self._approval = [_named(name) for name in lists.require_approval_for]
        for path in (*lists.deny_read, *lists.deny_write):
            patterns.parse(path)
        denied = [f"Read({path})" for path in lists.deny_read] + [f"Write({path})" for path in lists.deny_write]
        self._paths = RuleSet(Rules(deny=tuple(denied)), self.root, disk)
        self._names = RuleSet(Rules(deny=tuple(denied)), self.root, AsWritten(disk))

    def __call__(self, access: Access) -> Decision:
        forbidden = self.forbidden(access)
        if forbidden is not None:
            return forbidden
        if self._allowed and not any(_concerns(name, access) for name in self._allowed):
            return _deny(f"the tool {access.tool} is not in the list of allowed tools")
        if any(_concerns(name, access) for name in self._approval):
            return Decision(verdict="ask", reason=f"the tool {access.tool} requires approval", by="rule")
        return ALLOW

    def forbidden(self, access: Access) -> Decision | None:
        """Denies what a list forbids by name. Used for effects where it is unknown which tool caused them."""
        if any(_concerns(name, access) for name in self._disallowed):
            return _deny(f"the tool {access.tool} is disallowed")
        return self.denied_path(access) or self._denied_host(access)

    def happened(self, access: Access, *, asked: bool = False) -> Decision | None:
        """Why something that was seen to happen is forbidden; None if it is not. It is unknown which tool did it, so
        at least one allowed tool must be able to. `asked`: approval was asked for before it happened."""
        forbidden = self.forbidden(access)
        if forbidden is not None:
            return forbidden
        if self._allowed and not any(_concerns(name, access) or _could_do(name, access) for name in self._allowed):
            return _deny(f"none of the allowed tools could have done this ({access.tool})")
        if not asked and any(_concerns(name, access) for name in self._approval):
            return _deny(f"{access.tool} requires approval, and no one was asked")
        return None

    def denies_change(self, path: str) -> Decision | None:
        """For a file in the workspace that was changed. If it is a link, its target does not matter."""
        ruled = self._names.judge(Access(tool="writing", kind="write", paths=(path,)))
        return ruled if ruled is not None and ruled.verdict == "deny" else None

    @property
    def path_rules(self) -> RuleSet:
        """The policy's rules about paths, for a sandbox to enforce."""
        return self._paths

    def denied_writes(self) -> Callable[[str], bool]:
        """`denies_change` for many paths of a listing: prepared once, and answers only yes or no."""
        everything = any(rule.pattern is None for rule in self._names.deny if rule.tool == "write")
        texts = [rule.pattern for rule in self._names.deny if rule.tool == "write" and rule.pattern is not None]
        regexes = [patterns.parse(one).regex for text in texts for one in self._names.candidates(text, wide=True)]
        base = self.root.rstrip("/") + "/"
        return lambda path: everything or any(regex.fullmatch(base + path) for regex in regexes)

    def denied_path(self, access: Access) -> Decision | None:
        ruled = self._paths.judge(access)
        if ruled is not None and ruled.verdict == "deny":
            return ruled
        writes = list(access.paths) if access.kind == "write" else []
        if access.command is not None and not access.confined and not _plainly_writes_nothing(access.command):
            writes += written(shell.read(access.command))
        for path in writes:
            real = self._paths.places(path)[-1]
            if not f"{real}/".startswith(f"{self.root.rstrip('/')}/") and real != NOWHERE:
                return _deny(f"{path} is outside the workspace, where nothing may be written")
        return None

    def _denied_host(self, access: Access) -> Decision | None:
        if not (self.lists.deny_network or self.lists.allow_network):
            return None
        places = [[access.url]] if access.url else []
        if access.command is not None:
            places += [[url] for url in _URL.findall(access.command)] + _named_hosts(access.command)
        for urls in places:
            for url in urls:
                if any(host_matches(pattern, url) for pattern in self.lists.deny_network):
                    return _deny(f"the host {_host(url)} is denied")
            allowed = self.lists.allow_network
            if allowed and not any(host_matches(name, url) for name in allowed for url in urls):
                return _deny(f"the host {_host(urls[0])} is not in the list of allowed hosts")
        return None


def _plainly_writes_nothing(command: str) -> bool:
    """Whether it is clear without parsing that the command writes to none of its words: nothing is quoted or
    redirected, and no word names a program that writes."""
    return _PLAIN.fullmatch(command) is not None and _WRITING.isdisjoint(_BETWEEN.split(command))


def _deny(reason: str) -> Decision:
    return Decision(verdict="deny", reason=reason, by="rule")


def _named_hosts(command: str) -> list[list[str]]:
    """For each command in it that uses the network, the hosts that its words can mean: `curl example.com`."""
    found = []
    for part in shell.read(command).parts:
        word = _HOST if part.name in _CALLERS else _REMOTE if part.name in _COPIERS else None
        if word is not None:
            matches = [word.fullmatch(text) for text in part.words[1:]]
            found.append([f"//{match[1]}" for match in matches if match])
    return [hosts for hosts in found if hosts]


def _host(url: str) -> str:
    try:
        return urlsplit(url).hostname or url
    except ValueError:
        return url


def _named(name: str) -> Rule | str:
    """A name with `*` in it is kept as text; a plain one is a rule without a pattern."""
    if "(" in name or not name.strip():
        raise ConfigError(f"{name!r} is not the name of a tool", hint="give only its name, such as Bash")
    return name.lower() if "*" in name else parse_rule(name)


def _could_do(name: Rule | str, access: Access) -> bool:
    """Whether a tool of this name could do this: a command can do anything, and so can an unknown tool."""
    kind = access_of(name if isinstance(name, str) else name.text, None).kind
    return kind in ("execute", "other") or kind == access.kind


def _concerns(name: Rule | str, access: Access) -> bool:
    if isinstance(name, str):
        return patterns.wildcard(name, access.tool.lower())
    return name.concerns(access)
