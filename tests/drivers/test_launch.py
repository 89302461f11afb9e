"""How an outside agent is started."""

import pytest

from treadle.drivers.card import Card, launch_of
from treadle.errors import NotFound
from treadle.settings.config import AgentSettings

CARD = Card(
    name="some",
    title="Some",
    driver="x:y",
    how="by hand",
    program="some-agent",
    arguments=("serve",),
    environment=("SOME_KEY", "SOME_*"),
    sets={"SOME_QUIET": "1"},
)
ANY = Card(name="any", title="Any", driver="x:y", how="by hand", prefix=True)


def test_a_program_that_is_not_there_is_not_found() -> None:
    with pytest.raises(NotFound, match="no-such-agent"):
        launch_of(CARD, AgentSettings(command="no-such-agent")).program()


def test_the_environment_is_an_allow_list() -> None:
    launch = launch_of(CARD, AgentSettings(env=("EXTRA",), set={"SOME_MODE": "quick"}))
    environ = {"PATH": "/bin", "SOME_KEY": "k", "SOME_TOKEN": "t", "SOME_URL": "u", "EXTRA": "e", "OTHER_KEY": "o"}
    assert launch.env(environ, {"ADDED": "a"}) == {
        **{"PATH": "/bin", "SOME_KEY": "k", "SOME_URL": "u", "EXTRA": "e", "ADDED": "a"},
        **{"SOME_QUIET": "1", "SOME_MODE": "quick"},
    }
    assert launch.env({"SOME_QUIET": "0"}, {})["SOME_QUIET"] == "0", "the person's own setting counts"


def test_a_variable_that_names_its_home_reaches_it() -> None:
    homes = AgentSettings(command="some-agent", writes=("$SOME_HOME|~/.some", "$OTHER/cache", "~/.third"))
    environ = {"SOME_HOME": "/h", "OTHER": "/o", "THIRD": "/t"}
    assert launch_of(ANY, homes).env(environ, {}) == {"SOME_HOME": "/h", "OTHER": "/o"}


def test_models_have_the_names_that_a_person_gives_them() -> None:
    launch = launch_of(CARD, AgentSettings(model="big", models={"big": "some-large-1"}))
    assert launch.model_name(None) == "some-large-1"
    assert launch.model_name("other") == "other"
    assert launch_of(CARD).model_name(None) is None


def test_which_agent_we_are_is_not_passed_on_and_what_is_added_counts_last() -> None:
    launch = launch_of(CARD, AgentSettings(env=("TREADLE_AGENT",)))
    found = launch.env({"TREADLE_AGENT": "claude", "SOME_KEY": "a"}, {"SOME_KEY": "b"})
    assert "TREADLE_AGENT" not in found and found["SOME_KEY"] == "b" and found["SOME_QUIET"] == "1"
    assert launch_of(CARD, AgentSettings(command="sh")).program().endswith("/sh")
