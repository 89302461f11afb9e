"""What is known about programs by name: which run another program, which write files they are given, and which options
make a harmless one do so. Pure.
"""

import re
from collections.abc import Iterator, Sequence

from treadle.light import regex

WRAPPERS: dict[str, tuple[str, list[str], int]] = {
    "env": ("i0u:C:v", ["ignore-environment", "null", "unset=", "chdir=", "debug"], 0),
    "timeout": ("k:s:v", ["kill-after=", "signal=", "foreground", "preserve-status", "verbose"], 1),
    "nice": ("n:", ["adjustment="], 0),
    "ionice": ("c:n:t", ["class=", "classdata=", "ignore"], 0),
    "stdbuf": ("i:o:e:", ["input=", "output=", "error="], 0),
    "nohup": ("", [], 0),
    "busybox": ("", [], 0),
    "time": ("apvqf:o:", ["append", "portability", "verbose", "quiet", "format=", "output="], 0),
    "setsid": ("cfw", ["ctty", "fork", "wait"], 0),
    "command": ("p", [], 0),
    "builtin": ("", [], 0),
    "exec": ("cla:", [], 0),
    "xargs": (
        "0rtpxI:n:P:L:d:a:s:E:",
        [
            "null",
            "no-run-if-empty",
            "verbose",
            "replace=",
            "max-args=",
            "max-procs=",
            "max-lines=",
            "delimiter=",
            "arg-file=",
        ],
        0,
    ),
    "sudo": (
        "nSkKHEbiAsu:g:h:p:C:T:r:t:U:D:R:",
        ["user=", "group=", "non-interactive", "preserve-env", "login", "stdin"],
        0,
    ),
    "doas": ("nsu:C:", [], 0),
    "chroot": ("", ["userspec=", "groups=", "skip-chdir"], 1),
}
"""Programs that run another program: their options, and how many operands come before it."""
RUNNERS = {
    "su",
    "watch",
    "script",
    "flock",
    "parallel",
    "unshare",
    "nsenter",
    "setpriv",
    "systemd-run",
    "strace",
    "ssh",
    "at",
    "batch",
    "crontab",
    "runuser",
    "pkexec",
    "coproc",
}
"""Programs that run another program in ways that are not analysed here."""
INTERPRETERS = set(
    "bash sh dash zsh ksh ash fish python python2 python3 perl ruby node deno bun php lua awk gawk mawk R Rscript psql "
    "mysql sqlite3 ssh at batch ed ex vi vim make gdb bc dc m4 tclsh expect osascript pwsh".split()
)
"""Programs that run what they read from their input."""
POWERFUL = {"sudo", "doas", "chroot", "exec"}
"""Wrappers that change what the inner command can do, so they are judged themselves as well."""
LAUNCHERS = set(
    "npx npm pnpm yarn bun bunx uv uvx poetry pipenv pdm hatch conda mamba mise asdf direnv nix nix-shell docker "
    "podman kubectl tmux screen expect xterm hyperfine entr fd taskset chrt prlimit numactl valgrind ltrace gdb "
    "fakeroot firejail bwrap setarch linux32 linux64 torsocks proxychains proxychains4 faketime xvfb-run "
    "dbus-run-session cpulimit caffeinate catchsegv".split()
)
"""Programs that do many things and may run another program: deny rules are tried on every word as if it were one."""
QUIET = set(
    "echo printf cat grep egrep fgrep rg ag ls dir tree stat file cd pushd popd pwd test [ true false : read export "
    "declare typeset local readonly unset set shopt shift return exit break continue wait jobs kill pkill killall ps "
    "pgrep top free df du date sleep which whereis type basename dirname realpath readlink cp mv mkdir rmdir rm touch "
    "ln chmod chown chgrp install head tail wc sort uniq cut tr nl tac rev fold fmt column paste join comm diff cmp "
    "patch sed awk gawk mawk find git curl wget jq yq xmllint tee md5sum sha1sum sha256sum sha512sum cksum base64 xxd "
    "od hexdump strings gzip gunzip bzip2 xz zstd unzip zip tar rsync scp split man less more pip pip3 pytest ruff "
    "black isort flake8 mypy pyright pylint eslint prettier tsc jest vitest mocha cmake ninja gcc g++ cc clang clang++ "
    "ld ar nm objdump rustc rustfmt cargo go gofmt java javac mvn gradle dotnet terraform gh glab aws az helm "
    "systemctl journalctl service mount umount id whoami groups uname hostname tput clear history umask ulimit seq yes "
    "nproc lsof ss netstat ping dig host nslookup openssl apt apt-get apt-cache dpkg brew dnf yum apk pacman snap make "
    "rm unlink shred let alias getopts mapfile readarray".split()
)
"""Programs that run none of their words, but for the values of some options: those may name programs freely."""
_RUN_BY: dict[str, tuple[str, ...]] = {
    "tar": (
        "--checkpoint-action",
        "--to-command",
        "--use-compress-program",
        "--rsh-command",
        "--info-script",
        "-I",
        "-F",
    ),
    "rsync": ("--rsh", "--rsync-path", "-e"),
    "scp": ("-S", "-o"),
    "sort": ("--compress-program",),
    "split": ("--filter",),
    "man": ("--pager", "-P", "-H"),
    "zip": ("--unzip-command", "-TT"),
    "cargo": ("-s", "--shell"),
    "make": ("--eval",),
    "curl": ("--config", "-K"),
    "wget": ("--execute", "--config", "--use-askpass", "-e"),
    **dict.fromkeys(("apt", "apt-get", "apt-cache"), ("-o", "--option")),
    **dict.fromkeys(("less", "more"), ("+",)),
}
"""Options whose value is run, or tells what to run."""
_COPIERS = {"cp", "ln", "install", "cat", "mv", "find"}
_PROGRAM_FILE = regex(r"/(?:usr/)?(?:local/)?s?bin/[\w.+-]+")
_PROGRAM_VARIABLE = regex(
    r"GIT_\w+|\w*(EDITOR|PAGER|VISUAL|BROWSER|COMMAND|SHELL)|PS4|LESSOPEN|LESSCLOSE|\w+_(CMD|PROGRAM)"
)


