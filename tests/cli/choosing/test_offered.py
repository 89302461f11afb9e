"""Which models a service offers: its answer, its error, or nothing where it is not set up."""

import pytest

from treadle.agent.providers.script import parse
from treadle.cli.choosing import offered
from treadle.cli.choosing.offered import ask
from treadle.testing.server import ModelServer


async def test_a_service_that_is_set_up_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    async with ModelServer(parse('[[reply]]\ntext = "hi"\n')) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", f"{server.url}/v1")
        monkeypatch.setenv("OPENAI_API_KEY", "k")
        found = await ask("openai")
    assert found is not None and found.models and found.error is None


async def test_one_that_is_not_set_up_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    assert await ask("openai") is None and await ask("local") is None


async def test_one_that_refuses_or_is_silent_is_an_error_without_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    monkeypatch.setenv("OPENAI_API_KEY", "s3cret-key-s3cret-key")
    monkeypatch.setattr(offered, "SECONDS", 0.0)
    silent = await ask("openai")
    assert silent is not None and silent.models == [] and silent.error is not None
    assert "s3cret" not in silent.error
