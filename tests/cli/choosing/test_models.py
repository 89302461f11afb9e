"""`treadle models`: what every service that is set up offers."""

import asyncio
import json
from datetime import date
from pathlib import Path

import pytest
from click.testing import CliRunner

from treadle.agent.providers.known import refreshed_file
from treadle.agent.providers.script import parse
from treadle.cli.models import HOW, ListedModels, _list, _show, models
from treadle.errors import ProviderError
from treadle.testing.server import ModelServer

SCRIPT = parse('model = "loom-1"\n[[reply]]\ntext = "hi"\n')


async def test_models_of_a_service_are_listed_under_the_names_that_can_be_used(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async with ModelServer(SCRIPT) as server:
        monkeypatch.setenv("TREADLE_BASE_URL", f"{server.url}/v1")
        assert await _list(["chat"], as_json=False, asked=True) == 0
        assert "chat:loom-1" in capsys.readouterr().out
        assert await _list(["chat"], as_json=True, asked=True) == 0
        [vendor] = json.loads(capsys.readouterr().out)
        assert vendor["name"] == "chat" and "loom-1" in vendor["models"]


def test_what_a_service_says_is_told_but_an_ollama_that_is_not_there_only_when_it_was_asked_for(
    capsys: pytest.CaptureFixture[str],
) -> None:
    quiet, broken = ListedModels(name="ollama", error="no"), ListedModels(name="openai", error="odd\x1b")
    for asked, said in ((True, "ollama: no\nopenai: odd\ufffd\n"), (False, "openai: odd\ufffd\n")):
        _show([quiet, broken, ListedModels(name="chat", models=["a", "b"])], asked)
        assert capsys.readouterr() == ("chat:a\nchat:b\n", said)
    _show([quiet], False)
    assert capsys.readouterr() == ("", f"no service is set up: {HOW}\n")


async def test_prices_of_today_are_fetched_and_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    async with ModelServer(SCRIPT) as server:
        monkeypatch.setenv("OPENROUTER_BASE_URL", f"{server.url}/v1")
        found = json.loads((await asyncio.to_thread(CliRunner().invoke, models, ["refresh", "--json"])).output)
        text = await asyncio.to_thread(CliRunner().invoke, models, ["refresh"])
    assert (found["at"], found["source"]) == (date.today().isoformat(), f"{server.url}/v1")
    assert text.output == f"{len(found['models'])} models as of {found['at']}, in {refreshed_file()}\n"
    assert Path(refreshed_file()).exists()


@pytest.mark.parametrize(("seconds", "said"), [(0.0, "did not answer within 0 s"), (10.0, "cannot reach")])
def test_prices_that_cannot_be_fetched_leave_those_that_are_there(
    seconds: float, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENROUTER_BASE_URL", "http://127.0.0.1:9/v1")
    monkeypatch.setattr("treadle.cli.models.SECONDS", seconds)
    result = CliRunner().invoke(models, ["refresh"])
    assert isinstance(result.exception, ProviderError) and said in str(result.exception)
    assert not Path(refreshed_file()).exists()
