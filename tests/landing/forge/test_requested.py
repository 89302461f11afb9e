"""A protected branch is landed on by pull requests: opened with all that is known, checked there, merged there."""

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from tests.distributions import forges as forges
from tests.fleet.conftest import Start, give
from tests.fleet.conftest import bus as bus
from tests.fleet.conftest import fleet as fleet
from tests.fleet.conftest import nothing_left as nothing_left
from tests.fleet.conftest import repository as repository
from tests.fleet.conftest import start_node as start_node
from tests.fleet.repositories import git, model, read, says, work, write
from tests.landing.finished import Finished
from tests.landing.finished import finished as finished
from tests.landing.forge.forgejo_server import ForgejoServer
from tests.landing.forge.github_server import GitHubServer
from tests.landing.forge.gitlab_server import GitLabServer
from tests.landing.forge.server import ForgeServer
from tests.landing.test_branch import bare as bare
from tests.landing.test_branch import looks_at_once as looks_at_once
from tests.landing.test_train import proof
from tests.landing.trains import empty
from tests.workspace.repositories import make
from treadle.errors import ConfigError, WorkspaceError
from treadle.fleet import client
from treadle.fleet.engine.bus import Bus
from treadle.landing import train
from treadle.landing.forge import branch
from treadle.landing.forge.branch import POLL_SECONDS, RequestedBranch
from treadle.landing.forge.github import GitHub
from treadle.landing.forge.interface import (
    ForgeCheck,
    ForgeComment,
    ForgeIssue,
    ForgeRed,
    ForgeRefused,
    ForgeReviews,
    LandingRequest,
    NotYet,
)
from treadle.landing.train import Train
from treadle.wire.fleet.train import TrainRecord
from treadle.workspace import branch_merges
from treadle.workspace.branch_moves import BranchMoved
from treadle.workspace.changes import TreeEntry
from treadle.workspace.remotes import Remote, RemoteBranch
from treadle.workspace.store import Store
from treadle.workspace.user_repository import UserRepository


