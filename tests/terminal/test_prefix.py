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


def test_the_key_after_the_prefix_is_a_command_also_in_the_same_read() -> None:
    assert fed(b"a", b"\x1d", b"n", b"b") == (b"ab", ["n"])
    assert fed(b"\x1dn") == (b"", ["n"])
    assert [fed(b"\x1d", key.encode())[1] for key in COMMANDS] == [[key] for key in COMMANDS]


def test_an_unknown_key_after_the_prefix_shows_the_help_and_is_not_typed() -> None:
    assert fed(b"\x1d", b"z") == (b"", ["?"])
    assert fed(b"\x1d", b"h") == (b"", ["?"])


def test_the_prefix_twice_is_typed_once() -> None:
    assert fed(b"\x1d", b"\x1d", b"n") == (b"\x1dn", [])
    assert fed(b"\x1d\x1d") == (b"\x1d", [])


def test_keys_of_programs_that_tell_all_keys_apart_and_their_releases() -> None:
    assert fed(b"\x1b[93;5u", b"\x1b[93;5:3u", b"\x1b[110u") == (b"", ["n"])
    assert fed(b"\x1b[93;5:1u", b"\x1b[47:63;2u") == (b"", ["?"])


def test_reports_of_the_terminal_between_the_prefix_and_its_key_are_the_programs() -> None:
    assert fed(b"\x1d", b"\x1b[I", b"\x1b[<0;3;4M", b"n") == (b"\x1b[I\x1b[<0;3;4M", ["n"])


def test_a_paste_is_content() -> None:
    assert fed(b"\x1dnext line") == (b"\x1dnext line", [])
    assert fed(b"text \x1dn") == (b"text \x1dn", [])


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


def test_what_is_no_key_is_passed_on_and_the_prefix_waits() -> None:
    assert fed(b"\x1d", b"\xff", b"n") == (b"\xff", ["n"])
    assert fed(b"\x1d", b"\x1b", b"x") == (b"x", ["?"]), "escape is a key, and no command"
    assert fed(b"\x1d", b"\x1b[A\x1b[Bu", b"n") == (b"\x1b[A\x1b[Bu", ["n"])
    assert fed(b"\x1d", b"\x1b[1114112u", b"n") == (b"\x1b[1114112u", ["n"])
    assert fed(b"\x1d", b"\x1b[xu", b"n") == (b"\x1b[xu", ["n"])
    assert [fed(b"\x1d", key)[1] for key in (b"w", b"x", b"p")] == [["s"], ["k"], ["l"]]
    assert fed(b"\x1d\xff") == (b"\x1d\xff", [])
