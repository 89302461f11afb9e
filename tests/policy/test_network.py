"""`--network` as a person writes it."""

import pytest

from treadle.errors import ConfigError
from treadle.policy.network import OFFLINE, host_of, is_host, named, offline, parse_network, permitted, refusal, shown


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


def test_a_group_stays_a_name_and_registries_are_all_of_them() -> None:
    assert parse_network("PyPI, a.example, pypi") == ("off", ("pypi", "a.example"))
    assert parse_network("go,registries") == ("off", ("go", "npm", "pypi", "crates"))


def test_a_refusal_says_what_a_person_can_type() -> None:
    said = refusal((), "files.example", "a.example:81")
    assert "the network is off" in said and "--network files.example,a.example:81, or" in said
    assert "only a.example can be reached. A person can add b.example to" in refusal(("a.example",), "b.example")
    assert "npm, pypi, crates, go" in said and said.startswith("files.example, a.example:81 may not be reached: ")
    assert "--network a.example, or" in refusal((), "a.example", "a.example"), "each is named once"


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


@pytest.mark.parametrize("sign", OFFLINE)
def test_what_a_program_says_without_a_network_is_explained(sign: str) -> None:
    said = offline(f"curl: (6) {sign}: x")
    assert said.startswith("commands have no network here") and "A person can allow it with --network HOSTS, or" in said
    assert "A person can add HOSTS to --network" in offline(sign, ("a.example",))
    assert offline("all is well") == ""


def test_a_pattern_is_not_a_host() -> None:
    assert is_host("a.example") and is_host("127.0.0.1") and is_host("localhost")
    assert not any(map(is_host, ("*.com", "*", "::1", "a.example:81", "", "a\u200b.example", "a b")))
