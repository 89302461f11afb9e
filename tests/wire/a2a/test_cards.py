"""A card that clients of both versions read, and what we take from the cards of others."""

from typing import Any

import pytest

from treadle.wire.a2a.messages import AgentAddress, Malformed, card, read_card

OURS = card(name="A", description="", url="http://x/", version="7", images=True, push=False, token=True)


def test_our_own_card_leads_to_the_newest_version() -> None:
    found = read_card(OURS)
    assert (found.url, found.version, found.agent_version, found.streaming, found.images) == (
        "http://x/",
        "1.0",
        "7",
        True,
        True,
    )


def test_a_client_of_0_3_finds_what_it_looks_for() -> None:
    old = {name: value for name, value in OURS.items() if name != "supportedInterfaces"}
    assert read_card(old).version == "0.3"
    assert old["securitySchemes"]["token"]["type"] == "http" and old["security"] == [{"token": []}]


def test_a_further_interface_of_0_3_is_found() -> None:
    more = [{"url": "http://y/", "transport": "JSONRPC"}]
    found = read_card({"name": "B", "url": "x:1", "preferredTransport": "GRPC", "additionalInterfaces": more})
    assert (found.url, found.version, found.images) == ("http://y/", "0.3", False)


@pytest.mark.parametrize(
    "wrong",
    [
        [],
        {},
        {"name": "C"},
        {"name": "C", "supportedInterfaces": [{"url": "h:1", "protocolBinding": "GRPC", "protocolVersion": "1.0"}]},
        {"name": "C", "supportedInterfaces": [{"url": "h", "protocolBinding": "JSONRPC", "protocolVersion": "9.1"}]},
    ],
)
def test_a_card_that_names_no_way_that_we_speak_is_refused(wrong: Any) -> None:
    with pytest.raises(Malformed):
        read_card(wrong)


def test_what_a_card_does_not_say_an_agent_cannot_do() -> None:
    bare = AgentAddress(name="A", url="u", version="1.0")
    assert not bare.streaming and not bare.images and bare.agent_version == ""
    way = {"url": "http://x/", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}
    for told in ({}, {"capabilities": [], "defaultInputModes": "image/png"}, {"capabilities": {"streaming": "yes"}}):
        found = read_card({"name": "A", "supportedInterfaces": [way, 7], **told})
        assert not found.streaming and not found.images and found.agent_version == ""
    assert not read_card({"name": "A", "supportedInterfaces": [way], "defaultInputModes": ["text/plain"]}).images
    unversioned = {"name": "A", "supportedInterfaces": [{"url": "http://x/", "protocolBinding": "JSONRPC"}]}
    assert read_card(unversioned).version == "1.0" and read_card({"name": "A", "url": "u"}).url == "u"


def test_our_card_says_what_is_offered_and_asks_for_a_token_only_where_one_is_needed() -> None:
    assert OURS["capabilities"] == {"streaming": True, "pushNotifications": False} and "securityRequirements" in OURS
    plain = card(name="A", description="d", url="u", version="7", images=False, push=True, token=False)
    assert not plain.keys() & {"security", "securitySchemes", "securityRequirements"}
    assert plain["capabilities"]["pushNotifications"] is True and not read_card(plain).images
    assert (plain["name"], plain["description"], plain["version"], plain["url"]) == ("A", "d", "7", "u")
    assert [way["protocolVersion"] for way in plain["supportedInterfaces"]] == ["1.0", "0.3"]


def test_a_card_that_is_refused_names_the_ways_that_it_offers() -> None:
    more = [{"url": "h:1", "transport": "GRPC"}, 7]
    with pytest.raises(Malformed, match="GRPC 0.2, GRPC 0.2$"):
        read_card(
            {
                "name": "C",
                "url": "h",
                "preferredTransport": "GRPC",
                "additionalInterfaces": more,
                "protocolVersion": "0.2",
            }
        )
    with pytest.raises(Malformed, match="not spoken here: none"):
        read_card({"name": "C", "additionalInterfaces": 7, "supportedInterfaces": 7})
    with pytest.raises(Malformed, match="there is no agent card"):
        read_card({"name": 7, "url": "http://x/"})
