"""What landing asks of GitLab, against a small server of ours. `tests/live/test_forge.py` holds both against the client
that is published for GitLab."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from tests.landing.forge.asked import WrittenAnswers, ask_everything, repositories
from tests.landing.forge.gitlab_server import GitLabServer
from treadle_forges.gitlab import GitLab, _JobStatus, _state

from treadle.errors import ConfigError
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
    monkeypatch.setenv("GITLAB_TOKEN", "sesame")
    with GitLabServer(bare) as hub:
        asyncio.run(ask_everything(GitLab(hub.api, "shop/web"), hub, head))
        assert hub.tokens == {"sesame"}


@pytest.mark.parametrize(
    ("status", "may_fail", "state"),
    [
        ("success", False, "green"),
        ("skipped", False, "green"),
        ("failed", False, "red"),
        ("failed", True, "green"),
        ("canceled", False, "red"),
        ("manual", True, "green"),
        ("canceling", True, "green"),
        ("manual", False, "pending"),
        ("running", True, "pending"),
        ("something new", False, "pending"),
    ],
)
def test_only_what_has_ended_well_or_may_fail_holds_nothing_up(status: str, may_fail: bool, state: str) -> None:
    assert _state(_JobStatus(name="ci", status=status, allow_failure=may_fail)) == state


def test_a_project_may_lie_in_groups_and_one_without_is_none() -> None:
    GitLab("https://gitlab.com/api/v4", "shop/web/site")
    with pytest.raises(ConfigError, match="is not GROUP/NAME"):
        GitLab("https://gitlab.com/api/v4", "site")


PART = "/projects/shop/web"


def merge_request(number: int, state: str = "opened", **fields: Any) -> dict[str, Any]:
    shown = {"iid": number, "web_url": f"http://x/{number}", "state": state, "title": "t", "source_branch": "side"}
    return {**shown, "sha": "aa", **fields}


class Closing(WrittenAnswers):
    """One that closes nothing."""

    def answer(self, method: str, path: str, query: dict[str, list[str]], body: Any) -> tuple[int, Any]:
        closes = method == "PUT" and not path.endswith("/merge")
        return (422, {"message": "no"}) if closes else super().answer(method, path, query, body)


def test_what_it_answers_is_read_as_it_is_meant(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GITLAB_TOKEN", "sesame")
    ann, bob = {"username": "ann"}, {"username": "bob"}
    answers = {
        f"GET {PART}/merge_requests": [merge_request(1, source_branch="other"), merge_request(2)],
        f"GET {PART}/merge_requests/2": merge_request(2, "locked", sha=None, description="d"),
        f"GET {PART}/merge_requests/3": merge_request(3, "closed", merge_commit_sha="mm"),
        f"GET {PART}/merge_requests/4": merge_request(4, "merged", merge_commit_sha="mm", squash_commit_sha="ss"),
        f"GET {PART}/merge_requests/5": merge_request(5, "merged", squash_commit_sha="ss"),
        f"GET {PART}/merge_requests/6": merge_request(6, "merged"),
        f"GET {PART}/merge_requests/7": merge_request(7, "merged", sha=None),
        f"GET {PART}/repository/commits/c1/statuses": [
            {"name": "a", "status": "success", "target_url": "http://a", "description": "fine"},
            {"name": "b", "status": "failed"},
        ],
        f"GET {PART}/merge_requests/2/reviewers": [
            {"user": ann, "state": "requested_changes"},
            {"user": bob, "state": "approved"},
        ],
        f"GET {PART}/merge_requests/2/discussions": [
            {
                "notes": [
                    {"body": "no", "author": ann},
                    {"body": "assigned", "author": ann, "system": True},
                    {"body": "settled", "author": ann, "resolved": True},
                ]
            },
            {"notes": [{"body": "round", "author": bob, "position": {"new_path": "a.txt", "new_line": 3}}]},
            {"notes": [{"body": "gone", "author": bob, "position": {"old_path": "b.txt"}}]},
        ],
        f"PUT {PART}/merge_requests/2/merge": merge_request(2),
        f"PUT {PART}/merge_requests/4/merge": merge_request(4, "merged", merge_commit_sha="mm"),
        f"PUT {PART}/merge_requests/5/merge": merge_request(5, "merged", squash_commit_sha="ss"),
        f"PUT {PART}/merge_requests/6/merge": merge_request(6, "merged"),
        f"GET {PART}/issues/7": {"iid": 7, "title": "Cents", "description": None},
    }

    async def ask(forge: GitLab) -> None:
        assert await forge.find("side", "main") == LandingRequest(
            number=2, url="http://x/2", head="aa", state="open", title="t"
        )
        found = [await forge.look(number) for number in range(2, 8)]
        assert [each.state for each in found] == ["open", "closed", "merged", "merged", "merged", "merged"]
        assert [each.merged_as for each in found] == ["", "", "mm", "ss", "aa", ""]
        assert (found[0].head, found[0].body) == ("", "d")
        assert await forge.checks("c1") == [
            ForgeCheck(name="a", state="green", url="http://a", text="fine"),
            ForgeCheck(name="b", state="red"),
        ]
        assert await forge.reviews(2, "c1") == ForgeReviews(
            refused_by=("ann",),
            comments=(
                ForgeComment(by="ann", text="no"),
                ForgeComment(by="bob", text="round", path="a.txt", line=3),
                ForgeComment(by="bob", text="gone", path="b.txt"),
            ),
        )
        with pytest.raises(ForgeRefused, match="the forge did not merge yet"):
            await forge.merge(2, "c1", "Land one")
        assert [await forge.merge(number, "c1", "Land one") for number in (4, 5, 6)] == ["mm", "ss", "c1"]
        with pytest.raises(ForgeRefused, match="answers 422"):
            await forge.close(2)
        assert (await forge.close(4)).state == "merged"
        assert await forge.issue(7) == ForgeIssue(number=7, title="Cents")

    with Closing(tmp_path, answers) as hub:
        asyncio.run(ask(GitLab(f"{hub.api}/", "shop/web")))
    given = {"sha": "c1", "merge_commit_message": "Land one", "squash": False}
    assert [each.body for each in hub.exchanges if each.path.endswith("/4/merge")] == [given]
    query = {"state": ["opened"], "source_branch": ["side"], "target_branch": ["main"], "per_page": ["100"]}
    assert hub.exchanges[0].query == query
