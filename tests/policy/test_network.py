"""`--network` as a person writes it."""

import pytest

from treadle.errors import ConfigError
from treadle.policy.network import parse_network, permitted


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
