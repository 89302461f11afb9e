"""A run of some agents, or of a part, leaves the rest of the tables in the docs as they are."""

from tests.live import shown, test_matrix


def test_the_table_of_wires_is_read_back_from_its_page() -> None:
    text = test_matrix.PAGE.read_text()
    found = test_matrix.on_the_page(text)
    assert len(found) >= 90 and test_matrix.page(found) == text
    cell = {**found["gemini text"], "resumed": "ok"}
    changed = test_matrix.page({**found, "gemini text": cell})
    assert "(gemini over all)" in text and "(gemini over json, " in changed
    assert test_matrix.on_the_page(changed)["gemini text"] == cell


def test_the_table_of_abilities_is_read_back_from_its_page() -> None:
    found = shown.on_the_page()
    assert found["codex"]["steer"][1][:2] == "20" and len(found) == len(shown.PROGRAMS)
