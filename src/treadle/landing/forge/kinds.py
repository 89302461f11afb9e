"""Which forge a name means: ours, or one of another distribution."""

from treadle.errors import ConfigError
from treadle.landing.forge import github
from treadle.landing.forge.interface import Forge, ForgeKind, repository_of
from treadle.settings import extensions

KINDS = {
    "github": ForgeKind(
        made=github.GitHub,
        token=github.TOKEN,
        public="github.com",
        api=lambda host: github.PUBLIC if host == "github.com" else f"https://{host}/api/v3",
    )
}
"""Our own; others are found by their entry points."""


def forge_of(written: str, token: str, address: str) -> Forge:
    """The forge that `github`, `github:OWNER/NAME` or `github:OWNER/NAME@API` means, for a remote of this address."""
    name, _, rest = written.partition(":")
    repository, _, api = rest.partition("@")
    kind: ForgeKind | None = KINDS.get(name) or extensions.load("forges", name, ForgeKind)
    if kind is None:
        hint = "github is ours; `treadle docs land-work` says how to add gitlab, forgejo and others"
        raise ConfigError(f"there is no forge {name!r}", hint=hint)
    host = kind.public
    if not repository:
        host, repository = repository_of(address)
    return kind.made(api or kind.api(host), repository, token or kind.token)
