"""Which files a shell command would write, whether that can be seen at all, and which commands only look. Pure.

Three answers about one command: the paths that it writes; why some of what it writes cannot be seen (code in a word, a
path in a variable, a patch); and the words that it gives to a program of which nothing is known here. A program that
runs the project's own code, such as a test runner, can write anything: only the kernel can hold it.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterator, Sequence

from treadle.light import regex
from treadle.policy import programs, shell
from treadle.policy.shell import Part, ShellScript

# Commands that only look, or that only move files about, and the files that they name: what needs no question. Pure.
#
# This reads a command's text, so it only decides what may run *without a question*; what is forbidden is kept by
# rules and by the sandbox. Whatever is not plainly known is asked about. `git` is not among them: it runs programs
# that the configuration of a repository names.

PLAIN = set(
    "cat head tail wc file stat du pwd echo true false whoami id uname basename dirname realpath readlink diff cmp cut "
    "tr nl tac rev comm join paste fold md5sum sha1sum sha256sum cksum seq test which nproc arch tty groups".split()
)
"""Their options change nothing, and their other words are text or files that they read."""
ORGANISERS = {"mkdir", "touch", "mv", "cp"}
"""What may also run where edits are allowed, if all that they name is in the workspace."""
_FIND = regex(r"-(exec|execdir|ok|okdir|delete|fls|fprint|fprint0|fprintf|L|follow|files0-from)")
_SORT = regex(r"-[a-zA-Z]*[oT].*|--(output|compress-program|temporary-directory|files0-from).*")
_FOLLOWS = regex(r"-[a-zA-Z]*([RL].*|f.+)|--(dereference-recursive|follow|pre|pre-glob|search-zip|hostname-bin).*")


def _uniq(words: Sequence[str]) -> bool:
    return sum(not word.startswith("-") for word in words) <= 1  # the second one is written


_CHECKED: dict[str, Callable[[Sequence[str]], bool]] = {
    "ls": lambda words: not any(re.match(r"-[a-zA-Z]*[RL]|--(recursive|dereference)", word) for word in words),
    "grep": lambda words: not any(map(_FOLLOWS.fullmatch, words)),
    "egrep": lambda words: not any(map(_FOLLOWS.fullmatch, words)),
    "fgrep": lambda words: not any(map(_FOLLOWS.fullmatch, words)),
    "rg": lambda words: not any(map(_FOLLOWS.fullmatch, words)),
    "find": lambda words: not any(map(_FIND.fullmatch, words)),
    "sort": lambda words: not any(map(_SORT.fullmatch, words)),
    "uniq": _uniq,
    "date": lambda words: not any(word.startswith(("-s", "--set", "-f", "--file")) for word in words),
    "sed": lambda words: words[:1] == ("-n",) and re.fullmatch(r"(\d+,)?(\d+|\$)p", "".join(words[1:2])) is not None,
    "set": lambda words: all(re.fullmatch(r"[+-][eux]*o?|pipefail", word) for word in words),
    "cd": lambda words: len(words) == 1,
}
_RECURSIVE = {"grep", "egrep", "fgrep", "rg", "find", "diff"}


def in_sight(command: str) -> bool:
    """Whether a person who sees the command sees all of it: not with control characters, writing directions, or
    characters without a width."""
    return all(character.isprintable() or character in "\n\t" for character in command)


def looks(part: Part) -> bool:
    """Whether it only reads: files that it names, those below them (`looks_around`), or its input. `$?` is a number."""
    known = part.certain or part.words[0] == "echo" and not re.search(r"[`$*?{\[]", part.text.replace("$?", ""))
    if not known or part.assignments:
        return False
    check = _CHECKED.get(part.words[0])
    return check(part.words[1:]) if check is not None else part.words[0] in PLAIN


def only_looks(script: ShellScript) -> bool:
    """Whether every command in it only reads, where it starts."""
    plain = script.understood and not script.writes and script.bases == ("",)
    return plain and bool(script.parts) and all(map(looks, script.parts))


def looks_around(part: Part) -> bool:
    """Whether it reads more files than it names."""
    return part.words[0] in _RECURSIVE


def named(part: Part) -> list[str] | None:
    """All words of it that can be files; None when an option hides one."""
    found: list[str] = []
    for word in part.words[1:]:
        if not word.startswith("-"):
            found.append(word)
        elif "/" in word or "~" in word or ".." in word or word.startswith("--files"):
            return None
    return found


class WriteTarget:
    def __init__(self, path: str, glob: bool = False, inside: bool = False, some: bool = False) -> None:
        self.path = path
        """As the command names it, relative to where it starts."""
        self.glob = glob
        """The shell expands it."""
        self.inside = inside
        """If it is a directory, nothing in it is changed by this: `cp x DIR`, `mkdir -p DIR`."""
        self.some = some
        """If it is a directory, some of what lies below it may be changed: `black .`, `git stash`."""


READERS = PLAIN | set(
    "ls grep egrep fgrep rg ag find sort uniq date less more tree jq xxd od hexdump strings env printenv export set "
    "unset cd pushd popd type hash printf read sleep wait kill ps top df free uptime hostname man column expand "
    "test [ [[ : exit return break continue shift local declare typeset readonly trap eval source . ulimit umask "
    "shopt alias unalias bg fg jobs let getopts history times logout xmllint md5 b2sum sha512sum base64 ldd nm objdump "
    "readelf size curl wget ping dig nslookup host ip netstat ss lsof pgrep pkill killall whereis locate "
    "fd cloc tokei awk gawk mawk nawk zcat zgrep zless bzcat xzcat diff3 sdiff vdir dir yes factor expr shuf".split()
)
"""They change no file, apart from redirections and the options that `programs.py` knows."""
_RUN_OTHERS = {*programs.WRAPPERS, *programs.RUNNERS}
_SHELLS = {"bash", "sh", "dash", "zsh", "ksh", "ash"}
_LAST = {"cp", "ln", "install", "rsync", "scp"}
_MAKE = {"mkdir", "rmdir"}
_ALL = (programs.WRITERS | programs.CHANGERS) - _LAST - _MAKE - {"sed", "dd", "patch", "mv", "unzip"}
_FORMATTERS = set("black isort prettier gofmt goimports rustfmt clang-format autopep8 yapf dos2unix unix2dos".split())
_FIXERS = {"eslint", "ruff", "biome", "stylelint", "rubocop", "standard", "xo"}
_FIXES = {"--fix", "--write", "-w", "-a", "-A", "--autocorrect", "--autocorrect-all", "format"}
_UNLISTED = regex(r"[$`<>]|\.\.\.|\{[^}]*(\.\.|/)")
_INTO = {"tar": "-C", "bsdtar": "-C", "unzip": "-d"}
_BUILDERS = {"make", "gmake", "ninja", "cmake"}
_MAKEFILE = regex("-[a-zA-Z]*[fCP]|--(file|makefile|directory)")
_EDITORS = {"vi", "vim", "nvim", "view", "emacs"}
_EDITS = regex(r"[-+](\w*[cSsx]|[^-\s\d].*)|--(cmd|eval|script|load).*")
"""Options with which an editor runs commands."""
_SHOWS = regex(r"(print|console\.log)\([\w\s+*/%.,'\"-]*\)")
"""Code that only prints."""
_CHECKS = {"--check", "-c", "--diff", "-l", "--list-different", "--dry-run", "-n", "--check-only"}
_UNPACKERS = {"tar", "bsdtar", "unzip", "cpio", "7z", "7za", "pax", "unrar", "patch", "ed", "ex", "ar"}
_CODE = regex(r"-\w*[cepEr]|--(eval|print|execute|expression|command)(=.*)?")
_BRINGS = {
    **{name: regex(r"-\w*[CFW]") for name in ("compgen", "complete")},
    **{"hash": regex(r"-\w*p"), "enable": regex(r"-\w*f"), "bind": regex(r"-\w*x")},
}
"""Options with which these builtins run code, or make a name mean another program."""
_CLAIMS = {"heimdall-claim", "heimdall-haid"}
_DECLARE = {"export", "declare", "typeset", "readonly", "local"}
_STEERS = {"CDPATH", "HISTFILE", "BASH_ENV", "LD_PRELOAD", "PATH"}
"""Variables that name no program and yet decide what is written, besides those that do."""
_STEERS_NOTHING = regex(r"(cat|less|more|true|false|:|vim?|nano|never|\d*)")
_GIT_READS = set(
    "status log diff show blame branch tag remote fetch ls-files ls-tree ls-remote rev-parse rev-list describe grep "
    "cat-file shortlog reflog config help version count-objects fsck for-each-ref merge-base name-rev var "
    "show-ref symbolic-ref diff-tree diff-index diff-files check-ignore check-attr whatchanged range-diff "
    "cherry gc prune pack-refs notes request-pull verify-commit "
    "verify-tag hash-object write-tree mktree commit-tree annotate update-server-info maintenance".split()
)
"""They change no file of the checkout, or only git's own."""
_GIT_MAKES = set("init clone worktree bundle archive format-patch".split())
"""They make files where they are told to."""
_GIT_MOVES = {"-f", "--force", "-M", "-C"}
_GIT_UNSEEN = set(
    "bisect sparse-checkout merge pull rebase cherry-pick revert am apply read-tree checkout-index update-index".split()
)
_GIT_VALUED = {"-b", "-B", "-c", "-C", "--source", "-s", "--pathspec-from-file", "--conflict", "--orphan"}


