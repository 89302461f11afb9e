"""Whether a model service runs on this machine."""

from __future__ import annotations

import ipaddress
from urllib.parse import urlsplit


def loopback(url: str) -> bool:
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
        return parts.scheme == "http" and (host == "localhost" or ipaddress.ip_address(host).is_loopback)
    except ValueError:
        return False
