"""What landing asks of GitHub, against a small server of ours; what it takes for green and red is its own."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.landing.forge.asked import WrittenAnswers, ask_everything, repositories
from tests.landing.forge.github_server import GitHubServer
from treadle.errors import ConfigError
from treadle.landing.forge.github import GitHub
from treadle.landing.forge.interface import (
    ForgeCheck,
    ForgeComment,
    ForgeIssue,
    ForgeRefused,
    ForgeReviews,
    LandingRequest,
)


def test_requests_checks_reviews_and_merges_are_asked_and_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bare, head = repositories(tmp_path)
    monkeypatch.setenv("GITHUB_TOKEN", "sesame")
    with GitHubServer(bare) as hub:
        asyncio.run(ask_everything(GitHub(hub.api, "shop/web"), hub, head))
        assert hub.tokens == {"Bearer sesame"}


STATES = {
    ("completed", "success"): "green",
    ("completed", "neutral"): "green",
    ("completed", "skipped"): "green",
    ("completed", "failure"): "red",
    ("completed", "cancelled"): "red",
    ("completed", "timed_out"): "red",
    ("completed", "action_required"): "red",
    ("completed", None): "red",
    ("in_progress", None): "pending",
    ("queued", "success"): "pending",
}


def test_only_a_check_that_has_ended_well_is_green(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bare, head = repositories(tmp_path)
    monkeypatch.setenv("GITHUB_TOKEN", "sesame")
    with GitHubServer(bare) as hub:
        for number, (status, conclusion) in enumerate(STATES):
            hub.runs.append({"name": str(number), "status": status, "conclusion": conclusion, "head_sha": head})
        found = asyncio.run(GitHub(hub.api, "shop/web").checks(head))
    assert [check.state for check in found] == list(STATES.values())


def pull(number: int, **fields: Any) -> dict[str, Any]:
    shown = {"number": number, "html_url": f"http://x/{number}", "state": "open", "title": "t", "body": None}
    return {**shown, "head": {"ref": "side", "sha": "aa"}, **fields}


def review(state: str, by: str | None, *, body: str = "", commit: str = "c1") -> dict[str, Any]:
    user = {"login": by} if by is not None else None
    return {"state": state, "body": body, "user": user, "commit_id": commit}


PART = "/repos/shop/web"


def test_what_it_answers_is_read_as_it_is_meant(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GITHUB_TOKEN", "sesame")
    run = {"name": "ci", "status": "completed", "conclusion": "success", "html_url": "http://run"}
    remark = {"body": "round", "path": "a.txt", "line": 3, "user": {"login": "ann"}}
    answers = {
        f"GET {PART}/pulls": [pull(1, head={"ref": "other", "sha": "bb"}), pull(2)],
        f"GET {PART}/pulls/3": pull(3, state="closed", merge_commit_sha="mm", body="b"),
        f"GET {PART}/pulls/4": pull(4, state="closed", merged=True, merge_commit_sha="mm"),
        f"GET {PART}/pulls/5": pull(5, state="closed", merged_at="2026-01-01T00:00:00Z"),
        f"GET {PART}/commits/c1/check-runs": {
            "check_runs": [
                {**run, "output": {"title": "T", "summary": "s" * 2000}},
                {"name": "bare", "status": "queued"},
            ]
        },
        f"GET {PART}/commits/c1/status": {
            "statuses": [
                {"context": "a", "state": "success", "target_url": "http://a", "description": "fine"},
                {"context": "b", "state": "pending"},
                {"context": "c", "state": "error"},
            ]
        },
        f"GET {PART}/pulls/2/reviews": [
            review("CHANGES_REQUESTED", "ann", body="no"),
            review("APPROVED", "ann", body=" "),
            review("CHANGES_REQUESTED", "bob"),
            review("COMMENTED", "bob", body="so so"),
            review("CHANGES_REQUESTED", "cid"),
            review("DISMISSED", "cid"),
            review("CHANGES_REQUESTED", None),
            review("CHANGES_REQUESTED", "eve", body="earlier", commit="c0"),
        ],
        f"GET {PART}/pulls/2/comments": [{**remark, "commit_id": "c1"}, {**remark, "commit_id": "c0"}],
        f"PUT {PART}/pulls/2/merge": {"sha": "mm", "merged": False, "message": "try again"},
        f"GET {PART}/issues/7": {"number": 7, "title": "Cents", "body": None},
    }

    async def ask(forge: GitHub) -> None:
        assert await forge.find("side", "main") == LandingRequest(
            number=2, url="http://x/2", head="aa", state="open", title="t"
        )
        closed, merged, both = [await forge.look(number) for number in (3, 4, 5)]
        assert (closed.state, closed.merged_as, closed.body) == ("closed", "", "b")
        assert (merged.state, merged.merged_as) == ("merged", "mm") and (both.state, both.merged_as) == ("merged", "")
        assert await forge.checks("c1") == [
            ForgeCheck(name="ci", state="green", url="http://run", text=f"T {'s' * 998}"),
            ForgeCheck(name="bare", state="pending"),
            ForgeCheck(name="a", state="green", url="http://a", text="fine"),
            ForgeCheck(name="b", state="pending"),
            ForgeCheck(name="c", state="red"),
        ]
        comments = ForgeComment(by="ann", text="no"), ForgeComment(by="bob", text="so so")
        on_line = ForgeComment(by="ann", text="round", path="a.txt", line=3)
        assert await forge.reviews(2, "c1") == ForgeReviews(
            refused_by=("bob", "a deleted account"), comments=(*comments, on_line)
        )
        with pytest.raises(ForgeRefused, match="the forge did not merge: try again"):
            await forge.merge(2, "c1", "Land one\n\nOrder: one\n")
        assert await forge.issue(7) == ForgeIssue(number=7, title="Cents", by="a deleted account")

    with WrittenAnswers(tmp_path, answers) as hub:
        asyncio.run(ask(GitHub(f"{hub.api}/", "shop/web")))
    given = {"sha": "c1", "merge_method": "merge", "commit_title": "Land one", "commit_message": "Order: one"}
    assert hub.exchanges[-2].body == given
    query = {"state": ["open"], "head": ["shop:side"], "base": ["main"], "per_page": ["100"]}
    assert hub.exchanges[0].query == query


@pytest.mark.parametrize("name", ["web", "shop/web/site", "shop/", "/web", "shop/we b", "../x/y"])
def test_a_repository_has_an_owner_and_a_name(name: str) -> None:
    with pytest.raises(ConfigError, match="is not OWNER/NAME of a repository"):
        GitHub("https://forge.example", name)
