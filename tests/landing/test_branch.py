"""Work lands wherever the branch is: in a bare repository, behind a remote on disk or over HTTP with hooks."""

import asyncio
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.fleet.repositories import git
from tests.landing.finished import Finished
from tests.landing.git_http import GitServer
from tests.landing.test_train import proof, start_train
from tests.landing.trains import empty
from treadle.errors import NotFound, WorkspaceError
from treadle.fleet.engine import controller
from treadle.fleet.engine.bus import Bus
from treadle.landing import train, views
from treadle.landing.forge import branch as branches
from treadle.landing.forge.branch import OwnBranch, PushedBranch
from treadle.landing.train import Train
from treadle.wire.fleet.train import TrainRecord
from treadle.workspace import checkouts, remotes
from treadle.workspace.branch_moves import BranchMoved
from treadle.workspace.remotes import Remote, RemoteBranch
from treadle.workspace.store import Store, lending


@pytest.fixture(autouse=True)
def looks_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(branches, "FRESH_SECONDS", 0.0)
    monkeypatch.setattr(remotes, "PAUSE", 0.01)


@pytest.fixture
def bare(repository: Path, tmp_path: Path) -> Path:
    """The repository that the others are clones of."""
    place = tmp_path / "shared.git"
    git(tmp_path, "clone", "-q", "--bare", str(repository), str(place))
    git(repository, "remote", "add", "origin", str(place))
    git(repository, "fetch", "-q", "origin")
    return place


@pytest.fixture
def served(bare: Path) -> Iterator[GitServer]:
    with GitServer(bare.parent) as server:
        yield server


async def lands(bus: Bus, root: Path, *orders: str, branch: str = "origin:main", verify: str = "true") -> TrainRecord:
    name = await train.ensure(bus, str(root), branch, verify=verify)
    await train.board(bus, name, orders)
    record, _ = await train.load(bus, name)
    async with asyncio.timeout(120):
        return await Train(bus, name, record, root=str(root)).run(empty)


async def test_a_bare_repository_is_landed_in_directly(
    bus: Bus, finished: Finished, bare: Path, repository: Path
) -> None:
    one = await finished.order("one", {"new.txt": "x\n"})
    record = await lands(bus, bare, one, branch="main")
    assert record.landed == 1 and git(bare, "show", "main:new.txt") == "x" and git(bare, "fsck", "--no-dangling") == ""
    assert git(repository, "rev-parse", "main") == finished.base, "a clone of it follows by `git pull`"


async def test_a_remote_is_pushed_to_and_the_clone_knows_it(
    bus: Bus, finished: Finished, bare: Path, repository: Path
) -> None:
    names = [await finished.order(f"o{number}", {f"new{number}.txt": "x\n"}) for number in range(2)]
    record = await lands(bus, repository, *names)
    tip = git(bare, "rev-parse", "main")
    assert record.landed == 2 and record.tip == tip == git(repository, "rev-parse", "refs/remotes/origin/main")
    assert git(repository, "rev-parse", "main") == finished.base and git(repository, "status", "--porcelain") == ""
    found = await proof(bus, names[1])
    assert found is not None and git(bare, "rev-parse", f"{found.commit}^{{tree}}") == found.tree
    git(repository, "pull", "-q", "--ff-only", "origin", "main")
    assert (repository / "new1.txt").exists()


