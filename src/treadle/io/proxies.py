"""Finds the HTTP proxy for a host, from the environment and, on macOS, the system settings.

Nothing is loaded if no proxy is set: the standard library's functions for this come with its HTTP client.
"""

import ipaddress
import os
import sys
from urllib.parse import SplitResult, urlsplit


def proxy_for(url: SplitResult) -> SplitResult | None:
    """The proxy for `url`; None for a direct connection."""
    if sys.platform != "darwin" and not any(name.lower().endswith("_proxy") for name in os.environ):
        return None
    from urllib.request import getproxies, proxy_bypass

    known = getproxies()
    named = known.get(url.scheme) or known.get("all")
    host = url.hostname or ""
    if not named or proxy_bypass(host) or _within(host, known.get("no", "")):
        return None
    return urlsplit(named if "://" in named else f"http://{named}")


def _within(host: str, exempt: str) -> bool:
    """Whether the host is an address in one of the networks in `NO_PROXY`, which the standard library ignores."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    for word in exempt.split(","):
        try:
            if address in ipaddress.ip_network(word.strip(), strict=False):
                return True
        except ValueError:
            continue
    return False
