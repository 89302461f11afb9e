from pathlib import Path

import msgspec

from treadle.agent.providers.http import HttpProvider, RetryPolicy
from treadle.agent.providers.known import Price
from treadle.agent.providers.names import (
    PREFIXES,
    VENDORS,
    ModelSettings,
    resolve,
)
from treadle.session import Reasoning


def test_every_setting_is_in_the_reference() -> None:
    page = (Path(__file__).parents[3] / "docs/reference/models.md").read_text()
    names = [field.name for part in (ModelSettings, RetryPolicy) for field in msgspec.structs.fields(part)]
    assert [name for name in names if f"`{name}`" not in page] == []


def test_every_prefix_and_variable_is_in_the_reference() -> None:
    page = (Path(__file__).parents[3] / "docs/reference/models.md").read_text()
    variables = [name for vendor in VENDORS.values() for name in (vendor.key, vendor.base) if name]
    assert [name for name in variables if f"`{name}`" not in page] == []
    assert [prefix for prefix in PREFIXES if f"- `{prefix}:" not in page] == []


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
