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
    choose,
    endpoint,
    is_model,
    key_source,
    model_settings,
    resolve,
)
from treadle.errors import ConfigError
from treadle.session import Reasoning

KEYS = {"OPENAI_API_KEY": "o", "ANTHROPIC_API_KEY": "a", "OPENROUTER_API_KEY": "r"}


def where(name: str, env: Mapping[str, str], settings: ModelSettings | None = None) -> tuple[str, str, str, str]:
    """Vendor, model, base URL and key."""
    settings = settings or ModelSettings()
    vendor, model = choose(name, env, settings)
    found = endpoint(vendor, env, settings)
    return vendor, model, found.base_url, found.key


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("openrouter:z-ai/glm:free", ("openrouter", "z-ai/glm:free", "https://openrouter.ai/api/v1", "r")),
        ("anthropic:claude-x", ("anthropic", "claude-x", "https://api.anthropic.com/v1", "a")),
        ("openai:gpt-5", ("openai", "gpt-5", "https://api.openai.com/v1", "o")),
        ("ollama:qwen3:8b", ("ollama", "qwen3:8b", "http://127.0.0.1:11434/v1", "")),
        ("anthropic/claude-x", ("anthropic", "claude-x", "https://api.anthropic.com/v1", "a")),
        ("openai/gpt-5", ("openai", "gpt-5", "https://api.openai.com/v1", "o")),
        ("qwen/qwen3:free", ("openrouter", "qwen/qwen3:free", "https://openrouter.ai/api/v1", "r")),
        ("claude-sonnet-4-5", ("anthropic", "claude-sonnet-4-5", "https://api.anthropic.com/v1", "a")),
        ("gpt-5-mini", ("openai", "gpt-5-mini", "https://api.openai.com/v1", "o")),
        ("o3", ("openai", "o3", "https://api.openai.com/v1", "o")),
    ],
)
def test_a_name_finds_its_service(name: str, expected: tuple[str, str, str, str]) -> None:
    assert where(name, KEYS) == expected


@pytest.mark.parametrize(
    ("vendor", "base", "seconds"),
    [
        ("anthropic", "", 120),
        ("openai", "", 600),
        ("chat", "http://box:1/v1", 300),
        ("ollama", "", 1800),
        ("chat", "http://localhost:8080/v1", 1800),
        ("anthropic", "http://127.0.0.1:8080/v1", 1800),
        ("openai", "http://127.0.0.1:8080/v1", 1800),
    ],
)
def test_how_long_a_service_may_be_silent_depends_on_its_kind(vendor: str, base: str, seconds: float) -> None:
    env = {**KEYS, "TREADLE_BASE_URL": base}
    assert endpoint(vendor, env, ModelSettings()).idle_timeout == seconds
    assert endpoint(vendor, env, ModelSettings(idle_timeout=7)).idle_timeout == 7


def test_a_vendors_model_goes_to_openrouter_when_only_that_has_a_key() -> None:
    assert where("anthropic/claude-x", {"OPENROUTER_API_KEY": "r"})[:2] == ("openrouter", "anthropic/claude-x")


def test_our_own_variables_go_before_the_vendors() -> None:
    env = {**KEYS, "TREADLE_BASE_URL": "http://box:1/v1", "TREADLE_API_KEY": "t"}
    assert where("openai:m", env) == ("openai", "m", "http://box:1/v1", "t")
    assert where("some/thing", env) == ("chat", "some/thing", "http://box:1/v1", "t")
    assert where("llama3:8b", env)[:2] == ("chat", "llama3:8b")


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


def test_the_environment_goes_before_the_settings() -> None:
    settings = ModelSettings(base_url="http://file/v1", api_key="f")
    assert where("m", {}, settings) == ("chat", "m", "http://file/v1", "f")
    assert where("openai:m", {"OPENAI_API_KEY": "o"}, settings)[3] == "o"
    assert where("m", {"TREADLE_BASE_URL": "http://env/v1"}, settings)[2] == "http://env/v1"


