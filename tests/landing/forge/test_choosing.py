"""Which forge is meant by what a person writes, and that no token is sent where others could read it."""

import pytest

from treadle.errors import ConfigError
from treadle.landing.forge.choosing import forge_of
from treadle.landing.forge.github import GitHub


def chosen(written: str, address: str = "git@github.com:loom/shop.git", token: str = "") -> tuple[str, str, str]:
    forge = forge_of(written, token, address)
    assert isinstance(forge, GitHub)
    return forge.api, forge.repository, forge.token


def test_the_repository_is_that_of_the_remote_unless_it_is_given() -> None:
    public = "https://api.github.com"
    assert chosen("github") == (public, "loom/shop", "GITHUB_TOKEN")
    assert chosen("github", "https://github.com/loom/shop.git/") == (public, "loom/shop", "GITHUB_TOKEN")
    assert chosen("github:other/one", "/srv/shop.git", "MINE") == (public, "other/one", "MINE")


def test_a_forge_of_ones_own_is_asked_at_its_own_address() -> None:
    assert chosen("github", "ssh://git@git.example:22/loom/shop")[:2] == ("https://git.example/api/v3", "loom/shop")
    assert chosen("github:a/b@https://forge.example/api/")[:2] == ("https://forge.example/api", "a/b")
    assert chosen("github:a/b@http://127.0.0.1:9/api")[0] == "http://127.0.0.1:9/api"


@pytest.mark.parametrize(
    ("written", "address", "says"),
    [
        ("gitea:a/b", "x", "there is no forge 'gitea'"),
        ("github", "/srv/shop.git", "names no OWNER/NAME"),
        ("github:only-a-name", "x", "is not OWNER/NAME"),
        ("github:a/b@http://forge.example", "x", "a token would be sent for all to read"),
    ],
)
def test_what_cannot_be_meant_is_refused_with_the_reason(written: str, address: str, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        forge_of(written, "", address)
