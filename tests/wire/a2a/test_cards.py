"""A card that clients of both versions read, and what we take from the cards of others."""

from typing import Any

import pytest

from treadle.wire.a2a.cards import card, read_card
from treadle.wire.a2a.versions import Malformed

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