@pytest.mark.parametrize(
    ("name", "variable", "value", "base"),
    [
        ("anthropic:m", "ANTHROPIC_BASE_URL", "http://x:1", "http://x:1/v1"),
        ("anthropic:m", "ANTHROPIC_BASE_URL", "http://x:1/v1/", "http://x:1/v1"),
        ("openai:m", "OPENAI_BASE_URL", "http://x:1/v1", "http://x:1/v1"),
        ("ollama:m", "OLLAMA_HOST", "0.0.0.0", "http://127.0.0.1:11434/v1"),
        ("ollama:m", "OLLAMA_HOST", ":9", "http://127.0.0.1:9/v1"),
        ("ollama:m", "OLLAMA_HOST", "box:9", "http://box:9/v1"),
        ("ollama:m", "OLLAMA_HOST", "https://box/", "https://box/v1"),
    ],
)
def test_the_vendors_usual_variables_are_understood_and_need_no_key(
    name: str, variable: str, value: str, base: str
) -> None:
    assert where(name, {variable: value})[2:] == (base, "")


@pytest.mark.parametrize(
    ("name", "says"),
    [
        (None, "No model is configured.*ANTHROPIC_API_KEY.*TREADLE_BASE_URL"),
        ("openai:gpt-5", "no key for openai.*set OPENAI_API_KEY"),
        ("vendor/model", "no key for openrouter.*set OPENROUTER_API_KEY"),
        ("chat:m", "set TREADLE_BASE_URL"),
        ("openai:", "stops after its prefix"),
        ("mystery", "write WHO:mystery.*openrouter, anthropic"),
        ("qwen3:8b", "write WHO:qwen3:8b"),
    ],
)
def test_what_is_missing_is_said_exactly(name: str | None, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        resolve(name, {})


def test_a_key_that_is_there_already_is_not_asked_for_again() -> None:
    with pytest.raises(
        ConfigError, match=r"No model is configured \(OPENAI_API_KEY is set: `treadle models use openai`"
    ):
        resolve(None, {"OPENAI_API_KEY": "k"})


def test_a_service_named_alone_stands_for_its_default_model() -> None:
    assert where("anthropic", {"ANTHROPIC_API_KEY": "k"})[:2] == ("anthropic", VENDORS["anthropic"].default)
    with pytest.raises(ConfigError, match="ollama has no default model.*`treadle models ollama` lists"):
        resolve("ollama", {})


def test_a_base_url_without_scheme_is_refused() -> None:
    with pytest.raises(ConfigError, match="no scheme"):
        resolve("chat:m", {"TREADLE_BASE_URL": "localhost:8000"})


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


def test_settings_come_from_a_table_and_a_mistake_in_it_is_named() -> None:
    table = {"retry": {"patience": 600}, "prices": {"m": {"input": 1, "output": 2}}, "idle_timeout": 5}
    settings = model_settings(table)
    assert (settings.retry.patience, settings.prices["m"].output, settings.idle_timeout) == (600, 2, 5)
    with pytest.raises(ConfigError, match=r"\[models\].*`inptu`.*prices"):
        model_settings({"prices": {"m": {"inptu": 1}}})


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


@pytest.mark.parametrize(
    ("text", "patience", "reset"), [("", 300, 3600), ("5", 5, 5), ("-1", -1, 0), ("0.5", 0.5, 0.5)]
)
def test_how_long_to_retry_may_come_from_the_environment(text: str, patience: float, reset: float) -> None:
    retry = endpoint("ollama", {"TREADLE_RETRY_SECONDS": text}, ModelSettings()).retry
    assert (retry.patience, retry.reset_patience) == (patience, reset)
    with pytest.raises(ConfigError, match="TREADLE_RETRY_SECONDS is 'soon', which is not a number"):
        endpoint("ollama", {"TREADLE_RETRY_SECONDS": "soon"}, ModelSettings())


@pytest.mark.parametrize(
    ("name", "known"),
    [
        ("opus", True),
        ("opus[1m]", True),
        ("mine", True),
        ("a/b", True),
        ("gpt-5", True),
        ("o3", True),
        ("o", False),
        ("words", False),
    ],
)
def test_a_name_is_that_of_a_model_by_its_form(name: str, known: bool) -> None:
    assert is_model(name, ModelSettings(aliases={"mine": "chat:m"})) is known