@pytest.mark.slow
async def test_what_three_people_push_from_their_clones_meanwhile_stays(
    bus: Bus, finished: Finished, bare: Path, repository: Path, tmp_path: Path
) -> None:
    """Each lands in a clone of their own, by one train, and pushes by hand in between."""
    clones = []
    for name in ("ann", "bob", "cat"):
        git(tmp_path, "clone", "-q", str(bare), str(tmp_path / name))
        clones.append(tmp_path / name)
    orders = [await finished.order(f"o{number}", {f"new{number}.txt": "x\n"}) for number in range(3)]
    pushed = []

    def tried(clone: Path, *words: str) -> bool:
        identity = ("-c", "user.name=p", "-c", "user.email=p@example.invalid")
        return subprocess.run(["git", *identity, *words], cwd=clone, capture_output=True).returncode == 0

    def by_hand(clone: Path) -> None:
        (clone / f"{clone.name}.txt").write_text("mine\n")
        git(clone, "add", "-A")
        git(clone, "commit", "-qm", clone.name)
        # Two fetches of one clone at the same moment get in each other's way, as git has it: then once more.
        for _ in range(50):
            if tried(clone, "pull", "-q", "--rebase", "origin", "main") and tried(
                clone, "push", "-q", "origin", "main"
            ):
                return pushed.append(clone.name)

    landing = [lands(bus, clone, order) for clone, order in zip(clones, orders, strict=True)]
    await asyncio.gather(*landing, *(asyncio.to_thread(by_hand, clone) for clone in clones))
    files = git(bare, "ls-tree", "--name-only", "main").split()
    assert {"new0.txt", "new1.txt", "new2.txt", "ann.txt", "bob.txt", "cat.txt"} <= set(files) and len(pushed) == 3
    assert len(await train.trains(bus)) == 1, "one train for the branch, whoever lands"
    told = git(bare, "log", "--format=%B", "main")
    assert [told.count(f"Order: {order}\n") for order in orders] == [1, 1, 1]


@pytest.mark.slow
async def test_over_http_a_hook_that_refuses_is_told_and_nothing_moves(
    bus: Bus, finished: Finished, bare: Path, repository: Path, served: GitServer
) -> None:
    git(repository, "remote", "set-url", "origin", f"{served.url}/shared.git")
    hook = bare / "hooks/pre-receive"
    hook.write_text("#!/bin/sh\necho 'GH006: Protected branch update failed' >&2\nexit 1\n")
    hook.chmod(0o755)
    one = await finished.order("one", {"new.txt": "x\n"})
    record = await lands(bus, repository, one)
    assert record.landed == 0 and record.paused is not None and git(bare, "rev-parse", "main") == finished.base
    assert "origin refuses to move main" in record.paused.what and "GH006: Protected branch" in record.paused.what
    hook.unlink()
    await train.change(bus, next(iter(await train.trains(bus))), _resumed)
    record = await lands(bus, repository)
    assert record.landed == 1 and git(bare, "show", "main:new.txt") == "x"


def _resumed(record: TrainRecord) -> TrainRecord:
    return replace(record, paused=None)


async def test_over_http_a_push_whose_answer_is_lost_is_read_from_the_branch(
    bus: Bus, finished: Finished, bare: Path, repository: Path, served: GitServer
) -> None:
    git(repository, "remote", "set-url", "origin", f"{served.url}/shared.git")
    one = await finished.order("one", {"new.txt": "x\n"})
    served.cut_answers = 1
    record = await lands(bus, repository, one)
    assert served.cut_answers == 0 and record.landed == 1
    assert git(bare, "log", "--format=%B", "main").count("Order: one\n") == 1


