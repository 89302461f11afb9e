"""A key under a name that a person made up: the agent does not get it, and the person reads what passes it on."""

import json
import os
from pathlib import Path

import pytest

from tests.drivers.test_session import replayed
from treadle.drivers.card import cards
from treadle.drivers.confined import Withheld
from treadle.errors import AuthFailed, RemoteError
from treadle.events import Warned
from treadle.session import SessionSpec

PASSES = 'agents.{}.env = ["ACME_KEY"]'


@pytest.mark.parametrize(
    ("name", "file", "text"),
    [
        ("codex", ".codex/config.toml", '[model_providers.acme]\nenv_key = "ACME_KEY"\n'),
        ("opencode", ".config/opencode/opencode.json", '{"provider": {"a": {"apiKey": "{env:ACME_KEY}"}}}'),
        ("qwen", ".qwen/settings.json", '{"modelProviders": {"openai": [{"envKey": "ACME_KEY"}]}}'),
        ("gemini", ".gemini/settings.json", '{"mcpServers": {"a": {"env": {"K": "$ACME_KEY"}}}}'),
        ("kimi", ".kimi-code/config.toml", 'api_key_env = "ACME_KEY"'),
        ("pi", ".pi/agent/models.json", json.dumps({"providers": {"a": {"apiKey": "ACME_KEY"}}})),
    ],
)
def test_a_variable_that_its_settings_name_and_it_does_not_get_is_named(
    name: str, file: str, text: str, tmp_path: Path
) -> None:
    place = tmp_path / file
    place.parent.mkdir(parents=True)
    place.write_text(text)
    given = {"HOME": str(tmp_path), "PATH": "/bin"}
    environ = {**given, "ACME_KEY": "k", "OTHER_KEY": "o"}
    found = Withheld(cards()[name], (name,), environ, given)
    assert PASSES.format(name) in found.warning() and "OTHER_KEY" not in found.warning()
    assert PASSES.format(name) in found.hint("401", signing_in=True)
    assert found.hint("something else", signing_in=False) == ""
    assert Withheld(cards()[name], (name,), environ, environ).warning() == "", "it gets it"
    assert Withheld(cards()[name], (name,), given, given).warning() == "", "it is not set"


def test_an_adapter_has_the_settings_of_the_agent_behind_it(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text('env_key = "ACME_KEY"')
    given = {"CODEX_HOME": str(tmp_path)}
    found = Withheld(cards()["acp"], ("/x/codex-acp",), {**given, "ACME_KEY": "k"}, given)
    assert PASSES.format("acp") in found.warning()


def test_an_error_that_names_a_variable_says_what_passes_it_on() -> None:
    found = Withheld(cards()["codex"], ("codex",), {"ACME_KEY": "k", "OTHER": "o"}, {})
    error = RemoteError("Missing environment variable: `ACME_KEY`.", hint="ask again")
    found.advise(error, signing_in=False)
    assert PASSES.format("codex") in str(error) and "ask again" in str(error) and "OTHER" not in str(error)
    other = AuthFailed("401", provider="x")
    found.advise(other, signing_in=True)
    assert other.hint is None, "no file of its own names one"


async def test_a_session_begins_with_the_warning(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text('env_key = "ACME_KEY"')
    around = {"CODEX_HOME": str(tmp_path), "ACME_KEY": "k", "PATH": os.environ["PATH"]}
    session = await replayed(cards()["codex"], "text", environ=around).open(SessionSpec.of(cwd=str(tmp_path)))
    try:
        warned = [event for event in session.events().ready() if isinstance(event, Warned)]
        assert [PASSES.format("codex") in event.message for event in warned if event.code == "withheld"] == [True]
    finally:
        await session.close()


def test_advice_stands_before_a_hint_or_alone_and_names_each_variable_once(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text('a = "ACME_KEY"\nb = "ACME_KEY"\nc = "OTHER_KEY"')
    given = {"CODEX_HOME": str(tmp_path)}
    found = Withheld(cards()["codex"], ("codex",), {**given, "ACME_KEY": "k", "OTHER_KEY": "o", "EMPTY_KEY": ""}, given)
    assert found.warning().startswith("the settings of codex name ACME_KEY, OTHER_KEY: set here but not passed to it")
    assert found.hint("ACME_KEY, ACME_KEY", signing_in=True).startswith("ACME_KEY: set here"), (
        "what it names goes first"
    )
    assert found.hint("EMPTY_KEY is missing", signing_in=False) == ""
    bare, hinted = AuthFailed("401", provider="x"), AuthFailed("401", provider="x", hint="sign in")
    for error in (bare, hinted):
        found.advise(error, signing_in=True)
    assert hinted.hint == f"{bare.hint}; sign in" and (bare.hint or "").startswith("ACME_KEY, OTHER_KEY: ")
    unknown = Withheld(cards()["acp"], ("nobody-knows-it",), {"ACME_KEY": "k"}, {})
    assert unknown.warning() == ""
