"""Changes are shown with the words of their languages marked, and without where that takes too long."""

import pytest

from treadle.serve import colours

PATCH = """diff --git a/loom.py b/loom.py
--- a/loom.py
+++ b/loom.py
@@ -1,2 +1,2 @@
 import os
-colour = "red"  # the old one
+colour = 3
diff --git a/notes.unknown b/notes.unknown
--- a/notes.unknown
+++ b/notes.unknown
@@ -1 +1 @@
-if
+else
"""


@pytest.fixture(autouse=True)
def nothing_remembered() -> None:
    colours.shown.cache_clear()


def test_each_side_is_read_as_its_language() -> None:
    python, unknown = colours.shown(PATCH).files
    _, same, before, now = python.lines
    assert ("k", "import") in same.parts
    assert ("s", '"red"') in before.parts and before.parts[-1] == ("c", "# the old one")
    assert ("n", "3") in now.parts
    for line in python.lines[1:]:
        assert "".join(text for _, text in line.parts) == line.text
    assert all(not line.parts for line in unknown.lines) and colours.shown(PATCH).plain == ""


def test_what_cannot_be_read_in_time_is_shown_plain_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(colours, "SECONDS", 0.001)
    found = colours.shown(PATCH)
    assert "in time" in found.plain and [line.text for line in found.files[0].lines][1] == "import os"


def test_what_is_no_text_to_read_is_shown_plain_and_says_so() -> None:
    wide = f"diff --git a/x.js b/x.js\n@@ -0,0 +1 @@\n+{'x' * 3000}\n"
    assert "characters" in colours.shown(wide).plain
    long = "diff --git a/x.js b/x.js\n@@ -0,0 +1,20001 @@\n" + "+x\n" * 20001
    assert "20,000 lines" in colours.shown(long).plain
