"""`--network` as a person writes it, and which addresses are public."""

import pytest

from treadle.errors import ConfigError
from treadle.policy.network import (
    host_of,
    is_elsewhere,
    is_host,
    is_loopback,
    is_public,
    named,
    parse,
    parse_network,
    permitted,
    shown,
)


def test_it_is_on_or_off_or_a_list_of_hosts() -> None:
    assert parse_network("on") == ("on", ()) and parse_network("off") == ("off", ())
    assert parse_network("A.Example, *.example.com:443") == ("off", ("a.example", "*.example.com:443"))


@pytest.mark.parametrize("text", ["", ",", "a b", "http://x", "*", "a..b", "x/y", "-a"])
def test_what_is_no_host_is_refused_by_its_own_name(text: str) -> None:
    with pytest.raises(ConfigError) as refused:
        parse_network(f"a.example,{text}" if text.strip(",") else text)
    assert str(refused.value).startswith(f"{text!r} is not a host")
    assert "as in npm,*.example.com; the groups are npm, pypi, crates, go and registries" in str(refused.value)


def test_a_star_is_every_name_below_and_a_port_is_that_port_only() -> None:
    hosts = ("a.example", "*.example.com", "git.example.net:443")
    assert permitted(hosts, "A.Example.", 80) and permitted(hosts, "a.b.example.com", 1)
    assert permitted(hosts, "git.example.net", 443) and not permitted(hosts, "git.example.net", 80)
    for other in ("evila.example", "a.example.evil.com", "example.com", "evilexample.com", ""):
        assert not permitted(hosts, other, 443)


def test_the_host_of_an_address_is_written_as_in_a_list() -> None:
    assert [shown(*named(url)) for url in ("https://A.example/b", "http://a.example:81", "https://a.example:443")] == [
        "a.example",
        "a.example:81",
        "a.example",
    ]
    assert (named("http://a.example"), named("https://a.example"), named("x")) == (
        ("a.example", 80),
        ("a.example", 443),
        ("", 80),
    )
    assert [
        host_of(url) for url in ("https://a.example/b", "http://a.example:81", "http://[::1]/", "x", "http://a:b")
    ] == [
        "a.example",
        "a.example:81",
        *("", "", ""),
    ]


def test_a_pattern_is_not_a_host() -> None:
    assert is_host("a.example") and is_host("127.0.0.1") and is_host("localhost")
    assert not any(map(is_host, ("*.com", "*", "::1", "a.example:81", "", "a\u200b.example", "a b")))
    assert all(map(is_loopback, ("127.9.9.9", "::1", "localhost")))
    assert not any(map(is_loopback, ("0.0.0.0", "::", "10.0.0.1", "localhost.example", "")))


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1", "127.255.255.254", "0.0.0.0", "10.0.0.1", "172.16.0.1", "172.31.255.255", "192.168.1.1",
        "169.254.169.254", "100.64.0.1", "192.0.2.1", "198.18.0.1", "224.0.0.1", "239.255.255.255", "240.0.0.1",
        "255.255.255.255", "::", "::1", "fe80::1", "fe80::1%eth0", "fc00::1", "fd00:ec2::254", "ff02::1", "fec0::1",
        "::ffff:127.0.0.1", "::ffff:10.0.0.1", "::127.0.0.1", "2002:7f00:1::", "2002:a00:1::", "64:ff9b::7f00:1",
        "64:ff9b::a9fe:a9fe", "64:ff9b:1::1", "2001:db8::1", "2001:0:7f00:1::",
    ],
)  # fmt: skip
def test_addresses_that_are_not_public(address: str) -> None:
    assert not is_public(parse(address))


@pytest.mark.parametrize(
    "address", ["1.1.1.1", "93.184.216.34", "2606:4700:4700::1111", "::ffff:1.1.1.1", "64:ff9b::101:101"]
)
def test_addresses_of_the_public_internet_are_public(address: str) -> None:
    assert is_public(parse(address))


def test_a_private_address_may_be_another_machine_but_never_this_one_or_a_clouds_metadata() -> None:
    private = ("10.0.0.1", "192.168.1.1", "172.16.0.1", "100.64.0.1", "fd12::1", "::ffff:10.0.0.1", "1.1.1.1")
    assert all(is_elsewhere(parse(address)) for address in private)
    here = ("127.0.0.1", "0.0.0.0", "::", "::1", "::ffff:127.0.0.1", "2002:7f00:1::", "64:ff9b::7f00:1", "64:ff9b:1::1")
    metadata = ("169.254.169.254", "fe80::1", "fd00:ec2::254", "100.100.100.200", "64:ff9b::a9fe:a9fe")
    assert not any(is_elsewhere(parse(address)) for address in (*here, *metadata, "224.0.0.1", "ff02::1"))


@pytest.mark.parametrize("address", ["2001:0:101:101::", "2002:101:101::", "::1.1.1.1", "100::1", "5f00::1"])
def test_an_address_within_another_counts_for_both_questions(address: str) -> None:
    public = address in ("2002:101:101::", "::1.1.1.1")
    assert is_public(parse(address)) is public
    assert is_elsewhere(parse(address)) is public or address.startswith("2001:0:")
