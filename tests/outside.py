"""What the machine had set before tests/conftest.py removed it: for fetching programs, and for nothing else."""

import os

OUTSIDE = dict(os.environ)
_PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy")
_FETCHING = ("PATH", "NODE_EXTRA_CA_CERTS", *_PROXIES)
_FETCHING_OF = ("SSL_CERT_", "REQUESTS_CA_", "CURL_CA_", "npm_config_", "NPM_CONFIG_", "PIP_", "UV_")


def fetching() -> dict[str, str]:
    """The variables with which npm and pip find their registry: proxies, and the authorities of a private network."""
    return {name: text for name, text in OUTSIDE.items() if name in _FETCHING or name.startswith(_FETCHING_OF)}
