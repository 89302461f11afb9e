"""What landing asks of GitLab, against a small server of ours. `tests/live/test_forge.py` holds both against the client
that is published for GitLab."""

import asyncio
from pathlib import Path

import pytest

from tests.landing.forge.asked import ask_everything, repositories
from tests.landing.forge.gitlab_server import GitLabServer
from treadle.errors import ConfigError
from treadle.landing.forge.gitlab import GitLab, _JobStatus, _state


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
