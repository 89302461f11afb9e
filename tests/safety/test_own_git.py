"""Our own git never does what an agent's files say, and what a receipt states is what is applied. Judged by effect.

The runs here are not confined: the rule about our own git holds without the kernel's help.
"""

import hashlib
import os
import subprocess
import zlib
from pathlib import Path

import pytest

from tests.host.conftest import QUICK, order, scripted
from tests.host.test_run import Runner, more
from tests.safety import as_nobody, own_git
from tests.safety.own_git import SETS, WAYS, canaries, script
from tests.workspace.repositories import Repository, branches, git, make
from treadle.host.job import Job
from treadle.io.sandbox import landlock, methods
from treadle.session import Confinement
from treadle.workspace.workspace import WorkspaceMode

pytestmark = pytest.mark.slow

MODES: list[WorkspaceMode] = ["staged", "worktree", "pass_through"]
needs_walls = pytest.mark.skipif(methods.available().method != "bubblewrap", reason="needs bubblewrap")


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return make(tmp_path / "repo")


def working(top: str, task: str, mode: WorkspaceMode, *, confined: bool = False, check: str | None = None) -> Job:
    return Job(
        order=order(Path(top), task=task),
        backend=scripted("runs_its_task_and_does_not_say_so"),
        timing=QUICK,
        mode=mode,
        apply=True,
        anyway=True,  # even where a person agrees to files that other programs obey
        check=check,
        confinement=Confinement(use="on" if confined else "off"),
    )


def test_there_are_enough_ways() -> None:
    assert len(WAYS) >= 20 and len({way for _, way in WAYS}) == len(WAYS)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", SETS)
async def test_nothing_that_an_agent_left_is_run_by_us(
    run: Runner, repository: Repository, tmp_path: Path, mode: WorkspaceMode, name: str
) -> None:
    receipt, host = await run("", working(repository.top, script(name, tmp_path), mode, check="cat work.txt"))
    assert canaries(tmp_path) == set()
    assert (tmp_path / "ended").exists()
    if mode == "pass_through" and name.startswith("git-"):  # it has taken the person's objects away with `.git`
        assert receipt.outcome == "failed" and "cannot be determined" in str(more(receipt)["end"]["message"])
        return
    assert receipt.outcome == "complete" and "work.txt" in (receipt.verification.git_status or "")
    assert Path(repository.top, "a.txt").read_text() == "two\n"


@pytest.mark.long
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can try it as another user")
@needs_walls
def test_the_same_in_confined_runs_of_a_user_without_rights() -> None:
    with as_nobody.room() as base:
        found = as_nobody.as_another(base, [own_git.__file__, str(base / "world")])
    assert len(found) == 2 * len(SETS) and {name: wrong for name, wrong in found.items() if wrong} == {}


@pytest.mark.long
@pytest.mark.skipif(landlock.problem() is not None, reason="needs Landlock")
def test_the_same_in_runs_confined_by_landlock(tmp_path: Path) -> None:
    found = as_nobody.with_landlock(tmp_path, [own_git.__file__, str(tmp_path / "world")])
    assert len(found) == 2 * len(SETS) and {name: wrong for name, wrong in found.items() if wrong} == {}


def test_a_git_that_looks_at_the_same_files_runs_most_of_them(repository: Repository, tmp_path: Path) -> None:
    """The hole, as it was: otherwise the test above could not fail."""
    found: set[str] = set()
    for name in SETS:
        place = tmp_path / name
        place.mkdir()
        top = Path(make(place / "repo").top)
        subprocess.run(["sh", "-c", script(name, place)], cwd=top, capture_output=True, check=False)
        env = {**os.environ, "GIT_PAGER": "", "GIT_TERMINAL_PROMPT": "0"}
        for words in (
            ["status"],
            ["diff"],
            ["add", "-A"],
            ["diff", "--cached"],
            ["commit", "-qm", "x"],
            ["checkout", "."],
        ):
            subprocess.run(
                ["git", *words], cwd=top, env=env, capture_output=True, check=False, stdin=subprocess.DEVNULL
            )
        found |= canaries(place)
    assert {"clean", "fsmonitor", "external-diff", "gitlink", "git-is-a-file", "git-is-a-link"} <= found
    assert len(found) >= 10, sorted(found)


