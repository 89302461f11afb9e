"""What we ask of GitHub and how we read its answers, held against the OpenAPI document that GitHub publishes.

Nothing here talks to GitHub: a server of ours answers, and the document says whether both sides keep to it.
"""

import asyncio
import json
from pathlib import Path

import pytest

from tests.drivers.programs import CACHE, _npm
from tests.fleet.repositories import git
from tests.landing.forge.contract import Contract
from tests.landing.forge.github_server import GitHubServer
from treadle.errors import LocalError
from treadle.landing.forge.github import GitHub

DOCUMENT = "@octokit/openapi@23.0.2"


@pytest.fixture(scope="module")
def contract() -> Contract:
    _npm("github-openapi", DOCUMENT, "--ignore-scripts")
    place = Path(CACHE) / "github-openapi" / "node_modules/@octokit/openapi/generated/api.github.com.json"
    return Contract(json.loads(place.read_text()))


def test_every_request_and_answer_is_as_the_document_says(
    contract: Contract, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bare, work = tmp_path / "bare.git", tmp_path / "work"
    git(tmp_path, "init", "-q", "-b", "main", str(work))
    git(work, "commit", "-q", "--allow-empty", "-m", "first")
    git(tmp_path, "clone", "-q", "--bare", str(work), str(bare))
    git(work, "commit", "-q", "--allow-empty", "-m", "second")
    git(work, "push", "-q", str(bare), "HEAD:refs/heads/treadle/land-main")
    head = git(work, "rev-parse", "HEAD")
    monkeypatch.setenv("SHOP_TOKEN", "sesame")

    async def ask(hub: GitHubServer) -> None:
        forge = GitHub(hub.api, "shop/web", "SHOP_TOKEN")
        assert await forge.find("treadle/land-main", "main") is None
        made = await forge.open("treadle/land-main", "main", "Land one", "what it is")
        assert made.head == head and (await forge.find("treadle/land-main", "main")) is not None
        assert (await forge.update(made.number, "Land one", "more")).body == "more"
        hub.runs.append({"name": "ci", "status": "completed", "conclusion": "failure", "head_sha": head})
        assert [(each.name, each.state) for each in await forge.checks(head)] == [("ci", "red")]
        ann = {"login": "ann"}
        hub.reviews.append({"state": "CHANGES_REQUESTED", "body": "no", "user": ann, "commit_id": head})
        hub.comments.append({"body": "round", "path": "a.txt", "line": 3, "user": ann, "commit_id": head})
        found = await forge.reviews(made.number, head)
        assert found.refused_by == ("ann",) and [each.text for each in found.comments] == ["no", "round"]
        hub.needs_review = True
        with pytest.raises(LocalError, match="approving review is required"):
            await forge.merge(made.number, head, "Land one\n\nOrder: one")
        hub.needs_review = False
        with pytest.raises(LocalError, match="Head branch was modified"):
            await forge.merge(made.number, "0" * 40, "Land one")
        merged = await forge.merge(made.number, head, "Land one\n\nOrder: one")
        assert (await forge.look(made.number)).merged_as == merged
        assert (await forge.close(made.number)).state == "merged"

    with GitHubServer(bare, contract) as hub:
        asyncio.run(ask(hub))
        assert hub.wrong == []
        assert len(set(hub.asked)) >= 9


def test_a_request_or_answer_that_the_document_does_not_know_is_found(contract: Contract) -> None:
    path = "/repos/shop/web/pulls"
    assert contract.faults("POST", path, {}, {"head": "a", "bas": "b"}, 403, {"message": "no"})
    assert contract.faults("GET", path, {"branch": ["a"]}, None, 200, [])
    assert contract.faults("GET", f"{path}/1", {}, None, 200, {"number": "one"})