def of_command(command: str) -> CommandWrites:
    script = shell.read(command)
    seen = CommandWrites()
    for target in script.writes:
        seen.targets.append(WriteTarget(target))
    if not script.understood:
        seen.doubt(script.why)
    for part in script.parts:
        if not part.wrapper:
            seen.part(part)
        seen.surroundings(part)
    if any(re.match(r"~[+\-\d]", one.path) or "{}" in one.path for one in (*seen.targets, *seen.named)):
        seen.doubt("which directory or file a word stands for")
    # Where a `cd` may have led, each path may lie below any of those directories; the redirections are joined already.
    for one in seen.named:
        seen.targets += [WriteTarget(path, one.glob, one.inside, one.some) for path in _joined(script, one.path)]
    seen.mentions = [path for word in dict.fromkeys(seen.mentions) for path in _joined(script, word)]
    seen.lasting = seen.lasting or (seen.unseen and goes_on(command, script))
    return seen


_DETACHES = set("at batch crontab systemd-run tmux screen daemonize start-stop-daemon".split())
"""What they start has another parent: it cannot be told from what a person starts."""
_DETACHES_NOTHING = regex(
    r"(-[LS] \S+ )*(ls|list-sessions|kill-session|kill-server|capture-pane|has-session)( [^;(]*)?|-V|-ls|-list"
)
"""What may follow `tmux` or `screen`: after `;` tmux has another command, and its formats run what is in `#()`."""
_GO_ON = {"nohup", "setsid", "disown", *_DETACHES}