def may_run(words: Sequence[str]) -> Iterator[str]:
    """Texts in which a word may be a program that this command calls, apart from what is plain to see."""
    name = words[0].rpartition("/")[2]
    if name not in QUIET and "=" not in words[0]:
        yield " ".join(words[1:])
    for at, word in enumerate(words[1:], 1):
        if name in _COPIERS and _PROGRAM_FILE.fullmatch(word):
            yield word
        for option in _RUN_BY.get(name, ()):
            if word == option or option.startswith("--") and word.partition("=")[0] == option:
                yield word.partition("=")[2] or " ".join(words[at + 1 : at + 2])
            elif word.startswith(option) and not option.startswith("--"):
                yield word[len(option) :]


def runs_a_value(words: Sequence[str]) -> bool:
    """Whether it has an option whose value is run, or names a file that tells what to do."""
    options = _RUN_BY.get(words[0].rpartition("/")[2], ())
    return any(
        _is_long(word, options) or len(option) == 2 and re.match(rf"-[a-zA-Z]*{option[1]}", word)
        for word in words[1:]
        for option in options
    )


def names_a_program(variable: str) -> bool:
    """Whether programs run the value of a variable with this name."""
    return _PROGRAM_VARIABLE.fullmatch(variable) is not None


def is_fed(words: Sequence[str], *, document: bool) -> bool:
    """Whether it runs what it reads from its input, or from a file that another command makes."""
    name = words[0].rpartition("/")[2]
    if name in ("awk", "gawk", "mawk"):
        return any(re.search(r"system|getline|\|", word) for word in words[1:])
    if name == "make":
        return document or any(word.startswith("-f") for word in words[1:])
    operands = [word for word in words[1:] if not word.startswith("-") and word != ":memory:"]
    return name in INTERPRETERS | {"jshell", "ocaml"} and (document or not operands)