async def test_a_remote_that_is_away_holds_the_train_up_and_no_one_has_to_resume_it(
    bus: Bus, finished: Finished, bare: Path, repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(controller, "LONGEST_SECONDS", 0.2)
    one = await finished.order("one", {"new.txt": "x\n"})
    away = bare.rename(bare.with_name("away.git"))
    landing = asyncio.create_task(lands(bus, repository, one))
    async with asyncio.timeout(60):
        while not (found := [*(await train.trains(bus)).values()]) or not found[0].delay or found[0].delay.tries < 2:
            await asyncio.sleep(0.02)
    assert found[0].paused is None and "origin cannot be read" in found[0].delay.why
    (explained,) = await views.explained(bus, one)
    assert any(line.startswith("delayed  origin cannot be read") for line in explained["lines"])
    away.rename(bare)
    record = await landing
    assert record.landed == 1 and record.delay is None and record.paused is None


async def test_a_push_that_is_killed_is_made_again_by_itself(
    bus: Bus, finished: Finished, bare: Path, repository: Path, tmp_path: Path
) -> None:
    killed = tmp_path / "killed"
    hook = bare / "hooks/pre-receive"
    hook.write_text(f"#!/bin/sh\n[ -e {killed} ] || {{ : >{killed}; kill -9 $PPID; exit 1; }}\n")
    hook.chmod(0o755)
    one = await finished.order("one", {"new.txt": "x\n"})
    record = await lands(bus, repository, one)
    assert killed.exists() and record.landed == 1 and record.delay is None and record.paused is None
    assert git(bare, "log", "--format=%B", "main").count("Order: one\n") == 1


WAITS = """#!/bin/sh
: >{place}/in.$$
n=0
while [ ! -e {place}/go ] && [ $n -lt 1200 ]; do sleep 0.05; n=$((n+1)); done
"""


async def until_there(directory: Path, pattern: str, count: int) -> None:
    async with asyncio.timeout(60):
        while len(list(directory.glob(pattern))) < count:
            await asyncio.sleep(0.02)


@pytest.mark.slow
async def test_a_train_killed_while_the_servers_hook_ran_is_followed_by_one_that_pushes_the_same(
    bus: Bus, finished: Finished, bare: Path, repository: Path, served: GitServer, tmp_path: Path
) -> None:
    """The killed one's push still arrives, at any moment of the other's."""
    git(repository, "remote", "set-url", "origin", f"{served.url}/shared.git")
    place = tmp_path / "hook"
    place.mkdir()
    hook = bare / "hooks/pre-receive"
    hook.write_text(WAITS.format(place=place))
    hook.chmod(0o755)
    one = await finished.order("one", {"new.txt": "x\n"})
    killed = start_train("", repository, one, "true", "origin:main")
    await until_there(place, "in.*", 1)
    killed.send_signal(signal.SIGKILL)
    await asyncio.to_thread(killed.wait, 60)
    assert git(bare, "rev-parse", "main") == finished.base and await proof(bus, one) is None
    next_one = asyncio.create_task(lands(bus, repository))
    await until_there(place, "in.*", 2)
    (place / "go").touch()
    record = await next_one
    assert record.landed == 1 and record.landing is None and record.paused is None
    assert git(bare, "log", "--format=%B", "main").count("Order: one\n") == 1 and await proof(bus, one) is not None


@pytest.mark.slow
@pytest.mark.parametrize("point", ["intent recorded", "branch moved", "noted"])
async def test_a_train_killed_around_the_push_is_followed_by_one_that_lands_it_once(
    bus: Bus, finished: Finished, bare: Path, repository: Path, point: str
) -> None:
    one = await finished.order("one", {"new.txt": "x\n"})
    done = start_train(point, repository, one, "true", "origin:main")
    assert await asyncio.to_thread(done.wait, 120) == -signal.SIGKILL
    assert (git(bare, "rev-parse", "main") != finished.base) == (point != "intent recorded")
    (repository / "mine.txt").write_text("mine\n")
    git(repository, "add", "-A")
    git(repository, "commit", "-qm", "a person's")
    git(repository, "pull", "-q", "--no-rebase", "--no-edit", "origin", "main")
    git(repository, "push", "-q", "origin", "main")
    record = await lands(bus, repository)
    assert record.landed == 1 and record.landing is None and await proof(bus, one) is not None
    assert {"new.txt", "mine.txt"} <= set(git(bare, "ls-tree", "--name-only", "main").split())
    assert git(bare, "log", "--format=%B", "main").count("Order: one\n") == 1


@pytest.mark.slow
async def test_a_password_is_asked_of_the_persons_helper_and_never_of_the_repositorys(
    bus: Bus,
    finished: Finished,
    bare: Path,
    repository: Path,
    served: GitServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    served.password = "sesame"
    git(repository, "remote", "set-url", "origin", f"{served.url}/shared.git")
    for key, words in {
        "credential.helper": f"!touch {tmp_path}/ran-helper; echo username=x; echo password=sesame;",
        "core.sshCommand": f"touch {tmp_path}/ran-ssh",
        "core.fsmonitor": f"touch {tmp_path}/ran-monitor",
        "core.askPass": f"touch {tmp_path}/ran-ask",
    }.items():
        git(repository, "config", key, words)
    one = await finished.order("one", {"new.txt": "x\n"})
    with pytest.raises(WorkspaceError, match="origin cannot be read"):
        await lands(bus, repository, one)
    settings = tmp_path / "gitconfig"
    settings.write_text('[credential]\n\thelper = "!f() { echo username=x; echo password=sesame; }; f"\n')
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(settings))
    assert (await lands(bus, repository)).landed == 1
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith("ran-")] == []


async def test_a_password_in_an_address_is_not_told(bus: Bus, finished: Finished, bare: Path, repository: Path) -> None:
    git(repository, "remote", "set-url", "origin", "http://me:sesame@127.0.0.1:1/shared.git")
    record = await lands(bus, repository)
    assert record.delay is not None and "origin cannot be read" in record.delay.why
    assert "sesame" not in record.delay.why


