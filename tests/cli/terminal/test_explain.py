"""`treadle explain`: what a state rests on."""

import json
import tomllib
from pathlib import Path

import pytest

from tests.cli.terminal.shells import Here
from tests.terminal.recordings import load
from tests.terminal.support import connected, until
from treadle.io import paths
from treadle.terminal.places import Place


@pytest.fixture
def asks(here: Here, tmp_path: Path) -> Place:
    """A terminal that shows how Gemini CLI asks for a permission."""
    recording = load("gemini-perm-allow")
    at = next(moment["byte"] for moment in recording.moments if moment["truth"] == "permission")
    (tmp_path / "screen").write_bytes(recording.data[:at])
    place = here.stage.start("sh", "-c", f"cat {tmp_path}/screen; exec cat", id="g", cols=110, rows=40)
    with connected(place) as client:
        until(lambda: client.detail()["state"]["name"] == "permission")
    return place


def test_explain_says_what_a_state_rests_on(here: Here, asks: Place) -> None:
    text = here("explain", "g")
    found = json.loads(here("explain", "g", "--json"))
    lines = text.splitlines()
    assert lines[:3] == [
        "state:    permission",
        f"because:  {found['why']['source']}: {found['why']['said']}",
        "agent:    gemini, known by sight",
    ]
    assert f"table:    {found['table']}" in lines and "box:      no input box" in lines
    seen = [sign for sign in found["signs"] if sign["seen"] is not None]
    at = lines.index("signs that are seen:")
    assert lines[at + 1 : lines.index("dialog:")] == [
        f"  {sign['state']:10} {sign['where']:8} {sign['seen']}" for sign in seen
    ]
    assert seen and len(seen) < len(found["signs"]) and "Allow execution of" in text
    assert [line for line in lines[at:] if line in ("dialog:", "status:", "last:")] == ["dialog:", "status:", "last:"]
    dialog = lines[lines.index("dialog:") + 1 : lines.index("status:")]
    assert len(dialog) == 8 and all(line.startswith("  | ") and line[4:].strip() for line in dialog)
    code, out, err = here.run("send", "g", "next", "thing", "--enter")
    assert (code, out) == (3, "") and "permission" in err


def test_a_program_that_is_not_known_has_no_table_and_no_moments(here: Here) -> None:
    place = here.stage.start("sh", "-c", r"printf '\033]0;its title\007'; exec cat", id="c")
    with connected(place) as client:
        until(lambda: client.explain()["title"])
    lines = here("explain", "c").splitlines()
    assert len(lines) == 6 and lines[2:5] == [
        "agent:    none that is known",
        "title:    its title",
        "report:   (none)",
    ]
    code, out, err = here.run("explain", "c", "--record", "idle")
    assert (code, out) == (1, "") and "its agent is not known" in err


def test_the_screen_is_added_to_the_moments_of_its_table(here: Here, asks: Place, tmp_path: Path) -> None:
    path = tmp_path / "new" / "m.toml"
    for _ in range(2):
        assert here("explain", "g", "--record", "permission", "--to", str(path)) == f"added to {path}\n"
    moments = tomllib.loads(path.read_text())["moment"]
    assert [moment["state"] for moment in moments] == ["permission", "permission"]
    assert "Allow execution of" in "".join(moments[0]["screen"])
    own = Path(paths.config_file()).parent / "detectors" / "gemini.moments.toml"
    assert here("explain", "g", "--record", "question") == f"added to {own}\n"
    assert tomllib.loads(own.read_text())["moment"][0]["state"] == "question"
