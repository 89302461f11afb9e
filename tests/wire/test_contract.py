"""One contract for every wire. A new wire is found because the test lists the folders of `treadle.wire`."""

import importlib.util
import subprocess
import sys
from collections.abc import Callable

import pytest

from tests.wire.contract import CHECKS, Pair, Wire
from tests.wire.conversations import NO_CONVERSATIONS, folders, wire
from treadle.wire.common.connection import Transitions

PROTOCOLS = [*folders(), *(name for name in NO_CONVERSATIONS if name != "common")]
HEAVY = {"msgspec", "asyncio", "dataclasses", "click", "tomllib"}


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__.removeprefix("check_"))
@pytest.mark.parametrize("name", folders())
def test_every_wire_keeps_the_contract(name: str, check: Callable[[Wire], None]) -> None:
    check(wire(name))


@pytest.mark.parametrize("name", NO_CONVERSATIONS)
def test_a_folder_that_is_exempt_has_no_connection_to_check(name: str) -> None:
    assert importlib.util.find_spec(f"treadle.wire.{name}"), "there is no such folder"
    if name != "common":
        assert not importlib.util.find_spec(f"treadle.wire.{name}.connection"), "what has one is checked"


@pytest.mark.parametrize("name", PROTOCOLS)
def test_every_wire_says_in_its_folder_what_the_protocol_is(name: str) -> None:
    said = importlib.import_module(f"treadle.wire.{name}").__doc__ or ""
    assert len(said.splitlines()) >= 5, "say what the protocol is, who speaks, and where its specification is"


@pytest.mark.parametrize("name", PROTOCOLS)
def test_looking_into_the_folder_of_a_wire_loads_nothing_heavy(name: str) -> None:
    code = f"import sys, treadle.wire.{name}; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, check=True).stdout
    assert not HEAVY & set(loaded.split()), "an __init__ says list orders and imports nothing"


@pytest.mark.parametrize("name", folders())
def test_every_state_in_the_table_can_be_reached_from_the_start(name: str) -> None:
    table: Transitions = wire(name).connection.TRANSITIONS
    reached = {wire(name).connection.START}
    while more := {after for (state, _), after in table.items() if state in reached} - reached:
        reached |= more
    assert {state for state, _ in table} <= reached


@pytest.mark.parametrize("name", folders())
def test_the_samples_say_everything_that_each_role_can_say(name: str) -> None:
    said = set()
    for talk in wire(name).samples:
        pair = Pair(wire(name).connection)
        for role, message in talk:
            said.add((role, pair.ends[role].kind(role, message)))
            pair.say(role, message)
    unsaid = {(role, what) for role, kinds in wire(name).connection.SAYS.items() for what in kinds} - said
    assert not {what for _, what in unsaid if "nknown" not in str(what)}, f"no sample has {unsaid}"