EVALUATES = set(
    "test [ printf let read unset declare typeset local export readonly wait mapfile readarray getopts".split()
)
"""Builtins that take names of variables, and evaluate the subscripts in them: `test -v 'a[$(cmd)]'` runs cmd."""
WRITERS = set("cp mv rm ln tee dd touch truncate install sed chmod chown chattr setfattr mkdir rmdir".split())
"""Programs that write to their operands, or whose operands are checked against rules about writing."""
CHANGERS = set(
    "unlink shred mkfifo mknod patch rsync split csplit sponge ed ex vi vim nvim nano emacs gzip gunzip bzip2 bunzip2 "
    "xz unxz zstd unzip".split()
)
"""Further programs that may write a file they are given."""

# git, whose options come before its command...

GIT_RUNNERS = {"submodule", "bisect", "rebase", "filter-branch", "difftool", "mergetool"}
GIT_WRITERS = {"checkout", "restore", "rm", "mv", "clean", "apply", "am"}
_GIT_VALUES = {"-C", "-c", "--git-dir", "--work-tree", "--namespace", "--exec-path", "--super-prefix", "--config-env"}
_GIT_PROGRAMS = regex(
    r".*\.(\w*(pager|editor|command|helper|program|cmd|driver|external|textconv|proxy|askpass|fsmonitor|hookspath"
    r"|tool|uploadpack|receivepack|clean|smudge|process))"
)
_HARMLESS = ("", "cat", "less", "true", "false")


def git_options(words: Sequence[str]) -> tuple[list[tuple[str, str]], int]:
    """The settings given with `-c`, and the position of git's command among these words."""
    settings = []
    at = 1
    while at < len(words) and words[at].startswith("-"):
        if words[at] == "-c" and at + 1 < len(words):
            key, _, value = words[at + 1].partition("=")
            settings.append((key.lower(), value))
        at += 2 if words[at] in _GIT_VALUES else 1
    return settings, at


def git_runs(key: str, value: str) -> bool:
    """Whether git would run the value of this setting."""
    return _GIT_PROGRAMS.fullmatch(key) is not None and value not in _HARMLESS


_GIT_LOOKS = regex(
    r"diff\.external|diff\..+\.(command|textconv)|core\.fsmonitor|filter\..+\.(clean|smudge|process)", re.I
)
_GIT_SWITCH = regex(r"true|false|yes|no|on|off|[01]?", re.I)


def git_looks_with(key: str, value: str) -> bool:
    """Whether git would run the value of this setting also in commands that only look, such as `git diff`."""
    usual = _GIT_SWITCH.fullmatch(value) or value.startswith("git-lfs ") or value in _HARMLESS
    return _GIT_LOOKS.fullmatch(key) is not None and not usual


# Words that may be files...

FIND_WRITES = {"-fprint", "-fprint0", "-fprintf", "-fls"}
_OUTPUT = {"-o", "-O", "--output", "--output-file", "--output-document", *FIND_WRITES}
_HERE = regex(r"(\$\{PWD\}|\$PWD|~\+)(?=/)")


def mentioned(words: Sequence[str]) -> Iterator[str]:
    """Every file that these words could name, as they are or after a common prefix."""
    for word in words:
        word = _HERE.sub(".", word)
        if not word.startswith("-"):
            yield word
        elif not word.startswith("--"):
            yield word[2:]
        if not _PLAIN.fullmatch(word):
            yield from re.split("[=@:]", word)[1:]


_PLAIN = regex("[^=@:]*")


def written(words: Sequence[str]) -> Iterator[str]:
    """Every file that a command could write, as far as its words show."""
    name = words[0].rpartition("/")[2]
    command = next(iter(words[1:2]), "")
    if (
        name in WRITERS | CHANGERS
        or (name == "git" and command in GIT_WRITERS)
        or (name == "find" and "-delete" in words)
    ):
        yield from mentioned(words[1:])
    for place, word in enumerate(words):
        if word in _OUTPUT:
            yield from words[place + 1 : place + 2]
        elif word.startswith("--output"):
            yield word.partition("=")[2]