def goes_on(command: str, script: shell.ShellScript) -> str:
    """Why some of it may run when the call is over; empty when it cannot, as far as its text shows."""
    behind = re.search(r"(?<![&<>|\\])&(?![&>\d])", command) or any(part.name in _GO_ON for part in script.parts)
    return "what it does in the background" if behind else ""


def _joined(script: shell.ShellScript, path: str) -> list[str]:
    return shell.joined(script.bases, [path])


class CommandWrites:
    def __init__(self) -> None:
        self.targets: list[WriteTarget] = []
        self.named: list[WriteTarget] = []
        """Of these, what lies in a directory that the command changes to."""
        self.unseen = ""
        """Why not everything that it writes can be seen; empty when it can. A look at the files afterwards shows it."""
        self.lasting = ""
        """Why such a look would not show what it does: it moves a branch, it goes on after the call."""
        self.mentions: list[str] = []
        """Words that may be files, given to programs that may write them."""
        self.git: list[tuple[str, ...]] = []
        """Commands of git for which one has to look at the repository: add, commit, push, a checkout of a file or a
        branch, and what may be an alias; each with the directory of its `-C` and its words."""

    def doubt(self, why: str, *, lasts: bool = False) -> None:
        self.unseen = self.unseen or why
        self.lasting = self.lasting or (why if lasts else "")

    def part(self, part: shell.Part) -> None:
        name, words = part.name, list(part.words[1:])
        if name == "git":
            self._git(part)
        elif name in ("cp", "ln", "install", "rsync", "scp", "mv"):
            self._copies(part, words)
        elif name in _MAKE:
            self._writes(part, _operands(words), inside=True)
        elif name == "dd":
            self._writes(part, [word[3:] for word in words if word.startswith("of=")])
        elif name in _UNPACKERS and not _lists(name, words):
            into = [after for word, after in zip(words, words[1:], strict=False) if word == _INTO.get(name)]
            self._writes(part, into)
            if len(into) != 1:
                self.doubt(f"which files `{part.text[:80]}` writes")
        elif name == "sed" or name in ("yq", "perl", "ruby") and _in_place(words):
            self._writes(part, _operands(words) if _in_place(words) else [])
            if name != "sed" and name != "yq" or name == "sed" and not _in_place(words) and programs.risky(part.words):
                self.doubt(f"what else the {name} script writes")
        elif name in _FIXERS and _FIXES & set(words) and not _CHECKS & set(words):
            self._writes(
                part, [word for word in _operands(words) if word not in ("check", "format", "lint")] or ["."], some=True
            )
        elif name in _ALL or name in _FORMATTERS and not _CHECKS & set(words):
            self._writes(part, _operands(words), some=name in _FORMATTERS)
        elif name == "find" and "-delete" in words:
            self._writes(part, _until_option(words) or ["."], some=True)
        elif part.words[0] in _CLAIMS:
            pass  # they name what is held, to ask for it
        elif name in _RUN_OTHERS or name in _SHELLS and any(_CODE.fullmatch(word) for word in words[:2]):
            pass  # what they run is a part of its own, or a doubt
        elif name in READERS or "=" in part.words[0]:
            self._options(part)
        else:
            self._unknown(part, name, words)

    def surroundings(self, part: shell.Part) -> None:
        """What decides how, where and on what a command works: options of what runs it, and variables."""
        name, words = part.name, part.words[1:]
        if name in _RUN_OTHERS and any(re.match(r"-\w*[CD]|--chdir", word) for word in words):
            self.doubt(f"where `{part.text[:80]}` works")
        if name == "xargs" and _SHELLS & set(words) and any(word.startswith(("-I", "-i", "--rep")) for word in words):
            self.doubt(f"what `{part.text[:80]}` puts into the command")
        if name == "time":
            self._writes(part, [word for word in programs.written(part.words) if word])
        if name in _DETACHES and not _DETACHES_NOTHING.fullmatch(" ".join(words)):
            self.doubt("what it does in the background", lasts=True)
        if name in _EDITORS and any(map(_EDITS.fullmatch, words)):
            self.doubt(f"what `{part.text[:80]}` has the editor do")
        if name in ("source", "."):
            self.doubt(f"what `{part.text[:80]}` runs")
        if programs.runs_a_value(part.words) or name in _BRINGS and any(map(_BRINGS[name].match, words)):
            self.doubt(f"what an option of `{part.text[:80]}` runs")
        assigned = part.words if name in _DECLARE or "=" in part.words[0] else ()
        for variable, _, value in (one.partition("=") for one in (*part.assignments, *assigned) if "=" in one):
            if (programs.names_a_program(variable) or variable in _STEERS) and not _STEERS_NOTHING.fullmatch(
                value if not re.match("GIT_(AUTHOR|COMMITTER)_", variable) else ""
            ):
                self.doubt(f"what {variable} makes a program do")

    def _writes(self, part: shell.Part, words: Sequence[str], *, inside: bool = False, some: bool = False) -> None:
        # Only braces make it uncertain, and a pattern has those, too.
        listed = not part.certain and "{" in part.text and not _UNLISTED.search(part.text)
        if not part.certain and not listed or any("{}" in word for word in words):
            self.doubt(f"which files `{part.text[:80]}` writes")
        last = {posixpath.basename(word) for word in part.globs}  # a copy has the name of what is copied
        for word in words:
            glob = word in part.globs or posixpath.basename(word) in last or listed and "{" in word
            self.named.append(WriteTarget(word, glob, inside, some))

    def _copies(self, part: shell.Part, words: list[str]) -> None:
        into = _targets_named(words) if part.name not in ("rsync", "scp") else []
        given = [word for word in _operands(words) if word not in into]
        if any(re.fullmatch(r"-\w*T\w*|--no-target-directory", word) for word in words) or part.name == "rsync":
            self._writes(part, given[-1:])  # all that lies below it
        to, sources = (into[0], given) if into else (given[-1] if given else ".", given[:-1])
        moved = sources if part.name == "mv" or "--remove-source-files" in words else []
        whole = sources if any(word.startswith("--pa") for word in words) else []  # cp --parents
        self._writes(part, [*moved, *(posixpath.join(to, one) for one in whole)])
        self._writes(part, [posixpath.join(to, posixpath.basename(one)) for one in sources])
        self._writes(part, [to], inside=True)
        if part.name == "ln" or part.name == "cp" and any(re.match("-[a-zA-Z]*[ls]|--[ls]", word) for word in words):
            self.mentions += sources  # what is written to the link is written there

    def _options(self, part: shell.Part) -> None:
        risky = programs.risky(part.words)
        if risky and part.words[0].endswith("awk"):
            self.doubt("which files the awk program writes")
        elif _may_write(part) and (risky or not looks(part)):
            # An option that is not known to be harmless may write any file that is named.
            self.mentions += [one for word in part.words[1:] for one in _inside(word)]
        if risky and not part.words[0].endswith("awk"):
            operands = [word for word in risky if not word.startswith("-")]  # such as the second of uniq
            self._writes(part, [*filter(None, programs.written(part.words)), *operands])

    def _unknown(self, part: shell.Part, name: str, words: list[str]) -> None:
        code = name in programs.INTERPRETERS and any(_CODE.fullmatch(word) for word in words)
        code = code and not (len(words) == 2 and _SHOWS.fullmatch(words[1]))
        launched = name in programs.LAUNCHERS and any(
            posixpath.basename(word) in programs.INTERPRETERS and any(_CODE.fullmatch(one) for one in words[at:])
            for at, word in enumerate(words)
        )
        asked = words and all(word in ("--version", "--help", "-V") for word in words)
        reads = name in programs.INTERPRETERS and name != "make" and not _operands(words) and not asked
        scripted = name in _SHELLS and bool(_operands(words)) or name in _BUILDERS and any(map(_MAKEFILE.match, words))
        if code or launched or reads or scripted:
            self.doubt(f"what the code that `{name}` is given writes")
        self._writes(part, [word for word in programs.written(part.words) if word] if part.certain else [])
        pieces = [one for word in words for one in re.split(r"[\s'\"();,]+", word)]  # code may be in a word
        self.mentions += [word for word in programs.mentioned([*words, *pieces]) if word not in ("", ".")]

    def _git(self, part: shell.Part) -> None:
        settings, at = programs.git_options(part.words)
        words = list(part.words)
        where = [words[place + 1] for place in range(1, at) if words[place] == "-C" and place + 1 < at]
        if any(word.startswith(("--git-dir", "--work-tree")) for word in words[:at]) or settings:
            self.doubt(f"what git does with these settings: `{part.text[:80]}`")
        command, rest = (words[at], words[at + 1 :]) if at < len(words) else ("", [])
        if programs.risky(part.words):
            self.mentions += [posixpath.join(*where, word) for word in programs.mentioned(rest) if word]
        switched = command == "checkout" and "--" not in rest and not {"-b", "-B", "-f", "--force"} & set(rest)
        if command in ("add", "commit", "push") or switched:
            self.git.append((command, posixpath.join("", *where), *rest))
        elif command in _GIT_UNSEEN or command == "fetch" and {"-u", "--update-head-ok"} & set(rest):
            self.doubt(f"which files git {command} writes")
        elif command == "config" and programs.risky(part.words) and re.search(r"hookspath|alias\.", part.text.lower()):
            self.doubt(f"what `{part.text[:80]}` makes git do later", lasts=True)
        elif command in _GIT_WRITES:
            named = [posixpath.join(*where, one) if where else one for one in _git_paths(command, rest)]
            self._writes(part, named, some="." in named and "." not in rest)
            if not named and _git_switches(command, rest):
                self.doubt(f"which files git {command} writes")
        elif command in ("update-ref", "symbolic-ref") and len(_operands(rest)) > 1 or _GIT_MOVES & set(rest[:1]):
            self.doubt(f"which commit `{part.text[:80]}` moves a branch to", lasts=True)
        elif command in _GIT_MAKES:
            self.mentions += [posixpath.join(*where, word) for word in programs.mentioned(rest) if word]
        elif command and command not in _GIT_READS:
            self.git.append(("alias", posixpath.join("", *where), command, *rest))


