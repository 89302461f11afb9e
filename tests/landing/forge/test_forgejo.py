"""What landing asks of Forgejo, against a small server of ours. `tests/live/test_forge.py` holds both against the types
that are published for Gitea."""

import asyncio
from pathlib import Path

import pytest

from tests.landing.forge.asked import ask_everything, repositories
from tests.landing.forge.forgejo_server import ForgejoServer
from treadle.landing.forge.forgejo import PAGE, Forgejo


def test_requests_checks_reviews_and_merges_are_asked_and_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bare, head = repositories(tmp_path)
    monkeypatch.setenv("FORGEJO_TOKEN", "sesame")
    with ForgejoServer(bare) as hub:
        asyncio.run(ask_everything(Forgejo(hub.api, "shop/web"), hub, head))
        assert hub.tokens == {"token sesame"}


def test_what_comes_in_pages_is_read_to_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bare, head = repositories(tmp_path)
    monkeypatch.setenv("FORGEJO_TOKEN", "sesame")

    class Paged(ForgejoServer):
        def answer(self, method: str, path: str, query: dict[str, list[str]], body: object) -> tuple[int, object]:
            status, found = super().answer(method, path, query, body)
            first = (int(query["page"][0]) - 1) * PAGE
            return status, {**found, "statuses": found["statuses"][first : first + PAGE]}

    with Paged(bare) as hub:
        hub.pulls.append({"sha": head})
        for _ in range(PAGE):
            hub.ends(hub.pulls[0], "success")
        hub.ends(hub.pulls[0], "failure")
        states = [each.state for each in asyncio.run(Forgejo(hub.api, "shop/web").checks(head))]
    assert states == ["green"] * PAGE + ["red"]
