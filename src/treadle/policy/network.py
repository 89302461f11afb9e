"""`--network on|off|HOST,GROUP,...`: what programs in the sandbox may reach; which addresses a tool may connect to."""

import re
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address
from typing import Literal, TypeAlias
from urllib.parse import urlsplit

from treadle.errors import ConfigError

# Which addresses a tool may connect to: only those of the public internet.

Address: TypeAlias = IPv4Address | IPv6Address

_NAT64 = IPv6Network("64:ff9b::/96")
_LOCAL = tuple(map(IPv6Network, ("64:ff9b:1::/48", "fec0::/10", "100::/64", "2001:db8::/32", "5f00::/16")))

_METADATA = tuple(map(ip_address, ("fd00:ec2::254", "100.100.100.200")))
"""Those that are not link-local."""


def is_public(address: Address) -> bool:
    """False for loopback, private, link-local (and so cloud metadata), shared, multicast, reserved, unspecified ones.

    An IPv6 address that contains an IPv4 one (mapped, 6to4, Teredo, NAT64) is judged by the IPv4 address.
    """
    if isinstance(address, IPv6Address):
        inner = _embedded(address)
        if inner is not None:
            return all(map(is_public, inner))
        if any(address in network for network in _LOCAL):
            return False
    return address.is_global and not address.is_multicast and not address.is_reserved


def is_elsewhere(address: Address) -> bool:
    """Whether it is another machine that a name of a private network may stand for: not this machine, none that is
    link-local, and no cloud's metadata."""
    if isinstance(address, IPv6Address):
        if (inner := _embedded(address)) is not None:
            return all(map(is_elsewhere, inner))
        if any(address in network for network in _LOCAL):
            return False
    if address in _METADATA:
        return False
    here = address.is_loopback or address.is_link_local or address.is_unspecified
    return not (here or address.is_multicast or address.is_reserved)


def _embedded(address: IPv6Address) -> tuple[IPv4Address, ...] | None:
    if address.ipv4_mapped is not None:
        return (address.ipv4_mapped,)
    if address.sixtofour is not None:
        return (address.sixtofour,)
    if address.teredo is not None:
        return address.teredo
    if address in _NAT64 or int(address) >> 32 == 0 and int(address) > 1:
        return (IPv4Address(int(address) & 0xFFFFFFFF),)
    return None


def parse(text: str) -> Address:
    """An address as the resolver gives it, possibly with a scope."""
    return ip_address(text.partition("%")[0])


def is_loopback(host: str) -> bool:
    """Whether a host, by address or name, is this machine and no other."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


_HOST = r"(?i)(\*\.)?[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?(\.[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?)*(:\d{1,5})?"
OFFLINE = (
    *("Could not resolve host", "name resolution", "Name or service not known", "EAI_AGAIN", "ENOTFOUND"),
    *("Network is unreachable", "ENETUNREACH", "Connection refused", "ECONNREFUSED", "dial tcp", "Failed to connect"),
)
"""What programs say without a network."""
GROUPS = ("npm", "pypi", "crates", "go")
"""Names that stand for the package registries that these tools use here; `registries` is all of them. Which hosts these
are, the tools themselves say (`io/sandbox/proxy.py`)."""


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
