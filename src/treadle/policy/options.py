"""Options that make harmless programs run another program or write a file. Pure.

An allow rule such as `Bash(git log*)` is meant for reading the log, not for `git log --output=~/.bashrc`: it covers a
command with one of these options only if its pattern contains the option too.
"""

import re
from collections.abc import Sequence

from treadle.policy.programs import git_options, git_runs

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
_SED_WRITES = re.compile(
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
