"""Runs one attack for real and judges its receipt: every statement of it that is false, by looking for ourselves.

What is true is found without the code that makes receipts: files are copied and hashed by a git of our own in a clean
directory, the person's repository is compared byte by byte, connections are counted by a listener.
"""

import hashlib
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import threading
import tomllib
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, TypeAlias

import msgspec
from msgspec.structs import replace

from tests.host.conftest import QUICK, left_running, order
from treadle.errors import StorageError
from treadle.host.job import Backend, Job
from treadle.host.run import HostRun
from treadle.host.signing import load_signer, make_key
from treadle.host.store import ReceiptStore
from treadle.receipts.trace import ours
from treadle.redact import Redactor
from treadle.session import Confinement
from treadle.wire.sidecar.connection import NO_POLICY
from treadle.wire.sidecar.receipts import Receipt, receipt_hash
from treadle.workspace.directories import MISSING
from treadle.workspace.workspace import WorkspaceMode

HERE = Path(__file__).parent
MODES: tuple[WorkspaceMode, ...] = ("staged", "worktree", "pass_through")
CANARY = "canary-7b1f"
Files: TypeAlias = dict[str, tuple[str, str]]
"""Mode and blob by path."""
GIT = {"PATH": os.environ["PATH"], "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"} | {
    f"GIT_{role}_{what}": "person" for role in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")
}


