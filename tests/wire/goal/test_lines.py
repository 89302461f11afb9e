"""Where a TOML text says what: found for every text that a writer of TOML can make."""

import tomlkit
from hypothesis import given
from hypothesis import strategies as st

from treadle.wire.goal.plan import lines_of

TEXT = '''goal = "a # b [[order]]"
budget = {
  usd = 1,
}
[roles]
worker = "x"
[[order]]
id = "a"
task = """
id = "not a key"
[[order]]
"""
claims = [
  "x", # ] a comment
  "y",
]
on_red = "author"
[[ order ]]
"id" = 'b'
'''


def test_tables_and_keys_are_found_by_their_path_and_texts_are_not() -> None:
    assert lines_of(TEXT) == {
        "goal": 1,
        "budget": 2,
        "roles": 5,
        "roles.worker": 6,
        "order[0]": 7,
        "order[0].id": 8,
        "order[0].task": 9,
        "order[0].claims": 13,
        "order[0].on_red": 17,
        "order[1]": 18,
        "order[1].id": 19,
    }


texts = st.text(
    st.characters(codec="utf-8", exclude_characters="\0\x7f", exclude_categories=("Cs", "Cc")) | st.just("\n")
)


@given(st.lists(st.tuples(texts, st.lists(texts, max_size=3)), min_size=1, max_size=5))
def test_whatever_the_texts_are_each_key_is_on_its_line(orders: list[tuple[str, list[str]]]) -> None:
    document = tomlkit.document()
    tables = tomlkit.aot()
    for task, claims in orders:
        table = tomlkit.table()
        table.add("task", tomlkit.string(task, multiline=True) if '"' not in task and "\\" not in task else task)
        table.add("claims", claims)
        tables.append(table)
    document.add("order", tables)
    lines = tomlkit.dumps(document).split("\n")
    found = lines_of("\n".join(lines))
    assert len(found) == 3 * len(orders)
    for number in range(len(orders)):
        assert lines[found[f"order[{number}]"] - 1] == "[[order]]"
        assert lines[found[f"order[{number}].task"] - 1].startswith("task = ")
        assert lines[found[f"order[{number}].claims"] - 1].startswith("claims = ")
