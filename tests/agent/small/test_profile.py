"""For which models the profile is used, and which of its parts."""

from treadle.agent.providers.known import (
    PERSONA,
    TOOLS,
    SmallProfile,
    small_persona,
    small_tools,
)
from treadle.agent.providers.names import ModelSettings, resolve
from treadle.agent.providers.small import SmallModel


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
