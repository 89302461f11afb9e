"""What a runner leaves of its worktree."""

import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from treadle.fleet.run import trees


def git(cwd: Path, *words: str) -> str:
    command = ["git", "-c", "user.name=a", "-c", "user.email=a@b", "-C", str(cwd), *words]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def test_runners_that_end_together_bundle_each_their_own_commit(tmp_path: Path) -> None:
    source = tmp_path / "source"
    subprocess.run(["git", "init", "-q", "-b", "main", source], check=True)
    git(source, "commit", "-q", "--allow-empty", "-m", "start")
    start = git(source, "rev-parse", "HEAD")
    made = []
    for number in range(4):
        top = tmp_path / f"w{number}"
        git(source, "worktree", "add", "-q", "--detach", str(top))
        git(top, "commit", "-q", "--allow-empty", "-m", f"work {number}")
        tree = trees.WorkTree(root=str(top), top=str(top), start=start, source=str(source))
        made.append((tree, git(top, "rev-parse", "HEAD")))

    def carried(job: tuple[trees.WorkTree, str]) -> set[str]:
        tree, head = job
        path = f"{tree.top}.bundle"
        found = set()
        for _ in range(5):
            trees.bundle(tree, head, path)
            found.add(git(source, "bundle", "list-heads", path))
        return found

    with ThreadPoolExecutor(len(made)) as pool:
        for (_, head), heads in zip(made, pool.map(carried, made), strict=True):
            assert heads == {f"{head} {trees.BUNDLED}"}
