"""Which forge is meant by what a person writes, and that no token is sent where others could read it."""

import pytest

from treadle.errors import ConfigError
from treadle.landing.forge.choosing import forge_of
from treadle.landing.forge.forgejo import Forgejo
from treadle.landing.forge.github import GitHub
from treadle.landing.forge.gitlab import GitLab


def chosen(written: str, address: str = "git@github.com:loom/shop.git", token: str = "") -> tuple[str, str]:
    forge = forge_of(written, token, address)
    assert isinstance(forge, GitHub | GitLab | Forgejo)
    return forge.api.place, forge.api.token


def test_the_repository_is_that_of_the_remote_unless_it_is_given() -> None:
    public = "https://api.github.com/repos"
    assert chosen("github") == (f"{public}/loom/shop", "GITHUB_TOKEN")
    assert chosen("github", "https://github.com/loom/shop.git/") == (f"{public}/loom/shop", "GITHUB_TOKEN")
    assert chosen("github:other/one", "/srv/shop.git", "MINE") == (f"{public}/other/one", "MINE")


def test_gitlab_and_forgejo_have_their_own_paths_and_tokens() -> None:
    lab = "https://gitlab.com/api/v4/projects"
    assert chosen("gitlab", "git@gitlab.com:loom/web/shop.git") == (f"{lab}/loom%2Fweb%2Fshop", "GITLAB_TOKEN")
    assert chosen("gitlab:a/b", "/srv/shop.git")[0] == f"{lab}/a%2Fb"
    own = "https://git.example/api/v1/repos/loom/shop"
    assert chosen("forgejo", "ssh://git@git.example:2222/loom/shop.git") == (own, "FORGEJO_TOKEN")


def test_a_forge_of_ones_own_is_asked_at_its_own_address() -> None:
    assert chosen("github", "ssh://git@git.example:22/loom/shop")[0] == "https://git.example/api/v3/repos/loom/shop"
    assert chosen("github:a/b@https://forge.example/api/")[0] == "https://forge.example/api/repos/a/b"
    assert chosen("forgejo:a/b@http://127.0.0.1:9/api/v1")[0] == "http://127.0.0.1:9/api/v1/repos/a/b"


@pytest.mark.parametrize(
    ("written", "address", "says"),
    [
        ("sourcehut:a/b", "x", "there is no forge 'sourcehut'"),
        ("github", "/srv/shop.git", "names no OWNER/NAME"),
        ("github:only-a-name", "x", "is not OWNER/NAME"),
        ("github:a/b@http://forge.example", "x", "a token would be sent for all to read"),
    ],
)
def test_what_cannot_be_meant_is_refused_with_the_reason(written: str, address: str, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        forge_of(written, "", address)
