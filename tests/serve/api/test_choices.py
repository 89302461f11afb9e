"""What can be chosen for a new order."""

import os
from pathlib import Path

import pytest

from tests.fleet.conftest import Start, give, spec, until_offers
from tests.fleet.repositories import git
from tests.serve.conftest import Web, calls_of
from treadle.fleet import client
from treadle.fleet.engine.bus import Bus
from treadle.serve.api import orders
from treadle.serve.api.orders import RepositoryChoices, repository_at
from treadle.settings import trust


async def test_agents_are_those_of_the_nodes_and_places_those_of_earlier_orders(
    web: Web, bus: Bus, start_node: Start
) -> None:
    await start_node("n1", labels=("gpu",))
    await start_node("n2", agents=("null",))
    await until_offers(bus, "n1")
    await until_offers(bus, "n2")
    for root in ("/src/shop", "/src/loom"):
        (name,) = await give(bus, spec(root=root, project="cloth"))
        await client.wait(bus, name, 60)
    found = await web.get("/choices")
    agents = {each["name"]: each["nodes"] for each in found["agents"]}
    assert agents["native"] == ["n1"] and agents["null"] == ["n2"]
    assert len({model for each in found["agents"] for model in each["models"]}) == sum(
        len(each["models"]) for each in found["agents"]
    )
    assert set(found["places"]) == {"/src/shop", "/src/loom"}
    assert found["projects"] == ["cloth"] and found["labels"] == ["gpu"]


async def test_a_repository_has_branches_and_what_its_file_says_once_it_is_trusted(web: Web, repository: Path) -> None:
    git(repository, "branch", "later")
    (repository / ".treadle").mkdir()
    (repository / ".treadle" / "fleet.toml").write_text(
        '[project]\nagent = "claude"\nverify = "make test"\n[templates.fix]\nattempts = 2\n'
    )
    inside = repository / "sub"
    inside.mkdir()
    found = await web.get("/repository", params={"root": str(inside)})
    assert found["top"] == str(repository) and found["branches"] == ["main", "later"] and found["head"] == "main"
    assert found["project"] == {} and found["templates"] == {} and "not trusted" in found["ignored"][0]
    trust.trust(str(repository))
    found = await web.get("/repository", params={"root": str(repository)})
    assert found["project"] == {"agent": "claude", "verify": "make test"} and found["ignored"] == []
    assert found["templates"] == {"fix": {"agent": "claude", "verify": "make test", "attempts": 2}}


async def test_what_is_no_repository_here_has_nothing_to_choose(web: Web, tmp_path: Path) -> None:
    for root in (str(tmp_path), "/not/there", "git@example.com:loom.git"):
        assert (await web.get("/repository", params={"root": root}))["top"] == ""


async def test_a_device_that_only_watches_is_not_shown_repositories(web: Web, repository: Path) -> None:
    answer = await web.http.get("/api/v1/repository", params={"root": str(repository)}, headers=web.headers("watch"))
    assert answer.status_code == 403


def test_the_branch_that_is_checked_out_comes_first_and_a_bare_repository_has_no_file(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("zeta", "alpha"):
        git(repository, "branch", name)
    git(repository, "checkout", "-q", "zeta")
    monkeypatch.setenv("HOME", str(repository.parent))
    found = repository_at(f"~/{repository.name}")
    assert (found.head, found.branches, found.top) == ("zeta", ("zeta", "alpha", "main"), str(repository))
    git(repository, "checkout", "-q", "--detach")
    assert repository_at(str(repository)).head == ""
    monkeypatch.setattr(orders, "SHOWN", 2)
    assert len(repository_at(str(repository)).branches) == 2
    bare = tmp_path / "bare.git"
    git(tmp_path, "clone", "-q", "--bare", str(repository), str(bare))
    found = repository_at(str(bare))
    assert found.branches and (found.project, found.templates, found.ignored) == ({}, {}, ())
    (tmp_path / "file").write_text("")
    for nothing in (str(tmp_path / "file"), str(tmp_path / "none"), os.sep):
        assert repository_at(nothing) == RepositoryChoices()


def test_who_may_do_what() -> None:
    assert calls_of(orders) == [
        "GET /choices watch",
        "GET /repository all",
    ]
