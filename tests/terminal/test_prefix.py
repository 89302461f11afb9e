"""The keys that `attach` takes for itself."""

from hypothesis import given
from hypothesis import strategies as st

from treadle.terminal.viewers.panel import COMMANDS, Prefix, key_forms, key_name


def fed(*reads: bytes) -> tuple[bytes, list[str]]:
    prefix, passed, commands = Prefix(0x1D), b"", []
    for data in reads:
        more, command = prefix.feed(data)
        passed += more
        commands += [command] if command else []
    return passed, commands


def test_the_detach_key_is_known_in_every_form_that_terminals_send_it() -> None:
    assert key_forms(0x1C) == {b"\x1c", b"\x1b[92;5u", b"\x1b[92;5:1u", b"\x1b[27;5;92~"}
    assert b"\x1b[97;5u" in key_forms(0x01)
    assert key_forms(0) == frozenset()


@given(st.lists(st.binary(min_size=1).filter(lambda data: 0x1D not in data and b"\x1b[" not in data)))
def test_without_the_prefix_all_is_passed_on_unchanged(reads: list[bytes]) -> None:
    assert fed(*reads) == (b"".join(reads), [])


@given(st.lists(st.binary(min_size=1)))
def test_whatever_is_typed_it_finds_only_commands_that_exist(reads: list[bytes]) -> None:
    assert set(fed(*reads)[1]) <= COMMANDS.keys()


def test_only_control_keys_are_written_with_ctrl_and_have_several_forms() -> None:
    assert [key_name(key) for key in (0, 1, 0x1F, 0x20, 0x41)] == ["\0", "Ctrl-A", "Ctrl-_", " ", "A"]
    assert len(key_forms(0x1F)) == 4 and key_forms(0x20) == {b" "}
    assert b"\x1b[122;5u" in key_forms(0x1A) and b"\x1b[91;5u" in key_forms(0x1B)
