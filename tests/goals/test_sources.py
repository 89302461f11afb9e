"""Words for a goal from an issue and from a directory of tasks."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from click.testing import CliRunner
from msgspec.structs import replace

from tests.distributions import forges as forges
from tests.fleet.repositories import git
from tests.landing.forge.github_server import GitHubServer
from treadle.cli.root import treadle
from treadle.errors import ConfigError
from treadle.goals import planner
from treadle.landing.forge import kinds
from treadle.landing.forge.interface import ForgeIssue, ForgeKind, ForgeRefused
from treadle.settings import extensions


@pytest.fixture
def github(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[GitHubServer]:
    git(tmp_path, "init", "-q", "--bare", "there.git")
    monkeypatch.setenv("SHOP_TOKEN", "secret-7")
    with GitHubServer(tmp_path / "there.git") as server:
        server.issues[12] = {"title": "Export as CSV", "body": "All orders.\r\nQuoted."}
        server.issues[13] = {"title": "No words", "body": None}
        yield server


async def test_an_issue_gives_its_title_and_then_its_words(github: GitHubServer, repository: Path) -> None:
    named = f"github:shop/web@{github.api}"
    assert planner.is_issue(f"{named}#12") and planner.is_issue("github#3")
    words = await planner.issue(f"{named}#12", str(repository), "SHOP_TOKEN")
    assert words == "Export as CSV\n\nAll orders.\r\nQuoted."
    assert await planner.issue(f"{named}#13", str(repository), "SHOP_TOKEN") == "No words"
    assert github.tokens == {"Bearer secret-7"} and github.asked[0] == "GET /repos/shop/web/issues/12"
    with pytest.raises(ForgeRefused, match="404"):
        await planner.issue(f"{named}#14", str(repository), "SHOP_TOKEN")
    with pytest.raises(ConfigError, match="OWN_TOKEN"):
        await planner.issue(f"{named}#12", str(repository), "OWN_TOKEN")


class Forge:
    """One that says how it was made, and the number that it was asked for."""

    def __init__(self, *made: str) -> None:
        self.made = made

    async def issue(self, number: int) -> ForgeIssue:
        return ForgeIssue(number=number, title=" ".join(self.made), body=str(number))


ISSUES = {
    "https://gitlab.com/shop/team/web/-/issues/7": "gitlab https://gitlab.com/api/v4 shop/team/web",
    "https://forge.example/shop/web/-/work_items/7/": "gitlab https://forge.example/api/v4 shop/web",
    "https://github.com/shop/web/issues/7": "github https://api.github.com shop/web",
    "https://forge.example/shop/web/issues/7/": "github https://forge.example/api/v3 shop/web",
    "https://codeberg.org/shop/web/issues/7": "forgejo https://codeberg.org/api/v1 shop/web",
    "forgejo:shop/web#7": "forgejo https://codeberg.org/api/v1 shop/web",
    "gitlab#7": "gitlab https://own.example/api/v4 team/own",
}


@pytest.mark.usefixtures("forges")
async def test_an_address_says_which_forge_is_asked_and_a_bare_name_means_the_one_of_origin(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    git(repository, "remote", "add", "origin", "https://own.example/team/own.git")
    for name in ("github", "gitlab", "forgejo"):
        kind = kinds.KINDS.get(name) or extensions.load("forges", name, ForgeKind)
        monkeypatch.setitem(kinds.KINDS, name, replace(kind, made=partial(Forge, name)))
    for source, made in ISSUES.items():
        assert planner.is_issue(source)
        assert await planner.issue(source, str(repository), "OWN") == f"{made} OWN\n\n7"


@pytest.mark.parametrize("source", ["ISSUE.md", "issues/12", "https://github.com/shop/web/pull/12", "#12"])
def test_what_names_no_issue_is_a_file(source: str) -> None:
    assert not planner.is_issue(source)


def test_a_directory_of_tasks_gives_each_under_its_name(tmp_path: Path) -> None:
    found = planner.tasks("todo", {"b.md": "Second.\n", "a.md": "# First\n"})
    assert found == "All that the tasks in todo ask for\n\na.md:\n\n# First\n\nb.md:\n\nSecond."
    refused = CliRunner().invoke(
        treadle, ["goal", "plan", "--from", str(tmp_path), "--out", str(tmp_path / "goal.toml")]
    )
    assert isinstance(refused.exception, ConfigError) and "has no Markdown files" in str(refused.exception)
