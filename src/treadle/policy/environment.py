"""Which environment variables a child may see: what programs need to run, and no secret it was not given."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

NAMES = frozenset(
    "PATH HOME USER LOGNAME SHELL LANG LANGUAGE TERM COLORTERM TZ TMPDIR TEMP TMP PWD CI NO_COLOR FORCE_COLOR "
    "SSH_AUTH_SOCK HTTP_PROXY HTTPS_PROXY NO_PROXY ALL_PROXY http_proxy https_proxy no_proxy all_proxy "
    "SSL_CERT_FILE SSL_CERT_DIR REQUESTS_CA_BUNDLE NODE_EXTRA_CA_CERTS VIRTUAL_ENV".split()
)
PREFIXES = ("LC_", "XDG_")
PROVIDERS = ("ANTHROPIC_", "OPENAI_", "OPENROUTER_", "GEMINI_", "GOOGLE_", "OLLAMA_", "HEDDLE_", "TREADLE_")
"""What an agent needs to reach its model. For agents only: a tool's child has no business with a key."""


def reduced(environ: Mapping[str, str], *, providers: bool = False) -> dict[str, str]:
    """The part of `environ` for a child; with `providers`, for a child that is an agent itself."""
    prefixes = PREFIXES + PROVIDERS if providers else PREFIXES
    return {name: value for name, value in environ.items() if name in NAMES or name.startswith(prefixes)}
