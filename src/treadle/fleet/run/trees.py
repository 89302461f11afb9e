"""Where an attempt works: a worktree on no branch, at the order's commit; and the commits and patches it leaves.

A branch, `treadle/ORDER`, is made only for the attempt that counted. All functions block.
"""

import os
import shutil
from collections.abc import Mapping

import msgspec

from treadle.errors import TreadleError, WorkspaceError
from treadle.io import scratch
from treadle.io.files import write_atomic
from treadle.io.reading import read
from treadle.wire.fleet.orders import Spec
from treadle.workspace.git import Repository, git

BUNDLED = "refs/worktree/treadle-bundle"
"""The commit that a bundle carries. Each worktree has its own ref, so two runners that end together do not collide."""
PATCH_MAX = 64 * 1024 * 1024
_AUTHOR = ["-c", "user.name=treadle", "-c", "user.email=treadle@localhost"]


class WorkTree(msgspec.Struct, frozen=True, kw_only=True):
    root: str
    """Where the agent works."""
    top: str = ""
    """The top of the worktree; empty when there is none: no repository, or in place."""
    start: str = ""
    source: str = ""


def prepare(spec: Spec, root: str, path: str) -> WorkTree:
    """A worktree at `path` for the order; the directory itself when it works in place or there is no repository."""
    if not os.path.isdir(root):
        raise WorkspaceError(f"there is no directory {root} on this node", hint="give labels of a node that has it")
    repository = Repository.find(root)
    if spec.in_place or repository is None:
        return WorkTree(root=root)
    start = repository.add_detached(path, spec.base or "HEAD")
    inside = os.path.relpath(os.path.realpath(root), os.path.realpath(repository.top))
    here = os.path.normpath(os.path.join(path, inside))
    os.makedirs(here, exist_ok=True)
    for name in spec.bring:
        bring(os.path.join(root, name), os.path.join(here, name))
    return WorkTree(root=here, top=path, start=start, source=repository.top)


def snapshot(tree: WorkTree, brought: tuple[str, ...] = ()) -> str:
    """A commit of everything in the worktree now, on no branch, with HEAD as parent; HEAD itself if nothing differs.

    The agent at work there does not notice: git's own index is left alone.
    """
    head = head_of(tree)
    with scratch.directory("index") as here:
        env = {"GIT_INDEX_FILE": os.path.join(here, "index")}
        git("read-tree", head, cwd=tree.top, env=env)
        git("add", "-A", "--", ".", cwd=tree.top, env=env)
        inside = os.path.relpath(tree.root, tree.top)
        for name in brought:
            git("reset", "--quiet", "HEAD", "--", os.path.join(inside, name), cwd=tree.top, env=env, check=False)
        made = git("write-tree", cwd=tree.top, env=env).stdout.decode().strip()
    if made == git("rev-parse", f"{head}^{{tree}}", cwd=tree.top).stdout.decode().strip():
        return head
    words = ["commit-tree", made, "-p", head, "-m", "as it was when the attempt was cut off"]
    return git(*_AUTHOR, *words, cwd=tree.top).stdout.decode().strip()


def changed(tree: WorkTree, commit: str) -> tuple[str, ...]:
    """The files that changed since the start."""
    names = git("diff", "--name-only", "-z", tree.start, commit, cwd=tree.top).stdout.split(b"\0")[:-1]
    return tuple(name.decode("utf-8", "replace") for name in names[:200])


def head_of(tree: WorkTree) -> str:
    return git("rev-parse", "HEAD", cwd=tree.top).stdout.decode().strip()


def restore(tree: WorkTree, head: str, commit: str) -> None:
    """Restore a snapshot: what was committed at `head` is committed, and the rest is changed or new."""
    git("reset", "--quiet", "--hard", commit, cwd=tree.top)
    if head != commit:
        git("reset", "--quiet", "--mixed", head, cwd=tree.top)


def fetch(tree: WorkTree, data: bytes, path: str) -> None:
    """Fetch the commits of a bundle."""
    write_atomic(path, data, sync=False)
    git("fetch", "--quiet", "--no-write-fetch-head", path, f"+{BUNDLED}:{BUNDLED}", cwd=tree.top, timeout=600)
    os.unlink(path)


def bring(source: str, target: str) -> None:
    """Give the worktree a file that git ignores: directories as links, files as copies."""
    if not os.path.lexists(source) or os.path.lexists(target):
        return
    os.makedirs(os.path.dirname(target), exist_ok=True)
    if os.path.isdir(source):
        os.symlink(os.path.realpath(source), target)
    else:
        shutil.copy2(source, target)


def commit(tree: WorkTree, message: str, brought: tuple[str, ...] = ()) -> dict[str, object]:
    """Commit everything that differs in the worktree, on top of what the agent has committed itself."""
    if not tree.top:
        return {}
    git("add", "-A", "--", ".", cwd=tree.top)
    inside = os.path.relpath(tree.root, tree.top)
    for name in brought:  # git may not ignore a link to an ignored directory, because it is not a directory
        git("reset", "--quiet", "HEAD", "--", os.path.join(inside, name), cwd=tree.top, check=False)
    if git("diff", "--cached", "--quiet", cwd=tree.top, check=False).code:
        git(*_AUTHOR, "commit", "--quiet", "--no-verify", "-m", message, cwd=tree.top)
    head = head_of(tree)
    if head == tree.start:
        return {"base": tree.start, "files": 0}
    stat = git("diff", "--shortstat", tree.start, head, cwd=tree.top).stdout.decode().strip()
    count = git("diff", "--name-only", "-z", tree.start, head, cwd=tree.top).stdout.count(b"\0")
    return {
        "base": tree.start,
        "commit": head,
        "files": count,
        "changed": list(changed(tree, head)),
        "stat": stat,
    }


def patch(tree: WorkTree, result: dict[str, object]) -> bytes:
    """The difference as text, and as a bundle from which another machine can fetch the commit."""
    found = git("diff", "--binary", tree.start, str(result["commit"]), cwd=tree.top).stdout
    return found[:PATCH_MAX]


def bundle(tree: WorkTree, head: str, path: str) -> bytes:
    """The commits since the start, for another repository that has the start."""
    git("update-ref", BUNDLED, head, cwd=tree.top)
    try:
        git("bundle", "create", "--quiet", path, BUNDLED, f"^{tree.start}", cwd=tree.top)
    finally:
        git("update-ref", "-d", BUNDLED, cwd=tree.top, check=False)
    return read(path)


def bundled(result: Mapping[str, object]) -> str:
    """The ref that the commit of a result has in its bundle."""
    return str(result.get("bundled") or BUNDLED)


def branch_name(order: str) -> str:
    return f"treadle/{order}"


def settle(tree: WorkTree, order: str, result: dict[str, object], *, counted: bool) -> str | None:
    """Name the branch if the work counts, and remove the worktree. Returns its path when it is kept."""
    if not tree.top:
        return None
    repository = Repository.find(tree.source)
    if repository is None:
        return tree.top
    try:
        if counted and result.get("commit"):
            with repository.lock():
                repository.git("branch", "--force", branch_name(order), str(result["commit"]))
        elif not counted:
            dirty = git("status", "--porcelain", cwd=tree.top).stdout
            if dirty or head_of(tree) != tree.start:
                return tree.top  # work that does not count is kept for whoever wants to look
        with repository.lock():
            repository.git("worktree", "remove", "--force", tree.top)
    except TreadleError:
        return tree.top
    return None