# Options that make harmless programs run another program or write a file. Pure.
#
# An allow rule such as `Bash(git log*)` is meant for reading the log, not for `git log --output=~/.bashrc`: it covers
# a command with one of these options only if its pattern contains the option too.

LONG: dict[str, tuple[str, ...]] = {
    "git": (
        *(
            "--output",
            "--open-files-in-pager",
            "--upload-pack",
            "--receive-pack",
            "--exec",
            "--exec-path",
            "--ext-diff",
        ),
        *("--textconv", "--config-env", "--git-dir", "--work-tree", "--template", "--separate-git-dir", "--tool"),
    ),
    "sort": ("--output", "--compress-program"),
    "sed": ("--in-place", "--file"),
    "rg": ("--pre", "--hostname-bin", "--search-zip"),
    "make": ("--file", "--makefile", "--eval", "--include-dir", "--directory"),
    "tar": (
        *(
            "--checkpoint-action",
            "--to-command",
            "--use-compress-program",
            "--rsh-command",
            "--info-script",
            "--extract",
        ),
        *("--new-volume-script", "--rmt-command", "--create", "--append", "--update", "--delete", "--get"),
    ),
    "curl": ("--output", "--remote-name", "--config", "--upload-file", "--dump-header", "--cookie-jar", "--trace"),
    "wget": ("--output-document", "--output-file", "--use-askpass", "--execute", "--directory-prefix", "--config"),
    "rsync": ("--rsh", "--rsync-path", "--log-file", "--write-batch"),
    "split": ("--filter",),
    "shuf": ("--output",),
    "tree": ("--output",),
    "date": ("--set",),
    "env": ("--split-string",),
    "man": ("--pager", "--html", "--preprocessor"),
    "less": ("--log-file", "--LOG-FILE", "--lesskey-file"),
    "yq": ("--inplace",),
    "jq": (),
    "zip": ("--unzip-command",),
    "cargo": ("--config", "--target-dir"),
    "npm": ("--prefix", "--script-shell", "--globalconfig", "--userconfig", "--cache"),
    "pip": ("--target", "--log", "--config-settings", "--editable"),
    "pytest": ("--rootdir", "--confcutdir", "--basetemp", "--junitxml", "--log-file", "--pyargs"),
    "ctags": ("--options",),
    "xmllint": ("--output",),
    "gcc": ("--output",),
    "ls": (),
    "cat": (),
}
SHORT: dict[str, str] = {
    **{"git": "", "sort": "oT", "sed": "if", "make": "fCI", "tar": "IFxcruC", "curl": "oOKTDc", "wget": "OoeP"},
    **{"rsync": "e", "shuf": "o", "tree": "o", "date": "s", "env": "S", "man": "PH", "less": "oO", "yq": "i"},
    **{"zip": "T", "pip": "te", "pytest": "pc", "ctags": "f", "gcc": "oB", "rg": "z", "hostname": "F", "file": "C"},
    **{"ssh": "oFSE", "scp": "SoF", "strace": "o", "time": "o", "xxd": "r", "tee": "a", "cc": "oB", "clang": "o"},
}
SINGLE: dict[str, tuple[str, ...]] = {
    "find": ("-exec", "-execdir", "-ok", "-okdir", "-delete", "-fprint", "-fprint0", "-fprintf", "-fls"),
    "fd": ("-x", "-X", "--exec", "--exec-batch"),
    "go": ("-exec", "-toolexec", "-o", "-overlay", "-modfile"),
    "openssl": ("-out", "-engine", "-config"),
    "java": ("-agentpath", "-javaagent"),
}
"""Programs whose long options start with one dash."""
GIT: dict[str, tuple[str, ...]] = {
    **{"grep": ("-O",), "rebase": ("-x", "-i"), "bisect": ("run",), "config": (), "remote": ("add", "set-url")},
    **{"branch": ("-D", "-d", "-m", "-M", "-C", "-f"), "diff": (), "archive": ("-o",), "tag": ("-d", "-f")},
    **{"stash": ("drop", "clear"), "worktree": ("add", "remove", "move"), "apply": ("--unsafe-paths",), "log": ()},
}
"""The words with which a git command does more than look."""
ALIASES = {
    "gmake": "make",
    "bsdtar": "tar",
    "gtar": "tar",
    "gsed": "sed",
    "fdfind": "fd",
    "pip3": "pip",
    "ggrep": "grep",
}
_AWK = {"awk", "gawk", "mawk", "nawk"}
_SED_ADDRESS = r"(\d+|\$|/[^/]*/)"
_SED_WRITES = regex(
    rf"(^|[;{{}}\n])\s*{_SED_ADDRESS}?(,\+?{_SED_ADDRESS})?\s*!?\s*[wWeE]|s(?P<mark>[^\w\s]).*(?P=mark).*(?P=mark)[gpiImM0-9]*[we]"
)
"""The commands `w`, `W` and `e` wherever a command can begin, and the flags of the same name after `s`."""


