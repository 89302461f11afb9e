"""`--network on|off|HOST,GROUP,...`: what programs in the sandbox may reach."""

import re
from typing import Literal
from urllib.parse import urlsplit

from treadle.errors import ConfigError

_HOST = r"(?i)(\*\.)?[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?(\.[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?)*(:\d{1,5})?"
OFFLINE = (
    *("Could not resolve host", "name resolution", "Name or service not known", "EAI_AGAIN", "ENOTFOUND"),
    *("Network is unreachable", "ENETUNREACH", "Connection refused", "ECONNREFUSED", "dial tcp", "Failed to connect"),
)
"""What programs say without a network."""
GROUPS = ("npm", "pypi", "crates", "go")
"""Names that stand for the package registries that these tools use here; `registries` is all of them. Which hosts these
are, the tools themselves say (`io/sandbox/registries.py`)."""


def parse_network(text: str) -> tuple[Literal["on", "off"], tuple[str, ...]]:
    """Whether the network is on, and if it is off, the hosts and groups that may still be reached."""
    if text in ("on", "off"):
        return ("on" if text == "on" else "off"), ()
    hosts = tuple(host.strip().lower() for host in text.split(",") if host.strip())
    wrong = [host for host in hosts if not re.fullmatch(_HOST, host)]
    if wrong or not hosts:
        raise ConfigError(
            f"{wrong[0] if wrong else text!r} is not a host",
            hint="write on, off, or hosts and groups with commas between, as in npm,*.example.com; "
            f"the groups are {', '.join(GROUPS)} and registries",
        )
    return "off", tuple(dict.fromkeys(one for host in hosts for one in (GROUPS if host == "registries" else (host,))))


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


def is_host(name: str) -> bool:
    """Whether it is the plain name of one host, or its IPv4 address."""
    return re.fullmatch(_HOST, name) is not None and "*" not in name and ":" not in name


def named(url: str) -> tuple[str, int]:
    """The host and port that an address leads to. Raises ValueError for what is none."""
    parts = urlsplit(url)
    return parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)


def host_of(url: str) -> str:
    """The host that an address leads to, as it is written in a list; empty when it names none."""
    try:
        name, port = named(url)
    except ValueError:
        return ""
    return shown(name, port) if is_host(name) else ""


def shown(name: str, port: int) -> str:
    """As a person writes it in a list."""
    return name if port in (80, 443) else f"{name}:{port}"


def offline(output: str, hosts: tuple[str, ...] = ()) -> str:
    """Why a program that printed this reached nothing, and how a person allows it; empty if it is not about that."""
    if not any(sign in output for sign in OFFLINE):
        return ""
    return f"commands have no network here, not even that of this machine. {allowing(hosts)}"


def refusal(hosts: tuple[str, ...], *names: str) -> str:
    """Why these hosts are not reached, and how a person allows them."""
    reached = f"only {', '.join(hosts)} can be reached" if hosts else "the network is off"
    return f"{', '.join(names)} may not be reached: {reached}. {allowing(hosts, *names)}"


def allowing(hosts: tuple[str, ...] = (), *names: str) -> str:
    """How a person allows these hosts beside those in the list."""
    what = ",".join(dict.fromkeys(names)) or "HOSTS"
    other = f"a package registry is also named by its tool ({', '.join(GROUPS)}), and on allows everything"
    if hosts:
        return f"A person can add {what} to --network, or to network in the settings; {other}"
    return f"A person can allow it with --network {what}, or network in the settings; {other}"
