"""`--network` as a person writes it."""

import pytest

from treadle.errors import ConfigError
from treadle.policy.network import GROUPS, is_host, named, parse_network, permitted, refusal, shown


def test_it_is_on_or_off_or_a_list_of_hosts() -> None:
    assert parse_network("on") == ("on", ()) and parse_network("off") == ("off", ())
    assert parse_network("PyPI.org, *.example.com:443") == ("off", ("pypi.org", "*.example.com:443"))


@pytest.mark.parametrize("text", ["", ",", "a b", "http://x", "*", "a..b", "x/y", "-a"])
def test_what_is_no_host_is_refused(text: str) -> None:
    with pytest.raises(ConfigError):
        parse_network(text)


def test_a_star_is_every_name_below_and_a_port_is_that_port_only() -> None:
    hosts = ("pypi.org", "*.example.com", "git.example.net:443")
    assert permitted(hosts, "PyPI.org.", 80) and permitted(hosts, "a.b.example.com", 1)
    assert permitted(hosts, "git.example.net", 443) and not permitted(hosts, "git.example.net", 80)
    for other in ("evilpypi.org", "pypi.org.evil.com", "example.com", "evilexample.com", ""):
        assert not permitted(hosts, other, 443)


def test_a_group_is_the_hosts_of_its_registries() -> None:
    reach, hosts = parse_network("PyPI, a.example, pypi.org")
    assert reach == "off" and hosts == (*GROUPS["pypi"], "a.example")
    assert set(GROUPS["registries"]) == {host for name in ("npm", "pypi", "crates", "go") for host in GROUPS[name]}
    for hosts in GROUPS.values():
        assert parse_network(",".join(hosts)) == ("off", hosts)


def test_a_refusal_says_what_a_person_can_type() -> None:
    said = refusal((), "files.pythonhosted.org", "pypi.org", "a.example:81")
    assert "the network is off" in said and "--network pypi,a.example:81" in said
    assert parse_network("pypi,a.example:81")[1][-1] == "a.example:81"
    assert "only a.example can be reached. A person can add npm to" in refusal(("a.example",), "registry.npmjs.org")


def test_the_host_of_an_address_is_written_as_in_a_list() -> None:
    assert [shown(*named(url)) for url in ("https://A.example/b", "http://a.example:81", "https://a.example:443")] == [
        "a.example",
        "a.example:81",
        "a.example",
    ]


def test_a_pattern_is_not_a_host() -> None:
    assert is_host("a.example") and is_host("127.0.0.1") and is_host("localhost")
    assert not any(map(is_host, ("*.com", "*", "::1", "a.example:81", "", "a\u200b.example", "a b")))
