"""`--network` as a person writes it."""

import pytest

from treadle.errors import ConfigError
from treadle.policy.network import is_host, named, parse_network, permitted, refusal, shown


def test_it_is_on_or_off_or_a_list_of_hosts() -> None:
    assert parse_network("on") == ("on", ()) and parse_network("off") == ("off", ())
    assert parse_network("A.Example, *.example.com:443") == ("off", ("a.example", "*.example.com:443"))


@pytest.mark.parametrize("text", ["", ",", "a b", "http://x", "*", "a..b", "x/y", "-a"])
def test_what_is_no_host_is_refused(text: str) -> None:
    with pytest.raises(ConfigError):
        parse_network(text)


def test_a_star_is_every_name_below_and_a_port_is_that_port_only() -> None:
    hosts = ("a.example", "*.example.com", "git.example.net:443")
    assert permitted(hosts, "A.Example.", 80) and permitted(hosts, "a.b.example.com", 1)
    assert permitted(hosts, "git.example.net", 443) and not permitted(hosts, "git.example.net", 80)
    for other in ("evila.example", "a.example.evil.com", "example.com", "evilexample.com", ""):
        assert not permitted(hosts, other, 443)


def test_a_group_stays_a_name_and_registries_are_all_of_them() -> None:
    assert parse_network("PyPI, a.example, pypi") == ("off", ("pypi", "a.example"))
    assert parse_network("go,registries") == ("off", ("go", "npm", "pypi", "crates"))


def test_a_refusal_says_what_a_person_can_type() -> None:
    said = refusal((), "files.example", "a.example:81")
    assert "the network is off" in said and "--network files.example,a.example:81, or" in said
    assert "only a.example can be reached. A person can add b.example to" in refusal(("a.example",), "b.example")
    assert "npm, pypi, crates, go" in said


def test_the_host_of_an_address_is_written_as_in_a_list() -> None:
    assert [shown(*named(url)) for url in ("https://A.example/b", "http://a.example:81", "https://a.example:443")] == [
        "a.example",
        "a.example:81",
        "a.example",
    ]


def test_a_pattern_is_not_a_host() -> None:
    assert is_host("a.example") and is_host("127.0.0.1") and is_host("localhost")
    assert not any(map(is_host, ("*.com", "*", "::1", "a.example:81", "", "a\u200b.example", "a b")))
