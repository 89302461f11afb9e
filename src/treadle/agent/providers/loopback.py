"""Whether a model service runs on this machine."""

from __future__ import annotations


def loopback(url: str) -> bool:
    import ipaddress  # most services are elsewhere, at addresses that are known
    from urllib.parse import urlsplit

    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
        return parts.scheme == "http" and (host == "localhost" or ipaddress.ip_address(host).is_loopback)
    except ValueError:
        return False
