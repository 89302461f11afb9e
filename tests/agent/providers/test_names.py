from collections.abc import Mapping
from pathlib import Path

import msgspec
import pytest

from treadle.agent.messages import Provider
from treadle.agent.providers.http import HttpProvider, RetryPolicy
from treadle.agent.providers.known import Price
from treadle.agent.providers.names import (
    PREFIXES,
    VENDORS,
    ModelSettings,
    key_source,
    resolve,
)
from treadle.errors import ConfigError
from treadle.session import Reasoning

KEYS = {"OPENAI_API_KEY": "o", "ANTHROPIC_API_KEY": "a", "OPENROUTER_API_KEY": "r"}


@pytest.mark.parametrize(
    ("vendor", "env", "settings", "source"),
    [
        ("anthropic", KEYS, ModelSettings(api_key="f"), "ANTHROPIC_API_KEY"),
        ("anthropic", {**KEYS, "TREADLE_API_KEY": "t"}, ModelSettings(), "TREADLE_API_KEY"),
        ("chat", KEYS, ModelSettings(api_key="f"), "settings"),
        ("ollama", KEYS, ModelSettings(), ""),
        ("scripted", {"TREADLE_API_KEY": "t"}, ModelSettings(), ""),
    ],
)
def test_where_a_key_came_from_can_be_told(
    vendor: str, env: Mapping[str, str], settings: ModelSettings, source: str
) -> None:
    assert key_source(vendor, env, settings) == source


def test_the_model_may_come_from_the_environment(tmp_path: Path) -> None:
    (tmp_path / "s.toml").write_text("model='demo'\nreply=[{}]")
    provider: Provider = resolve(None, {"TREADLE_MODEL": f"scripted:{tmp_path / 's.toml'}"})
    assert (provider.name, provider.model) == ("scripted", "demo")


def test_windows_and_prices_can_be_set_by_either_name() -> None:
    env = {"TREADLE_BASE_URL": "http://x/v1"}
    assert resolve("chat:m", env).context_window is None
    assert resolve("anthropic:claude-x", env).context_window == 200_000
    settings = ModelSettings(windows={"chat:m": 5, "n": 6}, prices={"n": Price(input=1, output=2)})
    assert resolve("chat:m", env, settings).context_window == 5
    assert resolve("chat:n", env, settings).context_window == 6


def test_every_setting_is_in_the_reference() -> None:
    page = (Path(__file__).parents[3] / "docs/reference/models.md").read_text()
    names = [field.name for part in (ModelSettings, RetryPolicy) for field in msgspec.structs.fields(part)]
    assert [name for name in names if f"`{name}`" not in page] == []


def test_every_prefix_and_variable_is_in_the_reference() -> None:
    page = (Path(__file__).parents[3] / "docs/reference/models.md").read_text()
    variables = [name for vendor in VENDORS.values() for name in (vendor.key, vendor.base) if name]
    assert [name for name in variables if f"`{name}`" not in page] == []
    assert [prefix for prefix in PREFIXES if f"| `{prefix}:" not in page] == []


@pytest.mark.parametrize("name", ["opus", "sonnet[1m]", "haiku"])
def test_a_family_as_the_usual_model_is_the_newest_of_it(name: str) -> None:
    env = {"ANTHROPIC_API_KEY": "k", "TREADLE_MODEL": name}
    family = name.removesuffix("[1m]")
    for asked in (None, name, "default"):
        found = resolve(asked, env)
        assert found.name == "anthropic" and found.model.startswith(f"claude-{family}")
    assert resolve("opus", {**env, "TREADLE_MODEL": "default"}).model.startswith("claude-opus")
    with pytest.raises(ConfigError, match="nothing says which model"):
        resolve("inherit", {**env, "TREADLE_MODEL": "default"})
    usual = {"TREADLE_MODEL": "mine"}
    aliases = ModelSettings(aliases={"mine": "openrouter:anthropic/claude-opus-9"})
    assert resolve("opus", {**usual, "OPENROUTER_API_KEY": "k"}, aliases).model == "anthropic/claude-opus-9"


def test_prices_and_thinking_are_those_of_the_full_name_first() -> None:
    env = {"TREADLE_BASE_URL": "http://x/v1"}
    price = Price(input=1, output=2)
    settings = ModelSettings(thinking={"chat:m": "high", "m": 5, "n": 7}, prices={"m": price}, windows={"m": 3})
    assert [resolve(name, env, settings).priced for name in ("chat:m", "chat:n", "anthropic:claude-opus-5")] == [
        True,
        False,
        True,
    ]
    full, bare, none = (resolve(name, env, settings) for name in ("chat:m", "chat:n", "chat:o"))
    assert isinstance(full, HttpProvider) and isinstance(bare, HttpProvider) and isinstance(none, HttpProvider)
    thinking = [one._endpoint.thinking for one in (full, bare, none)]
    assert thinking == [Reasoning(effort="high"), Reasoning(tokens=7), Reasoning()]
