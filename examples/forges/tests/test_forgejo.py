"""What landing asks of Forgejo, against a small server of ours. `tests/live/test_forge.py` holds both against the types
that are published for Gitea."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from tests.landing.forge.asked import WrittenAnswers, ask_everything, repositories
from tests.landing.forge.forgejo_server import ForgejoServer
from treadle_forges.forgejo import PAGE, Forgejo

from treadle.landing.forge.interface import ForgeCheck, ForgeComment, ForgeRefused, ForgeReviews


def test_requests_checks_reviews_and_merges_are_asked_and_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bare, head = repositories(tmp_path)
    monkeypatch.setenv("FORGEJO_TOKEN", "sesame")
    with ForgejoServer(bare) as hub:
        asyncio.run(ask_everything(Forgejo(hub.api, "shop/web"), hub, head))
        assert hub.tokens == {"token sesame"}


def test_what_comes_in_pages_is_read_to_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bare, head = repositories(tmp_path)
    monkeypatch.setenv("FORGEJO_TOKEN", "sesame")

    class Paged(ForgejoServer):
        def answer(self, method: str, path: str, query: dict[str, list[str]], body: object) -> tuple[int, object]:
            status, found = super().answer(method, path, query, body)
            first = (int(query["page"][0]) - 1) * PAGE
            return status, {**found, "statuses": found["statuses"][first : first + PAGE]}

    with Paged(bare) as hub:
        hub.pulls.append({"sha": head})
        for _ in range(PAGE):
            hub.ends(hub.pulls[0], "success")
        hub.ends(hub.pulls[0], "failure")
        states = [each.state for each in asyncio.run(Forgejo(hub.api, "shop/web").checks(head))]
    assert states == ["green"] * PAGE + ["red"]


PART = "/repos/shop/web"


def pull(number: int, head: str = "side", base: str = "main", **fields: Any) -> dict[str, Any]:
    branches = {"head": {"ref": head, "sha": "aa"}, "base": {"ref": base, "sha": "bb"}}
    return {"number": number, "state": "open", "title": "t", **branches, **fields}


def review(number: int, state: str, by: str, **fields: Any) -> dict[str, Any]:
    return {"id": number, "state": state, "user": {"login": by}, "commit_id": "c1", **fields}


class Closing(WrittenAnswers):
    """One that refuses to close what is closed or merged, and also what it should close."""

    def answer(self, method: str, path: str, query: dict[str, list[str]], body: Any) -> tuple[int, Any]:
        return (409, {"message": "no"}) if method == "PATCH" else super().answer(method, path, query, body)


def test_what_it_answers_is_read_as_it_is_meant(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORGEJO_TOKEN", "sesame")
    states = ("success", "skipped", "pending", "", "failure", "error", "warning")
    first = {"context": "0", "target_url": "http://a", "description": "fine"}
    answers = {
        f"GET {PART}/pulls": [pull(1, head="main", base="side"), pull(2, base="next"), pull(3), pull(4)],
        f"GET {PART}/commits/c1/status": {
            "statuses": [{"context": str(number), "status": state} for number, state in enumerate(states)]
        },
        f"GET {PART}/commits/c2/status": {"statuses": [{"status": "success", **first}]},
        f"GET {PART}/commits/c3/status": {"statuses": None},
        f"GET {PART}/pulls/3/reviews": [
            review(1, "REQUEST_CHANGES", "ann", body="no"),
            review(2, "APPROVED", "ann", body=" "),
            review(3, "REQUEST_CHANGES", "bob", comments_count=2),
            review(4, "COMMENT", "bob", body="so so"),
            review(5, "REQUEST_CHANGES", "cid", dismissed=True),
            review(6, "REQUEST_CHANGES", "eve", commit_id="c0", body="earlier", comments_count=1),
        ],
        f"GET {PART}/pulls/3/reviews/3/comments": [
            {"body": "round", "path": "a.txt", "position": 3, "user": {"login": "bob"}},
            {"body": "whole", "path": "b.txt", "position": 0},
        ],
        f"POST {PART}/pulls/3/merge": None,
        f"GET {PART}/pulls/3": pull(3),
        f"POST {PART}/pulls/5/merge": None,
        f"GET {PART}/pulls/5": pull(5, state="closed", merged=True),
        f"POST {PART}/pulls/6/merge": None,
        f"GET {PART}/pulls/6": pull(6, state="closed", merged=True, merge_commit_sha="mm"),
    }

    async def ask(forge: Forgejo) -> None:
        found = await forge.find("side", "main")
        assert found is not None and found.number == 3 and await forge.find("main", "next") is None
        expected = ["green", "green", "pending", "pending", "red", "red", "red"]
        assert [each.state for each in await forge.checks("c1")] == expected
        assert await forge.checks("c2") == [ForgeCheck(name="0", state="green", url="http://a", text="fine")]
        assert await forge.checks("c3") == []
        assert await forge.reviews(3, "c1") == ForgeReviews(
            refused_by=("bob",),
            comments=(
                ForgeComment(by="ann", text="no"),
                ForgeComment(by="bob", text="round", path="a.txt", line=3),
                ForgeComment(by="a deleted account", text="whole", path="b.txt"),
                ForgeComment(by="bob", text="so so"),
            ),
        )
        for number in (3, 5):
            with pytest.raises(ForgeRefused, match="the forge did not merge yet"):
                await forge.merge(number, "c1", "Land one")
        assert await forge.merge(6, "c1", "Land one\n\nOrder: one\n") == "mm"
        with pytest.raises(ForgeRefused, match="answers 409"):
            await forge.close(3)
        assert (await forge.close(6)).state == "merged"

    with Closing(tmp_path, answers) as hub:
        asyncio.run(ask(Forgejo(hub.api, "shop/web")))
    merge = {"Do": "merge", "head_commit_id": "c1", "MergeTitleField": "Land one", "MergeMessageField": "Order: one"}
    assert [each.body for each in hub.exchanges if each.path.endswith("/6/merge")] == [merge]