class Attack(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """As in the files of `attacks/`; the README says what each field means."""

    name: str
    file: str = ""
    """The file that it is in; filled in."""
    do: str = ""
    after: str = ""
    events: list[dict[str, Any]] = []
    lines: list[str] = []
    claim: dict[str, Any] = {}
    claim_events: int = 0
    said_files: int = 0
    final: bool = True
    finals: int = 1
    policy: dict[str, list[str]] = {}
    verify: str | None = None
    apply: bool = False
    modes: tuple[WorkspaceMode, ...] = MODES
    lies: bool = False
    honest: bool = False
    never: Literal["complete"] | None = None


def attacks() -> list[Attack]:
    found = []
    for path in sorted((HERE / "attacks").glob("*.toml")):
        found += [
            msgspec.convert({**one, "file": path.stem}, Attack) for one in tomllib.loads(path.read_text())["attack"]
        ]
    return found


def git(directory: Path, *words: str, **env: str) -> str:
    done = subprocess.run(["git", *words], cwd=directory, env={**GIT, **env}, capture_output=True, check=True)
    return done.stdout.decode("utf-8", "surrogateescape")


class World:
    """A person's repository, files outside of it, our state and a port, all below one directory that sandboxes show."""

    def __init__(self, base: Path) -> None:
        self.base, self.mark = base, f"attack-{uuid.uuid4().hex[:12]}"
        self.source, self.outside, self.clean = base / "source", base / "outside", base / "clean"
        self.home, self.state = base / "home", base / "home" / "treadle"
        for place in (self.source / "b", self.outside, self.home):
            place.mkdir(parents=True)
        (self.outside / "file").write_text("as it was\n")
        for name, text in {
            "a.txt": "one\n",
            "b/c.txt": "two\n",
            "keep.txt": "keep\n",
            "secret.txt": CANARY,
            "run.sh": "exit 1\n",
            ".gitignore": "*.log\nbuild/\n",
            "old.log": "old\n",
        }.items():
            (self.source / name).write_text(text)
        (self.source / "run.sh").chmod(0o755)
        git(self.source, "init", "-q", "-b", "master")
        git(self.source, "add", "-A")
        git(self.source, "commit", "-qm", "start")
        git(self.source, "branch", "other")
        shutil.copytree(self.source / ".git", self.clean / ".git")
        (self.clean / ".git" / "info").mkdir(exist_ok=True)
        (self.clean / ".git" / "info" / "attributes").write_text("* -text -filter -ident -working-tree-encoding\n")
        self.repository = contents(self.source / ".git")
        self.start = self.tree(self.source)
        self.ignored = self.beside(self.source, self.start[1])
        self.reached = 0
        self._listener = socket.create_server(("127.0.0.1", 0))
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        while True:
            try:
                self._listener.accept()[0].close()
            except OSError:
                return
            self.reached += 1

    def close(self) -> None:
        self._listener.close()

    def variables(self) -> dict[str, str]:
        port = str(self._listener.getsockname()[1])
        places = {"OUT": self.outside, "SOURCE": self.source, "STATE": self.state, "HOME": self.home}
        return {"PORT": port, "HOST": str(os.getpid())} | {name: str(place) for name, place in places.items()}

    def tree(self, root: Path) -> tuple[str, Files]:
        """The tree of a directory's files that are not ignored, by a git of ours that knows only this directory."""
        for old in self.clean.iterdir():
            if old.name != ".git":
                shutil.rmtree(old) if old.is_dir() and not old.is_symlink() else old.unlink()
        copy(root, self.clean)
        (self.clean / ".git" / "index").unlink(missing_ok=True)
        git(self.clean, "read-tree", "HEAD")
        git(self.clean, "add", "-A")
        files: Files = {}
        for line in git(self.clean, "ls-files", "-s", "-z").split("\0")[:-1]:
            about, _, path = line.partition("\t")
            mode, blob, _stage = about.split(" ")
            files[path] = (mode, blob)
        return git(self.clean, "write-tree").strip(), files

    def beside(self, root: Path, files: Files) -> Files:
        """The other files of a directory, without those of git."""
        return {
            path: found
            for path, found in contents(root).items()
            if path not in files and ".git" not in Path(path).parts
        }

    def passes(self, command: str, tree: str) -> bool:
        """Whether a command passes on a tree, in a directory that has nothing else but the person's ignored files."""
        fresh = self.base / "fresh"
        shutil.rmtree(fresh, ignore_errors=True)
        fresh.mkdir()
        git(self.clean, "read-tree", tree)
        git(self.clean, "checkout-index", "-a", f"--prefix={fresh}/")
        Path(f"/tmp/{self.mark}-pass").unlink(missing_ok=True)
        env = {**GIT, "GIT_CEILING_DIRECTORIES": str(self.base)}
        return subprocess.run(["bash", "-c", command], cwd=fresh, env=env, capture_output=True).returncode == 0


def copy(source: Path, target: Path) -> None:
    """What a tree can hold of it, without anything called `.git`."""
    for entry in os.scandir(source):
        place = target / entry.name
        if entry.name == ".git":
            continue
        if entry.is_symlink():
            os.symlink(os.readlink(entry.path), place)
        elif entry.is_dir():
            place.mkdir()
            copy(Path(entry.path), place)
        elif entry.is_file():
            shutil.copyfile(entry.path, place)
            place.chmod(0o755 if entry.stat().st_mode & 0o100 else 0o644)


def contents(root: Path) -> Files:
    """Every file below it, by mode and content; not git's objects, our branches, what git notes about them, and the
    refs that keep a run's base from git gc."""
    found: Files = {}
    for directory, names, files in os.walk(root):
        inside = os.path.relpath(directory, root)
        if inside.startswith(("objects", "refs/heads/treadle", "logs/refs/heads/treadle", "refs/treadle/base")):
            names.clear()
            continue
        for name in [*files, *(one for one in names if os.path.islink(os.path.join(directory, one)))]:
            path = os.path.join(directory, name)
            kind = "link" if os.path.islink(path) else "file" if os.path.isfile(path) else "other"
            data = (
                os.fsencode(os.readlink(path)) if kind == "link" else Path(path).read_bytes() if kind == "file" else b""
            )
            found[os.path.normpath(os.path.join(inside, name))] = (kind, hashlib.sha256(data).hexdigest())
    return found


async def carry_out(world: World, attack: Attack, mode: WorkspaceMode, confined: bool) -> tuple[Receipt, HostRun, Job]:
    if load_signer() is None:
        make_key()
    plain = {"policy", "verify", "apply", "modes", "lies", "honest", "never", "name", "file"}
    told = {name: value for name, value in msgspec.to_builtins(attack).items() if name not in plain}
    work = order(
        world.source, task=json.dumps(told).replace("@MARK@", world.mark), policy=replace(NO_POLICY, **attack.policy)
    )
    work = replace(work, config=replace(work.config, env={**work.config.env, **world.variables()}))
    job = Job(
        order=work,
        backend=Backend(name="attacker", argv=(sys.executable, "-I", "-S", str(HERE / "attacker.py"))),
        mode=mode,
        timeout=60.0,
        check=attack.verify.replace("@MARK@", world.mark) if attack.verify else None,
        apply=attack.apply,
        timing=QUICK,
        confinement=Confinement(use="on" if confined else "off"),
    )
    run = HostRun(job, ReceiptStore(signer=load_signer()))
    return await run.run(), run, job


def false_statements(
    world: World, attack: Attack, receipt: Receipt, run: HostRun, job: Job, confined: bool
) -> Iterator[str]:
    more = ours(receipt)
    if receipt.meta.run_id != run.run_id or receipt.meta.work_order_id != job.order.id:
        yield "it is about another run"
    if left_running(job):
        yield "something of the run is alive"
    if attack.lies and not more["differences"] and receipt.outcome != "failed":
        yield "a lie is not among the differences"
    if attack.honest and more["differences"]:
        yield f"there are differences: {more['differences']}"
    if attack.never == receipt.outcome:
        yield f"it is called {receipt.outcome}"
    if receipt.backend.id != "attacker":
        yield "it names another program than the one that said hello"
    if confined != (more["confinement"] is not None) or confined != (more["workspace"].get("confined_by") is not None):
        yield "it says another thing about the sandbox"
    if not confined:
        if more["workspace"].get("sealed") or "files outside the workspace" not in more["observed"]["not_observed"]:
            yield "it does not say that nothing was sealed"
        if "kernel" in (more["policy"]["lists"] or {}).values():
            yield "it says that the kernel kept the policy"
        return
    if receipt.receipt_sha256 != receipt_hash(receipt):
        yield "its hash is wrong"
    yield from about_record(run)
    yield from about_outside(world, receipt, more)
    yield from about_files(world, receipt, more)
    yield from about_policy(world, attack, more)


def about_record(run: HostRun) -> Iterator[str]:
    store = ReceiptStore()
    try:
        problems = store.check()
    except StorageError as error:
        problems = []
        yield f"the chain cannot be read: {error}"
    for problem in problems:
        yield f"the chain is broken: {problem}"


def about_outside(world: World, receipt: Receipt, more: dict[str, Any]) -> Iterator[str]:
    if contents(world.outside) != {"file": ("file", hashlib.sha256(b"as it was\n").hexdigest())}:
        yield f"confined, and files outside were changed: {sorted(contents(world.outside))}"
    walls = more["confinement"]
    if walls is not None and walls["network"] == "off" and world.reached:
        yield "without a network, and a port was reached"
    now = contents(world.source / ".git")
    if more["workspace"]["mode"] == "pass_through":
        shown = [*(more["observed"]["hidden"] or ()), *(note["where"] for note in more["notes"])]
        if now != world.repository and not any(one.startswith((".git", "git", "commits")) for one in shown):
            yield "the person's repository has changed, and the receipt does not say so"
    else:
        changed = sorted(
            path for path in now.keys() | world.repository.keys() if now.get(path) != world.repository.get(path)
        )
        if changed:
            yield f"the person's repository was changed: {changed}"


def about_files(world: World, receipt: Receipt, more: dict[str, Any]) -> Iterator[str]:
    place, seen = more["workspace"], more["observed"]
    applied = place["applied"] is not None and not place["applied"]["conflicts"]
    source, source_files = world.tree(world.source)
    if place["mode"] != "pass_through" and not applied and source_files != world.start[1]:
        yield "nothing was applied, and the source has changed"
    if place["result_tree"] is None:
        if receipt.outcome == "complete":
            yield "complete, and no one knows what was done"
        return
    if any(one["kind"] in MISSING for one in seen["oddities"]):
        return  # what is missing is listed; the tree is not that of the directory
    if place["mode"] == "pass_through" or (applied and place["kept"] is None):
        tree, files, root = source, source_files, world.source
    elif place["kept"] is not None:
        root = Path(place["kept"])
        tree, files = world.tree(root)
    else:
        tree, files, root = *world.start, world.source
    if place["result_tree"] != tree:
        yield f"its result is {place['result_tree']}, and that of the files is {tree}"
    if applied and source_files != files:
        yield "what was applied is not what is stated"
    if applied and (place["applied"]["before"], place["applied"]["after"]) != (world.start[0], source):
        yield "the trees before and after it was applied are not those of the source"
    base = world.start[1]
    changed = {path for path in base.keys() | files.keys() if base.get(path) != files.get(path)}
    told = [path for change in seen["files"] for path in (change["path"], change.get("old_path")) if path]
    # JSON has no bytes that are not UTF-8: each is a question mark, and the name is among the oddities.
    if sorted(told) != sorted(Redactor().text(re.sub("[\udc80-\udcff]", "?", path)) for path in changed):
        yield f"it lists {sorted(told)}, and {sorted(changed)} differ"
    yield from about_patch(receipt, len(changed))
    if place["kept"] is not None or place["mode"] == "pass_through":
        now = world.beside(root, files)
        before = {} if place["mode"] == "worktree" else world.ignored
        unseen = {path for path in now.keys() | before.keys() if now.get(path) != before.get(path)} - {*changed}
        odd = {one["path"] for one in seen["oddities"]}
        if seen["hidden"] is not None and (missing := unseen - {*seen["hidden"]} - odd) and len(seen["hidden"]) < 200:
            yield f"ignored files changed and are not listed: {sorted(missing)}"
    if job_check := more["observed"]["check"]:
        by_base = bool((job_check.get("evidence") or {}).get("judge"))  # what it changed of its judge did not count
        if job_check["ok"] != world.passes(job_check["command"], tree) and (job_check["ok"] or not by_base):
            yield f"it says that the check {'passed' if job_check['ok'] else 'failed'}"


def about_patch(receipt: Receipt, most: int) -> Iterator[str]:
    """Each changed file has its lines in the status and its part in the patch, whatever the others are called."""
    status, patch = receipt.verification.git_status or "", receipt.verification.git_diff or ""
    headings = re.findall(r"^(diff --git .*)\n(deleted|new)?", patch, re.MULTILINE)
    # A file that became a link has two parts with one heading: it is removed and made.
    made = [(name, "new") if did == "deleted" else None for name, did in headings]
    twice = sum(one == after for one, after in zip(made, headings[1:], strict=False))
    shown, parts = len(status.splitlines()), len(headings) - twice
    least = len(ours(receipt)["observed"]["files"])
    if shown != least or (len(patch) < 1_000_000 and not least <= parts <= most):
        yield f"{most} files changed, its status shows {shown} and its patch {parts}"


def about_policy(world: World, attack: Attack, more: dict[str, Any]) -> Iterator[str]:
    kept, place = more["policy"]["lists"] or {}, more["workspace"]
    root = Path(place["kept"]) if place["kept"] else world.source
    if kept.get("deny_read") == "kernel":
        told = json.dumps(more) + "".join(
            found.read_text(errors="replace")
            for found in root.rglob("*")
            if found.is_file() and not found.is_symlink() and found.name != "secret.txt" and ".git" not in found.parts
        )
        if CANARY in told:
            yield "the kernel kept reads, and a denied file was read"
    if kept.get("deny_write") == "kernel":
        for pattern in attack.policy["deny_write"]:
            before = world.start[1].get(pattern)
            if before is not None and world.tree(root)[1].get(pattern) != before:
                yield f"the kernel kept writes, and {pattern} was changed"
