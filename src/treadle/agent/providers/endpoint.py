"""A model service: its address, how to ask it, and whether it runs on this machine."""

import re

import msgspec

from treadle.agent.providers.retry import RetryPolicy
from treadle.session import Reasoning


class Endpoint(msgspec.Struct, frozen=True, kw_only=True):
    """A model service: its address, how requests to it are made, and how long we wait."""

    name: str
    base_url: str
    key: str = ""
    key_variable: str = ""
    headers: dict[str, str] = {}
    idle_timeout: float = 120.0
    thinking: Reasoning = Reasoning()
    """For a request that does not say how much to think."""
    reports_cost: bool = False
    """Whether the service reports what a call cost."""
    connect_timeout: float = 15.0
    retry: RetryPolicy = RetryPolicy()
    socket: str = ""
    """A Unix socket to connect to instead of the address."""

    def __repr__(self) -> str:
        return f"Endpoint({self.name!r}, {self.shown_url!r})"

    @property
    def shown_url(self) -> str:
        """The address without a password that may be in it."""
        return re.sub(r"//[^/@]*@", "//", self.base_url)


def loopback(url: str) -> bool:
    import ipaddress  # imported here because most services are at well-known addresses
    from urllib.parse import urlsplit

    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
        return parts.scheme == "http" and (host == "localhost" or ipaddress.ip_address(host).is_loopback)
    except ValueError:
        return False