def forged(shown: bytes, applied: bytes) -> tuple[str, bytes]:
    """The name of one blob, and the loose object of another."""
    name = hashlib.sha1(b"blob %d\0" % len(shown) + shown).hexdigest()
    return name, zlib.compress(b"blob %d\0" % len(applied) + applied)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("side", ["before", "after"])
async def test_a_forged_object_never_makes_a_receipt_that_shows_other_than_what_is_there(
    run: Runner, repository: Repository, tmp_path: Path, mode: WorkspaceMode, side: str
) -> None:
    """Other content under the right name: of the file as it was, or as the run leaves it."""
    name, data = forged(b"one\n" if side == "before" else b"shown\n", b"forged\n")
    (tmp_path / "object").write_bytes(data)
    place = f"{repository.common}/objects/{name[:2]}"
    task = f"mkdir -p {place}; rm -f {place}/{name[2:]}; cp {tmp_path}/object {place}/{name[2:]}; echo shown > a.txt"
    receipt, _ = await run("", working(repository.top, task, mode))
    diff = receipt.verification.git_diff or ""
    assert "forged" not in diff and "forged" not in Path(repository.top, "a.txt").read_text()
    if receipt.outcome == "complete" and mode != "pass_through":
        assert "+shown" in diff and Path(repository.top, "a.txt").read_text() == "shown\n"
    elif receipt.outcome != "complete":
        assert "does not match its hash" in str(more(receipt)["end"]["message"])


@pytest.mark.parametrize("mode", MODES)
async def test_a_replaced_object_or_a_marked_index_hides_nothing(
    run: Runner, repository: Repository, mode: WorkspaceMode
) -> None:
    other = git("hash-object", "-w", "--stdin", cwd=repository.top, stdin=b"replaced\n").stdout.decode().strip()
    task = (
        f"git -C {repository.top} replace -f $(git -C {repository.top} rev-parse HEAD:a.txt) {other};"
        " [ -e .git ] && git update-index --skip-worktree --assume-unchanged a.txt;"
        " [ -e .git ] && mkdir -p .git/info && echo a.txt >> .git/info/exclude;"
        " echo a.txt >> .gitignore; echo shown > a.txt"
    )
    receipt, _ = await run("", working(repository.top, task, mode))
    diff = receipt.verification.git_diff or ""
    assert "-one" in diff and "+shown" in diff and "replaced" not in diff
    assert Path(repository.top, "a.txt").read_text() == "shown\n"


REFS = [
    "git update-ref refs/heads/main HEAD",
    "git tag -f v1",
    "git branch other",
    "git symbolic-ref HEAD refs/heads/evil",
    "git pack-refs --all",
    "git update-ref refs/replace/$(git rev-parse main) HEAD",
    "git -C {top} update-ref refs/heads/main HEAD",
    "echo $(git rev-parse HEAD) > {git}/refs/heads/main",
    "echo evil > {git}/packed-refs",
    "echo evil > {git}/index",
    "echo /tmp > {git}/objects/info/alternates",
    "git config --file {git}/config core.pager evil",
    "echo exit 1 > {git}/hooks/pre-commit",
    "git worktree add -q ../../evil",
]


@needs_walls
async def test_no_ref_setting_or_file_of_the_repository_is_changed_by_a_confined_run(
    run: Runner, repository: Repository
) -> None:
    places = [path for path in Path(repository.common).rglob("*") if path.is_file()]
    before = {path: path.read_bytes() for path in places}
    acts = "\n".join(f"({act.format(top=repository.top, git=repository.common)})" for act in REFS)
    task = f"git -c user.name=a -c user.email=a@b commit -q --allow-empty -m evil\n{acts}\necho two > a.txt\ntrue"
    receipt, _ = await run("", working(repository.top, task, "worktree", confined=True))
    place = more(receipt)["workspace"]
    assert place["sealed"] and place["confined_by"] == "bubblewrap"
    assert {path: path.read_bytes() for path in places} == before
    assert branches(repository) <= {"main", place["branch"]} and not repository.git("tag")
    assert repository.git("for-each-ref", "refs/replace") == ""
