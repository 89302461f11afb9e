"""`--network on|off|HOST,...`: what programs in the sandbox may reach."""

import re
from typing import Literal

from treadle.errors import ConfigError

_HOST = r"(?i)(\*\.)?[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?(\.[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?)*(:\d{1,5})?"


def parse_network(text: str) -> tuple[Literal["on", "off"], tuple[str, ...]]:
    """Whether the network is on, and if it is off, the hosts that may still be reached."""
    if text in ("on", "off"):
        return ("on" if text == "on" else "off"), ()
    hosts = tuple(host.strip().lower() for host in text.split(",") if host.strip())
    wrong = [host for host in hosts if not re.fullmatch(_HOST, host)]
    if wrong or not hosts:
        raise ConfigError(
            f"{wrong[0] if wrong else text!r} is not a host",
            hint="write on, off, or hosts with commas between, as in pypi.org,*.example.com",
        )
    return "off", hosts


def permitted(hosts: tuple[str, ...], name: str, port: int) -> bool:
    """Whether the list covers this host. `*.example.com` covers names below it; an entry may be limited to a port."""
    name = name.lower().rstrip(".")
    for host in hosts:
        wanted, _, only = host.partition(":")
        if only and int(only) != port:
            continue
        if name == wanted or wanted.startswith("*.") and name.endswith(wanted[1:]):
            return True
    return False