_HARMLESS = READERS - set(
    "sdiff awk gawk mawk nawk xmllint curl wget tree less more man date sort uniq find fd xxd shuf file hostname env "
    "zgrep rg base64 trap source . eval history ss".split()
)


def _inside(word: str) -> Iterator[str]:
    """The words that an option may hold: `--x=PATH`, `-xPATH`, `-abcPATH`."""
    yield from filter(None, programs.mentioned([word]))
    if word[:1] == "-" and word[1:2] != "-":
        yield from (word[at:] for at in range(3, min(len(word), 8)))


def _may_write(part: shell.Part) -> bool:
    """Whether a reader has an option with which it may write a file; awk and its like need none to be doubted."""
    options = any(word.startswith("-") for word in part.words[1:])
    return part.name not in _HARMLESS and options


_GIT_WRITES = {"checkout", "restore", "switch", "reset", "stash", "clean", "rm", "mv", "submodule"}


def _git_paths(command: str, rest: list[str]) -> list[str]:
    """The paths of the checkout that these commands change; "." is all of it."""
    if any(word.startswith(":") for word in rest) and command != "stash":
        return ["."]  # `:/`, `:(glob)...` and their like mean what only git reads
    if "--" in rest:
        return rest[rest.index("--") + 1 :] or ["."]
    words = [word for at, word in enumerate(rest) if not word.startswith("-") and rest[at - 1] not in _GIT_VALUED]
    if command == "reset":
        return ["."] if {"--hard", "--merge", "--keep"} & set(rest) else []
    if command == "clean":
        return [] if {"-n", "--dry-run"} & set(rest) else words or ["."]
    if command == "stash":
        return [] if words[:1] in (["list"], ["show"], ["drop"], ["clear"], ["create"], ["store"]) else ["."]
    if command == "restore":
        return [] if "--staged" in rest and "--worktree" not in rest else words
    if command in ("rm", "mv"):
        return [] if "--cached" in rest else words
    if command == "checkout":
        # `git checkout NAME` is a branch or a file; more words after the first are files.
        return ["."] if "-f" in rest or "--force" in rest else words
    return []


