"""Comments of a reviewer: read, quoted with the line that they are about, sent back together."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle.errors import ConfigError
from treadle.fleet.review import reviews
from treadle.fleet.review.reviews import Comment

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
    assert reviews.parse(text) == [
        Comment(text="Nice, but:"),
        Comment(path="shop.py", line=2, text="a better name\nand a test"),
        Comment(path="added.txt", line=1, text="why?"),
    ]


def test_comments_may_be_json() -> None:
    assert reviews.parse('[{"path": "a", "line": 3, "text": "x"}]') == [Comment(path="a", line=3, text="x")]
    with pytest.raises(ConfigError, match="not comments"):
        reviews.parse('[{"path": 3}]')


def test_each_comment_is_quoted_with_its_line_of_the_new_file() -> None:
    assert reviews.lines_of(PATCH) == {
        "shop.py": {1: "import os", 2: "new = 1", 3: "more = 2", 4: "end = 3"},
        "added.txt": {1: "first", 2: "+++ not a header"},
    }
    text = reviews.written(reviews.parse("shop.py:3: needed?\nshop.py:99: hm"), PATCH)
    assert text == "shop.py:3\n> more = 2\nneeded?\n\nshop.py:99\nhm"


@given(st.text())
def test_any_text_is_comments_or_refused(text: str) -> None:
    try:
        found = reviews.parse(text)
    except ConfigError:
        return
    assert all(isinstance(each, Comment) for each in found)
    reviews.lines_of(text)
