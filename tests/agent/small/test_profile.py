"""For which models the profile is used, and which of its parts."""

import pytest

from treadle.agent.providers.known import (
    PARTS,
    PERSONA,
    TOOLS,
    SmallProfile,
    chosen,
    is_small,
    parse,
    small_persona,
    small_tools,
)
from treadle.agent.providers.names import ModelSettings, resolve
from treadle.agent.providers.small import SmallModel
from treadle.errors import ConfigError


@pytest.mark.parametrize(
    ("vendor", "model", "window", "small"),
    [
        ("ollama", "qwen2.5-coder:1.5b", None, True),
        ("ollama", "llama3.1:70b", None, False),
        ("openrouter", "meta-llama/llama-3.2-3b-instruct", None, True),
        ("openrouter", "mistralai/mixtral-8x7b", None, False),
        ("chat", "house-model", 8192, True),
        ("chat", "house-model", 128_000, False),
        ("chat", "house-model", None, False),
        ("local", "mine", None, True),
        ("local", "big-70b", 131_072, False),
        ("anthropic", "claude-sonnet-4-5", 200_000, False),
        ("openai", "gpt-5b-like", None, True),
    ],
)
def test_a_model_is_small_by_its_window_or_its_name(vendor: str, model: str, window: int | None, small: bool) -> None:
    assert is_small(vendor, model, window) is small


def test_what_was_asked_for_goes_before_what_the_model_is() -> None:
    assert chosen("off", "local", "mine", None) is None
    assert chosen("on", "anthropic", "claude-x", None) == SmallProfile()
    assert chosen(None, "local", "mine", None) == SmallProfile()
    assert chosen(None, "anthropic", "claude-x", None) is None


def test_each_part_can_be_left_out() -> None:
    for part in PARTS:
        left = parse(f"-{part.replace('_', '-')}")
        assert left is not None
        assert [name for name in PARTS if not getattr(left, name)] == [part]
    assert parse("-caps, -vary") == SmallProfile(caps=False, vary=False)
    assert parse("-mend") == SmallProfile(repair=False), "what it was called until 0.2"


@pytest.mark.parametrize("wish", ["caps", "-nothing", "-caps,vary", ""])
def test_a_wish_that_nobody_understands_is_refused(wish: str) -> None:
    with pytest.raises(ConfigError):
        parse(wish)


def test_its_tools_and_its_prompt_are_offered_unless_they_are_left_out() -> None:
    plain = resolve("chat:m", {"TREADLE_BASE_URL": "http://127.0.0.1:9/v1"}, ModelSettings())
    assert small_tools(plain) is None and small_persona(plain) is None
    for profile, tools, persona in (
        (SmallProfile(), TOOLS, PERSONA),
        (SmallProfile(tools=False), None, PERSONA),
        (SmallProfile(prompt=False), TOOLS, None),
    ):
        made = SmallModel(plain, profile, ".")
        assert (small_tools(made), small_persona(made)) == (tools, persona)
