"""What can stand behind `/agent run` and `/agent parallel`, and what is said about the rest."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle.agent.slash_commands import MAX_MEMBERS, TaskRequest, WrongUse, parse_parallel, parse_run
from treadle.agent.tasks import Assignment


def one(text: str) -> Assignment:
    [member] = parse_run(text).members
    return member


@pytest.mark.parametrize("option", ["--agent", "--type", "-a"])
def test_options_stand_before_the_prompt(option: str) -> None:
    found = one(f"{option} explore --model=openrouter:a/b --isolation worktree find --model x")
    assert found.agent_type == "explore" and found.model == "openrouter:a/b" and found.isolation == "worktree"
    assert found.prompt == "find --model x"


def test_a_type_is_a_word_in_its_own_spelling_with_a_prompt_behind_it() -> None:
    assert one("Explore the code").agent_type == "Explore" and one("Explore the code").prompt == "the code"
    assert one("explore the code").agent_type is None and one("explore the code").prompt == "explore the code"
    assert one("Plan").prompt == "Plan"
    assert one("-a Plan Explore it").prompt == "Explore it"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "what is the agent to do"),
        ('  ""', "what is the agent to do"),
        ("--background", "what is the agent to do"),
        ("--model", "needs a value"),
        ("--isolation box x", "none or worktree"),
        ("--agent wizard x", "no agent type 'wizard'"),
        ("--modle x y", "no option --modle"),
        ("--wait x", "no option --wait"),
    ],
)
def test_a_run_that_makes_no_sense(text: str, why: str) -> None:
    with pytest.raises(WrongUse, match=why):
        parse_run(text)


def test_the_three_forms_of_a_member() -> None:
    request = parse_parallel('a:"one" b=\'two  2\n2\' c=Explore:"three"')
    assert [(m.label, m.agent_type, m.prompt) for m in request.members] == [
        ("a", None, "one"),
        ("b", None, "two  2\n2"),
        ("c", "Explore", "three"),
    ]
    assert not request.detach


def test_a_backslash_frees_quotes_and_backslashes_only() -> None:
    [member] = parse_parallel(r'a:"say \"hi\" \\ \d+ C:\new"').members
    assert member.prompt == r'say "hi" \ \d+ C:\new'
    [member] = parse_parallel(r"""a:'it\'s "fine"'""").members
    assert member.prompt == """it's "fine\""""


def test_options_hold_for_all_members_wherever_they_stand() -> None:
    request = parse_parallel('a:"x" --isolation worktree --model m b=Plan:"y" --agent Explore')
    assert {(m.isolation, m.model) for m in request.members} == {("worktree", "m")}
    assert [m.agent_type for m in request.members] == ["Explore", "Plan"]


def test_wait_wins_over_detach() -> None:
    assert parse_parallel('--detach a:"x"').detach
    for text in ('--detach --wait a:"x"', 'a:"x" --wait --detach', '--wait a:"x"'):
        assert not parse_parallel(text).detach


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "no agent to start"),
        ("--detach", "no agent to start"),
        ("a:x", 'expected LABEL:"PROMPT"'),
        ("just words", 'expected LABEL:"PROMPT"'),
        ('a:"x', "never closed"),
        ('a:"x\\"', "never closed"),
        ('a:"x"b:"y"', "a space is missing"),
        ('a:" "', "what is a to do"),
        ('a=Wizard:"x"', "no agent type"),
        ('--background a:"x"', "no option --background"),
        (" ".join(['a:"x"'] * (MAX_MEMBERS + 1)), "more than"),
    ],
)
def test_a_parallel_that_makes_no_sense(text: str, why: str) -> None:
    with pytest.raises(WrongUse, match=re.escape(why)):
        parse_parallel(text)


labels = st.from_regex(r"[A-Za-z_][\w.-]{0,20}", fullmatch=True)
quotes = st.sampled_from(["'", '"'])
prompts = st.text(min_size=1).filter(lambda text: text.strip())


def quoted(text: str, quote: str) -> str:
    return quote + re.sub(rf"[\\{quote}]", lambda found: "\\" + found[0], text) + quote


@given(
    st.lists(st.tuples(labels, prompts, quotes, st.sampled_from([":", "=", "=Plan:"])), min_size=1, max_size=3),
    st.sampled_from([" ", "\n", "  \t"]),
    st.booleans(),
)
def test_whatever_is_quoted_comes_back(members: list[tuple[str, str, str, str]], space: str, detach: bool) -> None:
    parts = [label + sign + quoted(prompt, quote) for label, prompt, quote, sign in members]
    found = parse_parallel(space.join([*(["--detach"] if detach else []), *parts]))
    assert [(m.label, m.prompt) for m in found.members] == [(label, prompt) for label, prompt, _, _ in members]
    assert found.detach is detach


@given(prompts, quotes)
def test_whatever_is_quoted_is_the_prompt(prompt: str, quote: str) -> None:
    assert one(quoted(prompt, quote)).prompt == prompt


@given(st.text())
def test_any_text_is_read_or_refused_in_words(text: str) -> None:
    for parse in (parse_run, parse_parallel):
        try:
            found = parse(text)
        except WrongUse as wrong:
            assert wrong.why
        else:
            assert isinstance(found, TaskRequest) and all(member.prompt.strip() for member in found.members)
