"""Comments of a reviewer: read, quoted with the line that they are about, sent back together."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle.errors import ConfigError
from treadle.fleet import client, results
from treadle.fleet.engine import streams
from treadle.fleet.engine.bus import Bus
from treadle.fleet.orders import encode
from treadle.fleet.results import Comment
from treadle.wire.fleet.orders import Spec
from treadle.wire.fleet.records import Order

PATCH = """diff --git a/shop.py b/shop.py
index 1..2 100644
--- a/shop.py
+++ b/shop.py
@@ -1,3 +1,4 @@
 import os
-old = 1
+new = 1
+more = 2
 end = 3
diff --git a/added.txt b/added.txt
new file mode 100644
--- /dev/null
+++ b/added.txt
@@ -0,0 +1,2 @@
+first
++++ not a header
"""


def test_lines_are_read_as_comments_and_what_follows_belongs_to_them() -> None:
    text = "Nice, but:\nshop.py:2: a better name\nand a test\n\nadded.txt:1: why?\n"
    assert results.parse_comments(text) == [
        Comment(text="Nice, but:"),
        Comment(path="shop.py", line=2, text="a better name\nand a test"),
        Comment(path="added.txt", line=1, text="why?"),
    ]


def test_comments_may_be_json() -> None:
    assert results.parse_comments('[{"path": "a", "line": 3, "text": "x"}]') == [Comment(path="a", line=3, text="x")]
    with pytest.raises(ConfigError, match="not comments"):
        results.parse_comments('[{"path": 3}]')


def test_each_comment_is_quoted_with_its_line_of_the_new_file() -> None:
    assert results.lines_of(PATCH) == {
        "shop.py": {1: "import os", 2: "new = 1", 3: "more = 2", 4: "end = 3"},
        "added.txt": {1: "first", 2: "+++ not a header"},
    }
    text = results.written(results.parse_comments("shop.py:3: needed?\nshop.py:99: hm"), PATCH)
    assert text == "shop.py:3\n> more = 2\nneeded?\n\nshop.py:99\nhm"


@given(st.text())
def test_any_text_is_comments_or_refused(text: str) -> None:
    try:
        found = results.parse_comments(text)
    except ConfigError:
        return
    assert all(isinstance(each, Comment) for each in found)
    results.lines_of(text)


def test_what_is_about_all_of_it_comes_without_a_place_and_a_file_without_a_line() -> None:
    comments = [Comment(text="All."), Comment(path="shop.py", text="File."), Comment(path="new.py", line=1, text="x")]
    assert results.written(comments, PATCH) == "All.\n\nshop.py\nFile.\n\nnew.py:1\nx"
    assert (
        results.parse_comments("  one\n\n two ") == [Comment(text="one\ntwo")] and results.parse_comments(" \n") == []
    )
    with pytest.raises(ConfigError) as refused:
        results.parse_comments(" [3]")
    assert refused.value.hint == '[{"path": ..., "line": 3, "text": ...}]'


async def test_comments_go_back_together_where_the_order_changed_those_files(bus: Bus) -> None:
    for name in ("o1", "o2"):
        await bus.put(f"spec.{name}", encode(Spec(id=name, task="t", base="b0")))
    await streams.put(bus, "patch.o1", PATCH.encode())
    done = Order(id="o1", state="done", changed=1.0, result={"patch": "patch.o1", "commit": "c1"})
    await bus.put("order.o1", encode(done))
    await bus.put("order.o2", encode(Order(id="o2", state="done", changed=1.0)))
    with pytest.raises(ConfigError, match="the order did not change shop.txt") as refused:
        await results.send(bus, "o1", [Comment(path="shop.txt", text="x")])
    assert refused.value.hint == "it changed added.txt, shop.py"
    with pytest.raises(ConfigError) as refused:
        await results.send(bus, "o2", [Comment(path="shop.py", text="x")])
    assert refused.value.hint == "it changed nothing"
    given = await results.send(bus, "o1", results.parse_comments("All.\nshop.py:3: needed?"), by="ana")
    again = await client.get_spec(bus, given.id)
    assert (again.comments, again.by, again.base) == ("All.\n\nshop.py:3\n> more = 2\nneeded?", "ana", "c1")
    plain = await client.get_spec(bus, (await results.send(bus, "o2", [Comment(text="All.")])).id)
    assert (plain.comments, plain.base, plain.continues) == ("All.", "b0", "o2")
