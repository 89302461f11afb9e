"""What is there afterwards. Knows no orchestrator: it reads the branch, the checkout and the list of processes.

A statement counts only against what is on the branch: a task that was reported as done and is not there is a false one.
"""

import subprocess
import sys
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from benchmarks.crash.tasks import CHECK, Task, git

HEADS = ("landed", "lost", "twice", "red commits", "false done", "processes left", "files left", "person's lost")


@dataclass(frozen=True)
class Verdict:
    landed: tuple[str, ...]
    """Tasks whose work is on the branch."""
    lost: tuple[str, ...]
    """Tasks that can be done, whose work is not there."""
    twice: tuple[str, ...]
    """Commits that make a change which the branch had already got."""
    red: tuple[str, ...]
    """Commits of the branch whose check fails."""
    false: tuple[str, ...]
    """Tasks that were reported as done, whose work is not there."""
    processes: tuple[str, ...]
    files: tuple[str, ...]
    """In the person's checkout, and neither committed nor ignored."""
    persons: tuple[str, ...]
    """Commits of the person that the branch no longer has."""

    @property
    def row(self) -> tuple[int, ...]:
        found = (self.landed, self.lost, self.twice, self.red, self.false, self.processes, self.files, self.persons)
        return tuple(len(each) for each in found)


def judge(
    root: Path,
    base: str,
    tasks: Collection[Task],
    *,
    reported: Mapping[str, bool],
    persons: Collection[str],
    processes: Collection[str],
    scratch: Path,
) -> Verdict:
    """`reported` has for each task whether the orchestrator says that it is done."""
    clone = scratch / "clone"
    git(root, "clone", "-q", "--no-checkout", str(root), str(clone))
    left = tuple(git(root, "status", "--porcelain", "--untracked-files=all").splitlines())
    root, tip = clone, git(root, "rev-parse", "main")
    there = {task.id for task in tasks if _passes(root, tip, scratch, [sys.executable, "-c", task.proof])}
    line = git(root, "rev-list", "--first-parent", f"{base}..{tip}").splitlines()
    known = git(root, "rev-list", tip).splitlines()
    return Verdict(
        landed=tuple(sorted(there)),
        lost=tuple(task.id for task in tasks if task.can_be_done and task.id not in there),
        twice=tuple(_doubled(root, base, tip)),
        red=tuple(commit for commit in line if not _passes(root, commit, scratch, ["sh", "-c", CHECK])),
        false=tuple(task.id for task in tasks if reported.get(task.id) and task.id not in there),
        processes=tuple(processes),
        files=left,
        persons=tuple(commit for commit in persons if commit not in known),
    )


class Statements:
    """When it is first said of a task that it is done, and it is not there: looked at while the run goes on."""

    def __init__(self, root: Path, tasks: Collection[Task], scratch: Path) -> None:
        self.root, self.tasks, self.scratch = root, tasks, scratch
        self.believed: set[str] = set()
        self.first_wrong: float | None = None

    def look(self, now: float, reported: Mapping[str, bool]) -> None:
        clone = self.scratch / "looks"
        if not clone.exists():
            git(self.root, "clone", "-q", "--no-checkout", str(self.root), str(clone))
        for task in self.tasks:
            if reported.get(task.id) and task.id not in self.believed:
                self.believed.add(task.id)
                git(clone, "fetch", "-q", "origin", "main", check=False)
                tip = git(clone, "rev-parse", "FETCH_HEAD")
                if not _passes(clone, tip, self.scratch, [sys.executable, "-c", task.proof]):
                    self.first_wrong = now if self.first_wrong is None else self.first_wrong


def _doubled(root: Path, base: str, tip: str) -> Iterator[str]:
    """Commits of the branch whose change another one has made already."""
    patches = git(root, "log", "-p", "--no-merges", f"{base}..{tip}")
    found = subprocess.run(["git", "patch-id", "--stable"], input=patches, capture_output=True, text=True, check=True)
    seen: set[str] = set()
    for patch, commit in (line.split() for line in found.stdout.splitlines()):
        if patch in seen:
            yield commit
        seen.add(patch)


def _passes(root: Path, commit: str, scratch: Path, words: list[str]) -> bool:
    """Three tries: a check that is flaky by design is red only if it never passes."""
    place = scratch / commit[:12]
    if not place.exists():
        git(root, "worktree", "add", "-q", "--detach", str(place), commit)
    env = {"PATH": "/usr/local/bin:/usr/bin:/bin", "PYTHONDONTWRITEBYTECODE": "1"}
    for _ in range(3):
        try:
            if not subprocess.run(words, cwd=place, env=env, capture_output=True, timeout=60).returncode:
                return True
        except subprocess.TimeoutExpired:
            continue
    return False
