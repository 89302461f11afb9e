"""Which addresses a tool may connect to: only those of the public internet."""

from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address
from typing import TypeAlias

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
