"""What a task is: a small repository, a prompt, a check that runs, and a solution that proves the check."""

from textwrap import dedent
from typing import Literal, TypeAlias

import msgspec

Size: TypeAlias = Literal["tiny", "small", "medium"]
SIZES: tuple[Size, ...] = ("tiny", "small", "medium")
KINDS = (
    *("create", "fix", "rename", "extract", "test", "find", "explain", "json", "git", "agents-md"),
    "recover",
)


class Task(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    size: Size
    kind: str
    prompt: str
    files: dict[str, str]
    """The files of the repository, committed, when the agent starts."""
    check: str
    """Python that runs in the repository afterwards and fails by an assertion. It may use `checking.HELPERS`."""
    solution: str
    """A shell script that does the work and prints the answer. The tests check the check with it."""
    setup: str = ""
    """A shell script that runs after the files are committed."""
    seconds: float = 600.0
    iterations: int = 15


def task(name: str, size: Size, kind: str, prompt: str, *, files: dict[str, str], check: str, **rest: str) -> Task:
    """A task written with indented text blocks."""
    assert kind in KINDS, kind
    return Task(
        name=name,
        size=size,
        kind=kind,
        prompt=" ".join(dedent(prompt).split()),
        files={path: _text(content) for path, content in files.items()},
        check=_text(check),
        solution=_text(rest.pop("solution")),
        setup=_text(rest.pop("setup", "")),
    )


def _text(block: str) -> str:
    return dedent(block).strip("\n") + "\n" if block.strip() else ""
