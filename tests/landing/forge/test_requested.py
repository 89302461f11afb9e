"""A protected branch is landed on by pull requests: opened with all that is known, checked there, merged there."""

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from tests.fleet.conftest import Start, give
from tests.fleet.conftest import bus as bus
from tests.fleet.conftest import fleet as fleet
from tests.fleet.conftest import nothing_left as nothing_left
from tests.fleet.conftest import repository as repository
from tests.fleet.conftest import start_node as start_node
from tests.fleet.repositories import git, model, read, says, work, write
from tests.landing.forge.forgejo_server import ForgejoServer
from tests.landing.forge.github_server import GitHubServer
from tests.landing.forge.gitlab_server import GitLabServer
from tests.landing.forge.server import ForgeServer
from tests.landing.test_branch import bare as bare
from tests.landing.test_branch import looks_at_once as looks_at_once
from tests.landing.test_merging import Finished
from tests.landing.test_merging import finished as finished
from tests.landing.test_train import proof
from tests.landing.trains import empty
from treadle.errors import ConfigError
from treadle.fleet import client
from treadle.fleet.engine.bus import Bus
from treadle.landing import train
from treadle.landing.forge import requested
from treadle.landing.forge.github import GitHub
from treadle.landing.train import Train
from treadle.wire.fleet.train import TrainRecord


@pytest.fixture
def hub(bare: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[GitHubServer]:
    monkeypatch.setattr(requested, "POLL_SECONDS", 0.05)
    monkeypatch.setattr(requested, "BEGIN_SECONDS", 0.0)
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


async def test_a_pull_request_says_what_it_is_waits_for_its_checks_and_is_merged_by_the_forge(
    bus: Bus, finished: Finished, repository: Path, bare: Path, hub: GitHubServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(requested, "BEGIN_SECONDS", 600.0)  # until a check is there
    one = await finished.order("one", {"new.txt": "x\n"}, project="checkout", agent="codex")
    task = await begun(bus, repository, hub, one)
    await until(task, lambda: hub.pulls and hub.pulls[0].get("sha"))
    (pull,) = hub.pulls
    assert pull["title"] == "Land one: one" and "Order: one" in pull["body"] and "Agent: codex" in pull["body"]
    assert "Goal: checkout" in pull["body"] and "new.txt | 1 +" in pull["body"] and "Verified-Tree: " in pull["body"]
    hub.runs.append(run_of(pull, None))
    asked = len(hub.asked)
    await until(task, lambda: len(hub.asked) > asked + 10)
    assert git(bare, "rev-parse", "main") == finished.base, "its checks have not ended"
    hub.runs[0] = run_of(pull, "success")
    record = await task
    found = await proof(bus, one)
    assert record.landed == 1 and found is not None and git(bare, "show", "main:new.txt") == "x"
    assert git(bare, "rev-parse", "main^{tree}") == found.tree, "what the forge merged is what was checked"
    assert hub.tokens == {"Bearer sesame"} and len(hub.pulls) == 1 and hub.pulls[0]["merged"]
    assert git(bare, "branch", "--list", "treadle/*") == "", "the branch beside it is gone"
    assert b"sesame" not in b"".join([entry.value for entry in (await bus.named([">"])).values()])


async def test_a_red_check_or_a_reviewer_closes_the_request_and_the_words_are_kept(
    bus: Bus, finished: Finished, repository: Path, bare: Path, hub: GitHubServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(requested, "BEGIN_SECONDS", 600.0)
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


@pytest.mark.parametrize("kind", [GitLabServer, ForgejoServer])
async def test_other_forges_say_no_and_yes_in_the_same_way(
    bus: Bus, finished: Finished, repository: Path, bare: Path, kind: type[ForgeServer], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(requested, "POLL_SECONDS", 0.05)
    monkeypatch.setattr(requested, "BEGIN_SECONDS", 600.0)
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


async def test_where_the_forge_allows_it_the_branch_moves_by_a_push_with_a_lease(
    bus: Bus, finished: Finished, repository: Path, bare: Path, hub: GitHubServer
) -> None:
    (bare / "hooks/pre-receive").unlink()
    one = await finished.order("one", {"new.txt": "x\n"})
    record = await (await begun(bus, repository, hub, one))
    found = await proof(bus, one)
    assert record.landed == 1 and found is not None and git(bare, "rev-parse", "main") == found.commit
    assert "PUT /repos/shop/web/pulls/1/merge" not in hub.asked


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


async def test_a_red_check_of_the_forge_goes_to_its_author_with_what_was_said_there_and_lands_when_it_is_fixed(
    bus: Bus,
    start_node: Start,
    repository: Path,
    bare: Path,
    hub: GitHubServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(requested, "BEGIN_SECONDS", 600.0)
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
