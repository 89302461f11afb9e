"""What release 0.1 left in a run's directory: snapshots in a git directory, and worktrees of the person's repository.

Made here by the same commands and with the same bytes as by that release, because its records name whole paths.
"""

import json
from pathlib import Path
from typing import Any

from tests.workspace.repositories import Repository, git

CONFIG = """[core]
    repositoryformatversion = 0
    bare = false
    autocrlf = false
    symlinks = true
    filemode = true
"""


def leave(repository: Repository, directory: Path, mode: str, *, name: str = "r1", finished: bool = True) -> Path:
    """A workspace as it was when the run began. With `finished` off, the release died before it had noted that."""
    root = directory / "workspace"
    branch = f"treadle/{name}" if mode == "worktree" else None
    if mode == "worktree":
        git("worktree", "add", "--quiet", "-b", f"treadle/{name}", str(root), "HEAD", cwd=repository.top)
    else:
        root.mkdir()
        for path in Path(repository.top).iterdir():
            if path.is_file():
                (root / path.name).write_bytes(path.read_bytes())
    snapshots = directory / "snapshots.git"
    env = {"GIT_DIR": str(snapshots), "GIT_WORK_TREE": str(root)}
    git("init", "--quiet", "--bare", str(snapshots), cwd=str(root))
    (snapshots / "config").write_text(CONFIG)
    (snapshots / "info" / "attributes").write_text("* -text -eol -ident -filter -working-tree-encoding !diff !merge\n")
    if mode == "worktree":
        (snapshots / "objects" / "info" / "alternates").write_text(f"{repository.common}/objects\n")
    git("add", "--all", ".", cwd=str(root), env=env)
    start = repository.commit()
    record: dict[str, Any] = {
        "mode": mode,
        "source": repository.top,
        "root": str(root),
        "directory": str(directory),
        "before": git("write-tree", cwd=str(root), env=env).stdout.decode().strip(),
        "branch": branch,
        "start": start if branch else None,
        "commit": start,
    }
    if finished:
        (directory / "workspace.json").write_text(json.dumps(record))
    return root
