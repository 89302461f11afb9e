"""Which kind of branch a train has: one of the repository itself, one behind a remote, or one that a forge moves."""

from collections.abc import Callable

import msgspec

from treadle.errors import ConfigError
from treadle.landing.branch import LandingBranch, OwnBranch, PushedBranch
from treadle.landing.forge import forgejo, github, gitlab
from treadle.landing.forge.asking import repository_of
from treadle.landing.forge.forgejo import Forgejo
from treadle.landing.forge.github import GitHub
from treadle.landing.forge.gitlab import GitLab
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


class ForgeKind(msgspec.Struct, frozen=True, kw_only=True):
    made: Callable[[str, str, str], Forge]
    token: str
    """The variable that holds the token, unless another is named."""
    public: str
    """The host that is meant where a repository is named without one."""
    api: Callable[[str], str]
    """The address of the API on a host."""


KINDS = {
    "github": ForgeKind(
        made=GitHub,
        token=github.TOKEN,
        public="github.com",
        api=lambda host: github.PUBLIC if host == "github.com" else f"https://{host}/api/v3",
    ),
    "gitlab": ForgeKind(
        made=GitLab, token=gitlab.TOKEN, public="gitlab.com", api=lambda host: f"https://{host}/api/v4"
    ),
    "forgejo": ForgeKind(
        made=Forgejo, token=forgejo.TOKEN, public="codeberg.org", api=lambda host: f"https://{host}/api/v1"
    ),
}


def forge_of(written: str, token: str, address: str) -> Forge:
    """The forge that `github`, `github:OWNER/NAME` or `github:OWNER/NAME@API` means, for a remote of this address."""
    name, _, rest = written.partition(":")
    repository, _, api = rest.partition("@")
    kind = KINDS.get(name)
    if kind is None:
        known = ", ".join(KINDS)
        raise ConfigError(f"there is no forge {name!r}", hint=f"there are {known}; {name}:OWNER/NAME, or with @API")
    host = kind.public
    if not repository:
        host, repository = repository_of(address)
    return kind.made(api or kind.api(host), repository, token or kind.token)
