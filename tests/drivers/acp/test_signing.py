"""Ways to sign in to an agent: those that need no person are tried, the others are named."""

from pathlib import Path
from typing import Any

import pytest

from tests.drivers.acp.played import fails, greeting, heard, opening, returns, session
from treadle.errors import AuthFailed

KEY = {"id": "key", "name": "A key", "description": "Takes the key in ODD_API_KEY."}
BROWSER = {"id": "browser", "name": "Sign in"}
REFUSED = fails("n", -32000, "Authentication required")


def asking(*methods: dict[str, Any]) -> list[Any]:
    """It greets with these methods and refuses the first session."""
    lines = [*greeting(), heard("session/new", "n"), REFUSED]
    lines[1]["line"]["result"]["authMethods"] = list(methods)
    return lines


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
