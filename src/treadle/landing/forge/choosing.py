"""Which kind of branch a train has: one of the repository itself, one behind a remote, or one that a forge moves."""

from __future__ import annotations

from treadle.errors import ConfigError
from treadle.landing.branch import LandingBranch, OwnBranch, PushedBranch
from treadle.landing.forge import github
from treadle.landing.forge.github import GitHub
from treadle.landing.forge.interface import Forge
from treadle.landing.forge.requested import RequestedBranch
from treadle.workspace import remotes
from treadle.workspace.remotes import Remote, RemoteBranch
from treadle.workspace.store import Store
from treadle.workspace.user_repository import UserRepository


def branch_of(
    user: UserRepository, name: str, store: Store, train: str, *, forge: str = "", token: str = ""
) -> LandingBranch:
    remote, branch = remotes.split(name)
    if not remote:
        if forge:
            raise ConfigError(f"{name} is a branch of the repository itself", hint="a forge has REMOTE:BRANCH")
        return OwnBranch(user, branch, store, f"treadle: train {train}")
    found = Remote(user, remote)
    there = RemoteBranch(found, branch, store)
    return RequestedBranch(there, forge_of(forge, token, found.address), train) if forge else PushedBranch(there)


def forge_of(written: str, token: str, address: str) -> Forge:
    """The forge that `github`, `github:OWNER/NAME` or `github:OWNER/NAME@API` means, for a remote of this address."""
    kind, _, rest = written.partition(":")
    repository, _, api = rest.partition("@")
    if kind != "github":
        raise ConfigError(f"there is no forge {kind!r}", hint="github, github:OWNER/NAME, github:OWNER/NAME@API")
    host = "github.com"
    if not repository:
        host, repository = github.repository_of(address)
    api = api or (github.PUBLIC if host == "github.com" else f"https://{host}/api/v3")
    return GitHub(api, repository, token or github.TOKEN)
