"""Patches with context: what they say, and where they fit."""

from hypothesis import given
from hypothesis import strategies as st

from treadle.agent.tools.apply_patch import BEGIN, END, apply, parse


def patched(text: str, *lines: str) -> str:
    (one,) = parse("\n".join([BEGIN, "*** Update File: f", *lines, END]))
    return apply(text, one.hunks)


@given(
    st.lists(st.text("ab \t{}", max_size=4), min_size=1, max_size=12),
    st.integers(0, 11),
    st.integers(0, 4),
    st.lists(st.text("xyz", max_size=3), max_size=4),
)
def test_a_patch_with_all_of_the_file_as_its_context_makes_exactly_its_change(
    lines: list[str], at: int, removed: int, added: list[str]
) -> None:
    at = min(at, len(lines))
    gone = lines[at : at + removed]
    hunk = [*(f" {line}" for line in lines[:at]), *(f"-{line}" for line in gone), *(f"+{line}" for line in added)]
    hunk += [f" {line}" for line in lines[at + len(gone) :]]
    after = [*lines[:at], *added, *lines[at + len(gone) :]]
    assert patched("".join(f"{line}\n" for line in lines), "@@", *hunk) == "".join(f"{line}\n" for line in after)
