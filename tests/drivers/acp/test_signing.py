"""Ways to sign in to an agent: those that need no person are tried, the others are named."""

from pathlib import Path
from typing import Any

import pytest

from tests.drivers.acp.played import fails, greeting, heard, opening, returns, session
from treadle.drivers.acp.options import SignIn, by_variable, offered
from treadle.errors import AuthFailed

KEY = {"id": "key", "name": "A key", "description": "Takes the key in ODD_API_KEY."}
BROWSER = {"id": "browser", "name": "Sign in"}
REFUSED = fails("n", -32000, "Authentication required")


def asking(*methods: dict[str, Any]) -> list[Any]:
    """It greets with these methods and refuses the first session."""
    lines = [*greeting(), heard("session/new", "n"), REFUSED]
    lines[1]["line"]["result"]["authMethods"] = list(methods)
    return lines


@pytest.mark.parametrize(
    ("told", "method"),
    [
        (KEY, SignIn(**KEY, kind="variable", variables=("ODD_API_KEY",))),
        (BROWSER, SignIn(id="browser", name="Sign in")),
        (
            {"id": "v", "type": "env_var", "vars": [{"name": "A_KEY"}, {"name": "B"}]},
            SignIn(id="v", kind="variable", variables=("A_KEY", "B")),
        ),
        ({"id": "v", "varName": "A"}, SignIn(id="v", kind="variable", variables=("A",))),
        ({"id": "t", "type": "terminal", "args": ["--login"]}, SignIn(id="t", kind="terminal", arguments=("--login",))),
    ],
)  # fmt: skip
def test_a_method_is_read_in_whatever_form_it_comes(told: dict[str, Any], method: SignIn) -> None:
    assert offered({"authMethods": [told, "no method", {"name": "no id"}]}) == (method,)
    assert offered({"authMethods": None}) == ()


def test_a_method_is_chosen_when_all_its_variables_are_set() -> None:
    methods = offered({"authMethods": [BROWSER, KEY]})
    assert by_variable(methods, {"ODD_API_KEY": "k"}) == methods[1]
    assert by_variable(methods, {"ODD_API_KEY": ""}) is None and by_variable(methods[:1], {"X": "y"}) is None


async def test_a_key_in_the_environment_signs_in_without_a_person(tmp_path: Path) -> None:
    again = [heard("authenticate", "a"), returns("a", {}), *opening()[2:]]
    lines = [*asking(BROWSER, KEY), *again]
    async with session(tmp_path, lines, env={"ODD_API_KEY": "k"}) as opened:
        assert opened.id == "s1"


async def test_without_it_the_error_says_what_can_be_done(tmp_path: Path) -> None:
    with pytest.raises(AuthFailed) as caught:
        async with session(tmp_path, asking(BROWSER, KEY)):
            pass
    assert "treadle agents login" in (caught.value.hint or "") and "set ODD_API_KEY" in (caught.value.hint or "")


async def test_a_key_that_is_refused_is_an_error_and_not_tried_again(tmp_path: Path) -> None:
    lines = [*asking(KEY), heard("authenticate", "a"), fails("a", -32000, "the key is wrong")]
    with pytest.raises(AuthFailed, match="the key is wrong"):
        async with session(tmp_path, lines, env={"ODD_API_KEY": "k"}):
            pass
