"""Which forge is meant by what a person writes, and that no token is sent where others could read it."""

from pathlib import Path
from typing import Any

import pytest

from tests.distributions import forges as forges
from tests.workspace.repositories import make
from treadle.errors import ConfigError, NotFound
from treadle.landing.forge.branch import OwnBranch, PushedBranch, RequestedBranch, branch_of
from treadle.landing.forge.github import PullRequests
from treadle.landing.forge.kinds import forge_of
from treadle.workspace.store import Store
from treadle.workspace.user_repository import UserRepository


def chosen(written: str, address: str = "git@github.com:loom/shop.git", token: str = "") -> tuple[str, str]:
    forge: Any = forge_of(written, token, address)
    return forge.api.place, forge.api.token


def test_the_repository_is_that_of_the_remote_unless_it_is_given() -> None:
    public = "https://api.github.com/repos"
    assert chosen("github") == (f"{public}/loom/shop", "GITHUB_TOKEN")
    assert chosen("github", "https://github.com/loom/shop.git/") == (f"{public}/loom/shop", "GITHUB_TOKEN")
    assert chosen("github:other/one", "/srv/shop.git", "MINE") == (f"{public}/other/one", "MINE")


@pytest.mark.usefixtures("forges")
def test_gitlab_and_forgejo_have_their_own_paths_and_tokens() -> None:
    lab = "https://gitlab.com/api/v4/projects"
    assert chosen("gitlab", "git@gitlab.com:loom/web/shop.git") == (f"{lab}/loom%2Fweb%2Fshop", "GITLAB_TOKEN")
    assert chosen("gitlab:a/b", "/srv/shop.git")[0] == f"{lab}/a%2Fb"
    own = "https://git.example/api/v1/repos/loom/shop"
    assert chosen("forgejo", "ssh://git@git.example:2222/loom/shop.git") == (own, "FORGEJO_TOKEN")


@pytest.mark.usefixtures("forges")
def test_a_forge_of_ones_own_is_asked_at_its_own_address() -> None:
    assert chosen("github", "ssh://git@git.example:22/loom/shop")[0] == "https://git.example/api/v3/repos/loom/shop"
    assert chosen("github:a/b@https://forge.example/api/")[0] == "https://forge.example/api/repos/a/b"
    assert chosen("forgejo:a/b@http://127.0.0.1:9/api/v1")[0] == "http://127.0.0.1:9/api/v1/repos/a/b"


@pytest.mark.parametrize(
    ("written", "address", "says"),
    [
        ("sourcehut:a/b", "x", "there is no forge 'sourcehut'"),
        ("github", "/srv/shop.git", "has no OWNER/NAME"),
        ("github:only-a-name", "x", "is not OWNER/NAME"),
        ("github:a/b@http://forge.example", "x", "a token would be sent in plain text"),
    ],
)
def test_what_cannot_be_meant_is_refused_with_the_reason(written: str, address: str, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        forge_of(written, "", address)


def test_a_branch_is_the_repositorys_own_or_a_remotes_or_a_forges(tmp_path: Path) -> None:
    repository = make(tmp_path / "r")
    repository.git("remote", "add", "origin", "git@git.example:loom/shop.git")
    user, store = UserRepository.at(repository.top), Store.make(str(tmp_path / "store"))
    assert user is not None
    own = branch_of(user, "main", store, "0123456789")
    assert isinstance(own, OwnBranch) and (own.ref, own.why) == ("refs/heads/main", "treadle: train 0123456789")
    assert (own.user, own.store) == (user, store)
    with pytest.raises(ConfigError, match="main is a branch of the repository itself"):
        branch_of(user, "main", store, "t", forge="github")
    pushed = branch_of(user, "origin:rel/1", store, "t")
    assert type(pushed) is PushedBranch and pushed.there.there == "refs/heads/rel/1" and pushed.there.store is store
    asked = branch_of(user, "origin:main", store, "0123456789", forge="github", token="MINE")
    assert isinstance(asked, RequestedBranch) and asked.beside == "treadle/land-main-01234567"
    assert isinstance(asked.forge, PullRequests) and asked.forge.api.token == "MINE"
    assert asked.forge.api.place == "https://git.example/api/v3/repos/loom/shop"
    with pytest.raises(NotFound, match="no remote 'up'"):
        branch_of(user, "up:main", store, "t")
