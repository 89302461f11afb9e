"""The ledger's records as resources: listed, read, in pages."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.coordination.clients import call, modern
from treadle.coordination.capsules import Capsules
from treadle.coordination.claims import Claims
from treadle.coordination.ledger import Symbols
from treadle.coordination.mcp import Resources
from treadle.coordination.planning import Planning
from treadle.wire.common.jsonrpc import Fault


@pytest.fixture
def planning(project: Path) -> Planning:
    return Planning(project=str(project))


def test_claims_symbols_and_capsules_are_resources(connect: Any, planning: Planning) -> None:
    server = modern(connect)
    Symbols(planning).set("F1", "src/a")
    Capsules(planning).write("w1", "added it")
    call(server, "make_claim", surfaces=["src/a/**"], task="T-1")
    listed = server.handle("resources/list", {})["resources"]
    assert [one["uri"] for one in listed] == ["heimdall://claims", "heimdall://symbols", "heimdall://capsules/w1"]
    assert listed[0] == {
        "uri": "heimdall://claims",
        "name": "claims",
        "title": "Who is changing what",
        "mimeType": "application/json",
    }
    assert [(one["name"], one["title"], one["mimeType"]) for one in listed[1:]] == [
        ("symbols", "What short ids stand for", "application/json"),
        ("w1", "Capsule w1", "text/markdown"),
    ]
    for one in listed:
        (read,) = server.handle("resources/read", {"uri": one["uri"]})["contents"]
        assert (read["uri"], read["mimeType"]) == (one["uri"], one["mimeType"])
    texts = [server.handle("resources/read", {"uri": one["uri"]})["contents"][0]["text"] for one in listed]
    assert json.loads(texts[0])[0]["claimed_surfaces"] == ["src/a/**"]
    assert json.loads(texts[1]) == {"F1": "src/a"} and "WHAT: added it" in texts[2]
    (template,) = server.handle("resources/templates/list", {})["resourceTemplates"]
    assert template["uriTemplate"] == "heimdall://capsules/{id}"
    for uri in ("heimdall://capsules/none", "heimdall://capsules/../x", "file:///etc/passwd", None, 3):
        with pytest.raises(Fault) as found:
            server.handle("resources/read", {"uri": uri})
        assert found.value.code == -32002
    with pytest.raises(Fault):
        server.handle("resources/list", {"cursor": "heimdall://none"})


def test_resources_come_in_pages(connect: Any, planning: Planning, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("treadle.coordination.mcp.PAGE", 2)
    for number in range(3):
        Capsules(planning).write(f"w{number}", "done")
    server, found, cursor = modern(connect), [], {}
    while True:
        page = server.handle("resources/list", cursor)
        found += [one["name"] for one in page["resources"]]
        if "nextCursor" not in page:
            break
        cursor = {"cursor": page["nextCursor"]}
    assert found == ["claims", "symbols", "w0", "w1", "w2"]


def test_a_client_of_the_first_revision_is_offered_none_of_it(connect: Any) -> None:
    server = connect("cursor")
    for method in ("resources/list", "resources/subscribe", "logging/setLevel"):
        with pytest.raises(Fault):
            server.handle(method, {})


def test_a_resource_has_another_state_after_it_was_changed(planning: Planning, project: Path) -> None:
    claims = Claims(planning, str(project))
    resources = Resources(claims, live=False)
    before = {
        uri: resources.state(uri) for uri in ("heimdall://claims", "heimdall://symbols", "heimdall://capsules/w1")
    }
    claims.claim("haid:ann.box-0001", ["src"], "T")
    Symbols(planning).set("F1", "x")
    Capsules(planning).write("w1", "done")
    after = {uri: resources.state(uri) for uri in before}
    assert all(before[uri] != after[uri] for uri in before) and after == {uri: resources.state(uri) for uri in before}
    assert Resources(claims, live=True).listed(None)["resources"][0]["name"] == "claims"
    for uri in ("heimdall://symbols", "heimdall://capsules/w1"):
        with pytest.raises(Fault, match="not found"):
            Resources(claims, live=True).read(uri)
