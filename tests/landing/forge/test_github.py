"""What landing asks of GitHub, against a small server of ours; what it takes for green and red is its own."""

import asyncio
from pathlib import Path

import pytest

from tests.landing.forge.asked import ask_everything, repositories
from tests.landing.forge.github_server import GitHubServer
from treadle.landing.forge.github import GitHub


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