def _git_switches(command: str, rest: list[str]) -> bool:
    made = {"-b", "-B", "-c", "-C", "--orphan"} & set(rest)
    plain = [word for word in rest if not word.startswith("-")]
    looks_only = plain[:1] in ([], ["status"], ["summary"])
    return command == "switch" and not (made and len(plain) <= 1) or command == "submodule" and not looks_only


def _operands(words: Sequence[str]) -> list[str]:
    if "--" in words:
        at = list(words).index("--")
        return [word for word in words[:at] if not word.startswith("-")] + list(words[at + 1 :])
    return [word for word in words if not word.startswith("-")]


def _targets_named(words: Sequence[str]) -> list[str]:
    """The directory that an option of cp, mv, ln or install names: `-t DIR`, `-atDIR`, `--target-dir=DIR`."""
    found = []
    for word, after in zip(words, [*words[1:], ""], strict=True):
        if short := re.fullmatch(r"-[a-zA-Z]*?t(.*)", word):
            found.append(short[1] or after)
        elif word.startswith("--t"):
            found.append(word.partition("=")[2] or after)
    return found


def _until_option(words: Sequence[str]) -> list[str]:
    at = next((place for place, word in enumerate(words) if word.startswith(("-", "(", "!"))), len(words))
    return list(words[:at])


def _in_place(words: Sequence[str]) -> bool:
    return any(re.match(r"-[a-zA-Z0-9]*i|--in-?place", word) for word in words)


def _lists(name: str, words: Sequence[str]) -> bool:
    """Whether an archive is only listed, or made."""
    if name in ("tar", "bsdtar"):
        short = [word for at, word in enumerate(words) if word[:2] != "--" and (word[:1] == "-" or at == 0)]
        return not any("x" in word for word in short) and not any(word.startswith(("--ex", "--ge")) for word in words)
    return name == "unzip" and bool({"-l", "-t", "-v", "-Z"} & set(words))
