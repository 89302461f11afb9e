"""What can stand behind `/agent run` and `/agent parallel`, and what is said about the rest."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle.agent.slash_commands import MAX_MEMBERS, TaskRequest, WrongUse, parse_parallel, parse_run


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


@given(st.text())
def test_any_text_is_read_or_refused_in_words(text: str) -> None:
    for parse in (parse_run, parse_parallel):
        try:
            found = parse(text)
        except WrongUse as wrong:
            assert wrong.why
        else:
            assert isinstance(found, TaskRequest) and all(member.prompt.strip() for member in found.members)
