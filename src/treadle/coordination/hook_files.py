"""Recognises the claims' git hooks by their files, without asking git. Light: `heimdall-claim list` imports this."""

from treadle.io.files import read_at_most

HOOKS = ("pre-commit", "pre-push")
SERVER_HOOK = "pre-receive"
"""The hook of a shared remote."""
MARK = "# heimdall-guard"
LEGACY = ".legacy"
"""The suffix that `pre-commit install` adds to an existing hook, which it then runs first."""


def is_ours(path: str) -> bool:
    return MARK in hook_text(path)


def is_legacy(path: str) -> bool:
    """Whether pre-commit has installed its hook in place of ours, and runs ours."""
    return not is_ours(path) and is_ours(path + LEGACY) and "pre-commit" in hook_text(path)


def hook_text(path: str) -> str:
    try:
        return read_at_most(path, 4096).decode("utf-8", "replace")
    except OSError:
        return ""
