"""What all slash commands share: their forms, when they must be alone, and answers in columns."""

from treadle.agent.slash_commands import SlashCommand, columns, reply
from treadle.session import CommandResult


async def nothing(session: object, args: str) -> CommandResult:
    return reply("done")


def command(alone: str = "never", usage: tuple[str, ...] = ("",)) -> SlashCommand[object]:
    return SlashCommand(name="mode", usage=usage, help="", run=nothing, alone=alone)  # type: ignore[arg-type]


def test_a_form_is_the_command_with_its_arguments() -> None:
    assert command(usage=("", "NAME", "NAME FILE")).forms == ["/mode", "/mode NAME", "/mode NAME FILE"]


def test_it_is_alone_never_always_or_only_with_arguments() -> None:
    assert [command(alone).must_be_alone("") for alone in ("never", "with arguments", "always")] == [False, False, True]
    assert [command(alone).must_be_alone("x") for alone in ("never", "with arguments", "always")] == [False, True, True]
    assert not command("with arguments").must_be_alone("  \n")


def test_columns_are_as_wide_as_the_widest_and_end_without_blanks() -> None:
    assert columns([("a", "one"), ("long", "two"), ("b", "")]) == "a     one\nlong  two\nb"
    assert columns([]) == ""


def test_an_answer_is_good_unless_it_says_otherwise() -> None:
    assert reply("x").ok and not reply("x", ok=False).ok
