"""What a workspace costs, against git itself on the same 10,000 files: making one, taking its result, applying it.

Each pair is timed in turn, so that other work on the machine disturbs both alike; processor time, that of children
included, is shown beside it, because it is disturbed least. The floor of a look is what Python needs to list the same
files and ask the kernel for the metadata of each, with nothing done about them. The number of times that git is
started while a result is applied is counted by a program of that name which stands in front of it on PATH.
"""

import os
import shutil
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from treadle.workspace.workspace import Workspace, prepare

FOLDERS, FILES, CHANGED = 100, 100, 10
ROUNDS = 5
APPLIED = (2, 402)


def repository(top: Path) -> None:
    subprocess.run(["git", "init", "-q", str(top)], check=True)
    for folder in range(FOLDERS):
        (top / f"d{folder}").mkdir()
        for file in range(FILES):
            (top / f"d{folder}" / f"f{file}.py").write_text(f"x = {folder} * {file}\n" * 150)
    subprocess.run(["git", "-C", str(top), "add", "-A"], check=True)
    who = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
    subprocess.run(["git", "-C", str(top), *who, "commit", "-qm", "start"], check=True)


def timed(pair: dict[str, Callable[[], object]]) -> dict[str, tuple[float, float]]:
    """The medians of the time that passed and of the processor's time, in milliseconds."""
    taken: dict[str, list[tuple[float, float]]] = {name: [] for name in pair}
    for _ in range(ROUNDS):
        for name, act in pair.items():
            started, used = time.perf_counter(), sum(os.times()[:4])
            act()
            taken[name].append(((time.perf_counter() - started) * 1000, (sum(os.times()[:4]) - used) * 1000))
    return {
        name: (statistics.median(one for one, _ in times), statistics.median(one for _, one in times))
        for name, times in taken.items()
    }


def show(medians: dict[str, tuple[float, float]], goal: str) -> None:
    (ours, (mine, used)), (theirs, (peer, peer_used)) = medians.items()
    print(
        f"{ours:34} {mine:8.1f} ms  {mine / peer:5.2f}x {theirs} ({peer:.1f} ms);"
        f"  processor {used:.0f} ms, {used / max(peer_used, 1):.2f}x   (goal: {goal})"
    )


def listed(directory: str) -> None:
    """What any look of ours does at least."""
    with os.scandir(directory) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                listed(entry.path)
            else:
                entry.stat(follow_symlinks=False)


def starting(place: Path, top: Path) -> Workspace:
    made: list[Workspace] = []

    def ours() -> None:
        directory = place / f"run{len(made)}"
        directory.mkdir()
        made.append(prepare("worktree", str(top), str(directory), name=directory.name))

    def theirs() -> None:
        path = place / f"tree{time.monotonic_ns()}"
        subprocess.run(["git", "-C", str(top), "worktree", "add", "-q", "--detach", str(path)], check=True)

    show(timed({"start in worktree mode": ours, "git worktree add": theirs}), "at most 1x")
    return made[-1]


def taking(workspace: Workspace) -> None:
    root = Path(workspace.root)
    time.sleep(0.2)  # what was written just now is hashed again, whatever it looks like
    subprocess.run(["git", "-C", str(root), "status", "--porcelain"], check=True, capture_output=True)
    for number in range(CHANGED):
        (root / f"d{number}" / "f1.py").write_text("changed\n")
    status = ["git", "-C", str(root), "status", "--porcelain"]
    base = workspace.store.files(workspace.place.whole)
    pair: dict[str, Callable[[], object]] = {
        "take 10 changes of 10,000 files": lambda: workspace._take(base),
        "git status": lambda: subprocess.run(status, check=True, capture_output=True),
    }
    show(timed(pair), "under 2x")
    show(timed({"floor: metadata of 10,000 files": lambda: listed(str(root)), **dict([*pair.items()][1:])}), "none")


def applying(place: Path) -> None:
    """Counts the starts of git between a result that was looked at and its files in the source."""
    for number in APPLIED:
        source, run, bin_, log = (place / f"{name}{number}" for name in ("source", "apply", "bin", "log"))
        for each in (source, run, bin_):
            each.mkdir()
        for file in range(number):
            (source / f"f{file}").write_text("one\n" * 9)
        workspace = prepare("staged", str(source), str(run), name="r")
        for file in range(number):
            Path(workspace.root, f"f{file}").write_text("two\n" + "one\n" * 8)
            (source / f"f{file}").write_text("one\n" * 8 + "three\n")  # so that each has to be merged
        workspace.difference()
        (bin_ / "git").write_text(f'#!/bin/sh\necho >> {log}\nexec {shutil.which("git")} "$@"\n')
        (bin_ / "git").chmod(0o755)
        before = os.environ["PATH"]
        os.environ["PATH"] = f"{bin_}:{before}"
        try:
            done = workspace.apply()
        finally:
            os.environ["PATH"] = before
        assert len(done.written) == number, done.conflicts
        print(f"apply {number:3} files, each merged        {log.read_text().count(chr(10)):3} starts of git")


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        top = place / "repo"
        repository(top)
        taking(starting(place, top))
        applying(place)


if __name__ == "__main__":
    main()