async def test_an_address_that_is_a_program_is_not_run(
    bus: Bus, finished: Finished, bare: Path, repository: Path, tmp_path: Path
) -> None:
    git(repository, "remote", "set-url", "origin", f"ext::touch {tmp_path}/ran")
    with pytest.raises(WorkspaceError, match="origin cannot be read"):
        await lands(bus, repository)
    assert not (tmp_path / "ran").exists()


async def test_a_remote_or_branch_that_is_not_there_is_said(bus: Bus, bare: Path, repository: Path) -> None:
    with pytest.raises(NotFound, match="has no remote 'upstream'.*origin"):
        await train.ensure(bus, str(repository), "upstream:main")
    with pytest.raises(WorkspaceError, match="origin has no branch nowhere"):
        await lands(bus, repository, branch="origin:nowhere")


def commit_on(place: Path, tip: str, name: str) -> str:
    """A person's, with the same files."""
    made = git(place, "commit-tree", "-m", name, "-p", tip, f"{tip}^{{tree}}")
    git(place, "update-ref", "refs/heads/main", made)
    return made


def test_what_was_read_of_a_remote_is_believed_for_a_moment_and_not_after_a_push(
    repository: Path, bare: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    user = checkouts.around(str(repository))
    there = RemoteBranch(Remote(user, "origin"), "main", Store.make(str(tmp_path / "store"), **lending(user)))
    pushed, first = PushedBranch(there), git(bare, "rev-parse", "main")
    monkeypatch.setattr(branches, "FRESH_SECONDS", 1000.0)
    assert pushed.tip() == first and pushed.contains(first)
    second = commit_on(bare, first, "a person's")
    assert pushed.tip() == first, "read a moment ago"
    with pytest.raises(BranchMoved):
        pushed.move(first, git(repository, "commit-tree", "-m", "ours", "-p", first, f"{first}^{{tree}}"))
    assert pushed.tip() == second and pushed.contains(second)
    third = commit_on(bare, second, "another")
    monkeypatch.setattr(branches, "FRESH_SECONDS", -1.0)
    assert not pushed.contains(third) and pushed.tip() == third and pushed.contains(third)
    ours = git(repository, "commit-tree", "-m", "ours", "-p", third, f"{third}^{{tree}}")
    pushed.look(third, ours)
    assert pushed.move(third, ours) == [] and git(bare, "rev-parse", "main") == ours


def test_a_branch_of_the_repository_itself_says_what_is_in_its_way(repository: Path, tmp_path: Path) -> None:
    user, first = checkouts.around(str(repository)), git(repository, "rev-parse", "main")
    own = OwnBranch(user, "main", Store.make(str(tmp_path / "store"), **lending(user)), "why it moved")
    git(repository, "rm", "-q", "--cached", "a.txt")
    tree = git(repository, "write-tree")
    git(repository, "reset", "-q")
    second = git(repository, "commit-tree", "-m", "ours", "-p", first, tree)
    own.look(first, second)
    (repository / "a.txt").write_text("mine\n")
    with pytest.raises(WorkspaceError, match="not committed"):
        own.look(first, second)
    git(repository, "checkout", "-q", "a.txt")
    assert own.tip() == first and not own.contains(second) and own.move(first, second) == []
    assert own.tip() == second and own.contains(first) and own.contains(second)
    assert "why it moved" in git(repository, "reflog", "main") and not (repository / "a.txt").exists()


def test_over_ssh_the_persons_own_command_is_used(
    repository: Path, bare: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stand-in for ssh that runs what it is told on this machine: what git says to the other side is the same."""
    ssh = tmp_path / "ssh"
    ssh.write_text('#!/bin/sh\nwhile [ "$1" != host ]; do shift; done\nshift\nexec sh -c "$*"\n')
    ssh.chmod(0o755)
    monkeypatch.setenv("GIT_SSH", str(ssh))
    git(repository, "remote", "set-url", "origin", f"ssh://host{bare}")
    user = checkouts.around(str(repository))
    there = RemoteBranch(Remote(user, "origin"), "main", Store.make(str(tmp_path / "store"), **lending(user)))
    assert there.tip() == git(bare, "rev-parse", "main")
