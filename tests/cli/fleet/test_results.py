"""What came of orders, as a person asks for it."""

from tests.cli.fleet.commands import as_json, fleet


def test_what_changed_nothing_is_said_to_and_a_race_is_compared(running: None) -> None:
    first, second = fleet("submit", "x", "--agent", "null", "--best-of", "2").split()
    fleet("wait", first, second, "--timeout", "60")
    assert "has left no changes" in fleet("diff", first, code=1)
    assert "not checked by a command: x" in fleet("review", first) and "no changes" in as_json("review", first)["patch"]
    assert {row["order"] for row in as_json("compare", first)} == {first, second}
    assert fleet("compare", second).splitlines()[0].split()[:3] == ["PLACE", "ORDER", "STATE"]
    assert "is not in a git repository" in fleet("merge", first, "--into", "/", code=1)
    assert as_json("discard", first[:6]) == [{"id": first, "discarded": True}]
