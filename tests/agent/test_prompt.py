"""The system prompt."""

from datetime import date

from treadle.agent import session


def build(**more: str | None) -> str:
    return session.build(cwd="/work", mode=more.pop("mode", None), today=date(2026, 1, 2), **more)  # type: ignore[arg-type]


def test_plan_mode_and_what_the_project_says_are_added_in_order() -> None:
    text = build(mode="plan", knowledge="K", skills="S", append="A")
    assert session.PLANNING in text and text.endswith("K\n\nS\n\nA")
    assert session.PLANNING not in build(mode="suggest", knowledge="K")
    assert f"Date: {date.today()}" in session.build(cwd="/work", mode=None)
    assert (
        "{editing}" not in text
        and "Patch." in build(editing="Patch.")
        and build(persona="") == build(persona="", append="")
    )