def risky(words: Sequence[str]) -> list[str]:
    """Those of the words that make this program run or write something."""
    name = words[0].rpartition("/")[2]
    name = ALIASES.get(name, name)
    if name == "git":
        return _git(words)
    found = [word for word in words[1:] if _is_long(word, LONG.get(name, ())) or _is_short(word, SHORT.get(name, ""))]
    found += [word for word in words[1:] if word.partition("=")[0] in SINGLE.get(name, ())]
    if name == "sed":
        found += [word for word in words[1:] if _SED_WRITES.search(_sed_script(word))][:1]
    if name in _AWK:
        found += [word for word in words[1:] if re.search(r"system|getline|[|>]|@load|@include", word) or word == "-f"]
    if name in ("uniq", "xxd"):
        found += [word for word in words[1:] if not word.startswith("-")][1:]
    if name == "tar" and len(words) > 1 and not words[1].startswith("-") and set(words[1]) & set(SHORT["tar"]):
        found.append(words[1])
    return found


def _sed_script(word: str) -> str:
    """What sed may take for commands in a word: all of it, or what is joined to the option for them."""
    if word.startswith("--"):
        return word.partition("=")[2]
    joined = re.fullmatch(r"-[a-zA-Z]*?e(.*)", word, re.S)
    return joined[1] if joined else "" if word.startswith("-") else word


def _git(words: Sequence[str]) -> list[str]:
    found = []
    settings, at = git_options(words)
    found += ["-c" for key, value in settings if key.startswith("alias.") or git_runs(key, value)]
    for option, value in zip(words[1:at], words[2:at], strict=False):
        if option == "-C" and (value.startswith(("/", "~")) or ".." in value):
            found.append(option)
    found += [word for word in words[1:at] if _is_long(word, LONG["git"])]
    command = words[at] if at < len(words) else ""
    special = GIT.get(command, ())
    short = tuple(option for option in special if len(option) == 2 and option.startswith("-"))
    for word in words[at + 1 :]:
        if _is_long(word, LONG["git"]) or word in special or short and word.startswith(short):
            found.append(word)
    if command == "config" and not any(word in ("--get", "--list", "-l", "--get-all", "get", "list") for word in words):
        found.append("config")
    return found


def _is_long(word: str, options: tuple[str, ...]) -> bool:
    """Programs accept the beginning of a long option in place of all of it."""
    given = word.partition("=")[0]
    return given.startswith("--") and len(given) > 2 and any(option.startswith(given) for option in options)


def _is_short(word: str, letters: str) -> bool:
    return word.startswith("-") and not word.startswith("--") and bool(set(word[1:]) & set(letters))