@pytest.fixture
def hub(bare: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[GitHubServer]:
    monkeypatch.setattr(branch, "POLL_SECONDS", 0.05)
    monkeypatch.setattr(branch, "BEGIN_SECONDS", 0.0)
    monkeypatch.setenv("SHOP_TOKEN", "sesame")
    with GitHubServer(bare) as server:
        yield server


async def begun(
    bus: Bus, repository: Path, hub: ForgeServer, *orders: str, until: Callable[[TrainRecord], bool] = empty
) -> asyncio.Task[TrainRecord]:
    name = await train.ensure(bus, str(repository), "origin:main", verify="true")
    forge = f"{hub.kind}:shop/web@{hub.api}"
    await train.change(bus, name, lambda found: replace(found, forge=forge, forge_token="SHOP_TOKEN"))
    await train.board(bus, name, orders)
    record, _ = await train.load(bus, name)

    async def run() -> TrainRecord:
        async with asyncio.timeout(60):
            return await Train(bus, name, record).run(until)

    return asyncio.create_task(run())


async def until(task: asyncio.Task[TrainRecord], what: Any) -> None:
    async with asyncio.timeout(60):
        while not what():
            assert not task.done(), task.result()
            await asyncio.sleep(0.02)


def run_of(pull: dict[str, Any], conclusion: str | None, **more: Any) -> dict[str, Any]:
    status = "completed" if conclusion else "in_progress"
    return {"name": "ci", "status": status, "conclusion": conclusion, "head_sha": pull["sha"], **more}


@pytest.mark.slow
async def test_a_red_check_or_a_reviewer_closes_the_request_and_the_words_are_kept(
    bus: Bus, finished: Finished, repository: Path, bare: Path, hub: GitHubServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(branch, "BEGIN_SECONDS", 600.0)
    one = await finished.order("one", {"new.txt": "x\n"})
    task = await begun(bus, repository, hub, one)
    await until(task, lambda: hub.pulls and hub.pulls[0].get("sha"))
    said = {"title": "2 tests failed", "summary": "test_cents"}
    hub.runs.append(run_of(hub.pulls[0], "failure", html_url="http://forge.example/run/7", output=said))
    record = await task
    (out,) = record.left_out
    assert out.kind == "red" and out.why == "ci failed in http://forge.example/shop/web/pull/1"
    assert [each.first for each in record.back] == [one], "it goes to who can help, with what was said"
    assert "2 tests failed test_cents http://forge.example/run/7" in out.output
    assert hub.pulls[0]["state"] == "closed" and record.landing is None
    assert git(bare, "rev-parse", "main") == finished.base

    two = await finished.order("two", {"other.txt": "x\n"})
    task = await begun(bus, repository, hub, two)
    await until(task, lambda: len(hub.pulls) == 2 and hub.pulls[1].get("sha"))
    sha, ann = hub.pulls[1]["sha"], {"login": "ann"}
    hub.comments.append({"body": "round to cents", "path": "other.txt", "line": 1, "user": ann, "commit_id": sha})
    hub.reviews.append({"state": "CHANGES_REQUESTED", "body": "not yet", "user": ann, "commit_id": sha})
    record = await task
    out = record.left_out[-1]
    assert out.order == two and "ann asked for changes" in out.why and "ann: other.txt:1: round to cents" in out.output
    assert "ann: not yet" in out.output and git(bare, "rev-parse", "main") == finished.base


@pytest.mark.usefixtures("forges")
@pytest.mark.parametrize("kind", [GitLabServer, ForgejoServer])
@pytest.mark.long
async def test_other_forges_say_no_and_yes_in_the_same_way(
    bus: Bus, finished: Finished, repository: Path, bare: Path, kind: type[ForgeServer], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(branch, "POLL_SECONDS", 0.05)
    monkeypatch.setattr(branch, "BEGIN_SECONDS", 600.0)
    monkeypatch.setenv("SHOP_TOKEN", "sesame")
    with kind(bare) as hub:
        one = await finished.order("one", {"new.txt": "x\n"}, agent="codex")
        task = await begun(bus, repository, hub, one)
        await until(task, lambda: hub.pulls and hub.pulls[0].get("sha"))
        assert "Order: one" in hub.pulls[0]["body"] and "Agent: codex" in hub.pulls[0]["body"]
        hub.ends(hub.pulls[0], "failure")
        (out,) = (await task).left_out
        assert out.kind == "red" and out.why.startswith("ci failed in http://forge.example/shop/web/")
        assert "2 tests failed http://forge.example/run/7" in out.output and hub.pulls[0]["state"] == "closed"
        two = await finished.order("two", {"other.txt": "x\n"})
        task = await begun(bus, repository, hub, two)
        await until(task, lambda: len(hub.pulls) == 2 and hub.pulls[1].get("sha"))
        assert git(bare, "rev-parse", "main") == finished.base, "its checks have not ended"
        hub.ends(hub.pulls[1], "success")
        record, found = await task, await proof(bus, two)
    assert record.landed == 1 and found is not None and git(bare, "rev-parse", "main^{tree}") == found.tree
    assert hub.pulls[1]["merged"] and git(bare, "branch", "--list", "treadle/*") == ""


async def test_a_missing_review_is_waited_for_and_a_request_merged_by_hand_has_landed(
    bus: Bus, finished: Finished, repository: Path, bare: Path, hub: GitHubServer
) -> None:
    hub.needs_review = True
    one = await finished.order("one", {"new.txt": "x\n"})
    task = await begun(bus, repository, hub, one)
    await until(task, lambda: "PUT /repos/shop/web/pulls/1/merge" in hub.asked)
    assert git(bare, "rev-parse", "main") == finished.base
    hub.merge(hub.pulls[0], squash=True)
    record = await task
    assert record.landed == 1 and await proof(bus, one) is not None
    assert git(bare, "rev-list", "--count", "main") == "2", "one commit of it, made by a person on the forge"


@pytest.mark.slow
async def test_a_commit_of_a_colleague_meanwhile_stays_and_the_request_is_updated(
    bus: Bus, finished: Finished, repository: Path, bare: Path, hub: GitHubServer, tmp_path: Path
) -> None:
    hub.needs_review = True
    one = await finished.order("one", {"new.txt": "x\n"})
    task = await begun(bus, repository, hub, one)
    await until(task, lambda: "PUT /repos/shop/web/pulls/1/merge" in hub.asked)
    first = hub.pulls[0]["sha"]
    tree = git(bare, "rev-parse", "main^{tree}")
    person = git(bare, "commit-tree", tree, "-p", "main", "-m", "a colleague's")
    git(bare, "update-ref", "refs/heads/main", person)
    await until(task, lambda: hub.head(hub.pulls[0]) not in (first, ""))
    hub.needs_review = False
    record = await task
    assert record.landed == 1 and len(hub.pulls) == 1
    assert git(bare, "merge-base", "--is-ancestor", person, "main") == "" and git(bare, "show", "main:new.txt") == "x"


def test_without_a_token_nothing_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_TOKEN", raising=False)
    with pytest.raises(ConfigError, match="no token in the variable NO_TOKEN"):
        asyncio.run(GitHub("https://git.example", "shop/web", "NO_TOKEN").look(1))


@pytest.mark.slow
async def test_a_red_check_of_the_forge_goes_to_its_author_with_what_was_said_there_and_lands_when_it_is_fixed(
    bus: Bus,
    start_node: Start,
    repository: Path,
    bare: Path,
    hub: GitHubServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(branch, "BEGIN_SECONDS", 600.0)
    await start_node()
    told = "(?s)ci failed in http.*`true` passes with it.*2 tests failed.*is then checked there again"
    fix = [says("I fix it.", read("a.txt"), write("a.txt", "fixed\n"), when=told)]
    first = [says("I write.", read("a.txt"), write("a.txt", "first\n"), turn=1)]
    one = work(repository, model(tmp_path, *fix, *first, says("Done.", times="always")))
    await give(bus, one)
    assert (await client.wait(bus, one.id, 60)).state == "done"
    task = await begun(bus, repository, hub, one.id, until=lambda found: not found.queue and not found.back)
    await until(task, lambda: hub.pulls and hub.pulls[0].get("sha"))
    hub.runs.append(run_of(hub.pulls[0], "failure", output={"title": "2 tests failed", "summary": "test_cents"}))
    await until(task, lambda: len(hub.pulls) == 2 and hub.pulls[1].get("sha"))
    hub.runs.append(run_of(hub.pulls[1], "success"))
    record = await task
    assert record.landed == 1 and git(bare, "show", "main:a.txt") == "fixed"
    found = await proof(bus, one.id)
    assert found is not None and (await client.get_spec(bus, found.by)).continues == one.id, (
        "its author, in its session"
    )


class Desk:
    """A forge in memory, over a bare repository: it answers what the test says, and keeps what it was asked."""

    def __init__(self, bare: Path) -> None:
        self.bare = bare
        self.requests: list[LandingRequest] = []
        self.asked: list[tuple[Any, ...]] = []
        self.said: list[ForgeCheck] = []
        self.reviewed = ForgeReviews()
        self.refusal = ""
        self.merges = ""
        """The commit that it makes of a request."""

    async def find(self, head: str, base: str) -> LandingRequest | None:
        self.asked.append(("find", head, base))
        return next((each for each in self.requests if each.state == "open"), None)

    async def look(self, number: int) -> LandingRequest:
        raise NotImplementedError

    async def open(self, head: str, base: str, title: str, body: str) -> LandingRequest:
        self.asked.append(("open", head, base))
        at = git(self.bare, "rev-parse", head)
        self.requests.append(LandingRequest(number=7, url="u/7", head=at, state="open", title=title, body=body))
        return self.requests[-1]

    async def update(self, number: int, title: str, body: str) -> LandingRequest:
        self.asked.append(("update", number))
        self.requests[-1] = replace(self.requests[-1], title=title, body=body)
        return self.requests[-1]

    async def close(self, number: int) -> LandingRequest:
        self.asked.append(("close", number))
        if self.requests[-1].state == "open":
            self.requests[-1] = replace(self.requests[-1], state="closed" if not self.merges else "merged")
        return self.requests[-1]

    async def checks(self, commit: str) -> list[ForgeCheck]:
        self.asked.append(("checks", commit))
        return self.said

    async def reviews(self, number: int, commit: str) -> ForgeReviews:
        self.asked.append(("reviews", number, commit))
        return self.reviewed

    async def merge(self, number: int, commit: str, message: str) -> str:
        self.asked.append(("merge", number, commit, message))
        if self.refusal:
            raise ForgeRefused(self.refusal)
        git(self.bare, "update-ref", "refs/heads/main", self.merges)
        return self.merges

    async def issue(self, number: int) -> ForgeIssue:
        raise NotImplementedError

    def at(self, name: str) -> str:
        return git(self.bare, "rev-parse", name)


@pytest.fixture
def asked(tmp_path: Path) -> RequestedBranch:
    mine = make(tmp_path / "mine")
    place = tmp_path / "there.git"
    git(tmp_path, "clone", "-q", "--bare", mine.top, str(place))
    mine.git("remote", "add", "origin", str(place))
    user = UserRepository.at(mine.top)
    assert user is not None
    store = Store.make(str(tmp_path / "store"), lenders=user.object_places())
    return RequestedBranch(RemoteBranch(Remote(user, "origin"), "main", store), Desk(place), "0123456789")


def desk(asked: RequestedBranch) -> Desk:
    assert isinstance(asked.forge, Desk)
    return asked.forge


def change(asked: RequestedBranch, word: str) -> tuple[str, str]:
    """The branch's tip, and a commit of ours on top of it."""
    tip, store = asked.there.tip(), asked.there.store
    files = {**store.borrow_tree(tip)[1], word: TreeEntry(mode="100644", blob=store.put("blob", b"x\n"))}
    who = branch_merges.fixed_identity(store, [tip])
    made = store.commit(store.put_files(files), [tip], f"Land {word}\n\nOrder: {word}\n", who=who)
    store.set_ref(f"refs/train/{made}", made)
    return tip, made


def protect(asked: RequestedBranch) -> None:
    hook = desk(asked).bare / "hooks" / "update"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text('#!/bin/sh\ntest "$1" != refs/heads/main\n')
    hook.chmod(0o755)


def test_a_request_is_opened_once_and_says_what_it_is(asked: RequestedBranch) -> None:
    hub, (tip, one) = desk(asked), change(asked, "one")
    for _ in range(2):
        with pytest.raises(NotYet, match="u/7 waits for its checks") as raised:
            asked.move(tip, one)
        assert raised.value.seconds == POLL_SECONDS
    (request,) = hub.requests
    assert [each for each in hub.asked if each[0] in ("open", "update")] == [("open", asked.beside, "main")]
    assert hub.asked[0] == ("find", asked.beside, "main") and ("reviews", 7, one) in hub.asked
    assert request.title == "Land one" and request.body.startswith("Order: one\n\n```\none | 1 +")
    assert request.body.endswith(f"```\n\n{asked.about}\n") and hub.at(asked.beside) == one
    hub.requests[0] = replace(request, body=request.body.replace("\n", "\r\n"))
    with pytest.raises(NotYet):
        asked.move(tip, one)
    assert ("update", 7) not in hub.asked, "a forge may change the ends of lines"
    _, two = change(asked, "two")
    with pytest.raises(NotYet):
        asked.move(tip, two)
    assert hub.requests[0].title == "Land two" and ("update", 7) in hub.asked and hub.at(asked.beside) == two
    assert hub.at("main") == tip


def test_it_lands_when_its_checks_are_green_or_there_are_none(
    asked: RequestedBranch, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub, (tip, one) = desk(asked), change(asked, "one")
    green, pending = ForgeCheck(name="a", state="green"), ForgeCheck(name="b", state="pending")
    hub.said = [green, pending]
    with pytest.raises(NotYet):
        asked.move(tip, one)
    hub.said = [green]
    assert asked.move(tip, one) == [] and hub.at("main") == one and asked.tip() == one
    assert git(hub.bare, "branch", "--list", "treadle/*") == "" and not [each for each in hub.asked if "merge" in each]
    with pytest.raises(BranchMoved, match=f"main is no longer at {tip[:12]}"):
        asked.move(tip, one)
    hub.said = []
    monkeypatch.setattr(branch, "BEGIN_SECONDS", -1.0)
    tip, two = change(asked, "two")
    assert asked.move(tip, two) == [] and hub.at("main") == two


def test_what_is_red_is_told_with_names_and_words(asked: RequestedBranch) -> None:
    hub, (tip, one) = desk(asked), change(asked, "one")
    hub.said = [
        ForgeCheck(name="ok", state="green"),
        ForgeCheck(name="lint", state="red", url="u/lint"),
        ForgeCheck(name="test", state="red", text="2 failed"),
    ]
    with pytest.raises(ForgeRed, match="^lint, test failed in u/7$") as raised:
        asked.move(tip, one)
    assert raised.value.output == "lint: failed u/lint\ntest: 2 failed"
    comments = (
        ForgeComment(by="ann", text="no", path="a.txt", line=3),
        ForgeComment(by="ann", text="why", path="b.txt"),
        ForgeComment(by="bob", text="hm"),
    )
    hub.reviewed = ForgeReviews(refused_by=("ann", "bob"), comments=comments)
    with pytest.raises(ForgeRed, match="^ann, bob asked for changes in u/7$") as raised:
        asked.move(tip, one)
    assert raised.value.output == "ann: a.txt:3: no\nann: b.txt: why\nbob: hm" and hub.at("main") == tip


def test_a_protected_branch_is_merged_by_the_forge_and_looked_at(asked: RequestedBranch) -> None:
    hub, (tip, one) = desk(asked), change(asked, "one")
    protect(asked)
    hub.said, hub.refusal = [ForgeCheck(name="a", state="green")], "a review is missing"
    with pytest.raises(NotYet, match="u/7: a review is missing") as raised:
        asked.move(tip, one)
    assert raised.value.seconds == POLL_SECONDS and hub.at("main") == tip
    hub.refusal, hub.merges = "", git(hub.bare, "commit-tree", "-m", "merged", "-p", tip, f"{one}^{{tree}}")
    assert not asked.contains(one)
    assert asked.move(tip, one) == [] and hub.at("main") == hub.merges == asked.tip()
    assert hub.asked[-1][:3] == ("merge", 7, one) and "Order: one" in hub.asked[-1][3]
    assert asked.contains(one), "one commit of the same tree"
    assert not asked.contains("1" * 40) and asked.contains(tip)
    store = asked.there.store
    later = store.commit(
        store.tree_of(one), [one], "on what only the store has", who=branch_merges.fixed_identity(store, [one])
    )
    store.set_ref(f"refs/train/{later}", later)
    assert not asked.contains(later)
    hub.requests.clear()
    tip, two = change(asked, "two")
    hub.merges = git(hub.bare, "commit-tree", "-m", "with another's", "-p", tip, f"{tip}^{{tree}}")
    told = f"the forge merged {two[:12]} as {hub.merges[:12]} on top of what another pushed"
    with pytest.raises(WorkspaceError, match=told):
        asked.move(tip, two)
    assert not asked.contains(two)


def test_a_request_is_given_up_unless_it_was_merged(asked: RequestedBranch) -> None:
    hub, (tip, one) = desk(asked), change(asked, "one")
    assert asked.give_up(one), "there is none"
    with pytest.raises(NotYet):
        asked.move(tip, one)
    assert asked.give_up("1" * 40) and ("close", 7) not in hub.asked, "that of another commit is left open"
    hub.merges = tip
    assert not asked.give_up(one) and hub.asked[-1] == ("close", 7)
    hub.requests[0], hub.merges = replace(hub.requests[0], state="open"), ""
    assert asked.give_up(one) and hub.requests[0].state == "closed"
