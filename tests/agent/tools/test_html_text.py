import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle.agent.tools.web_fetch import to_text

PAGE = """<!DOCTYPE html>
<html><head><title>The  title</title><style>p { color: red }</style>
<script>if (a < b) { alert("</p>") }</script></head>
<body>
<!-- <p>not this</p> -->
<h1>Head &amp; shoulders</h1>
<p>One   paragraph
over two lines with <b>bold</b>, <a href="/rel?a=1&amp;b=2">a link</a> and <a href='#x'>an anchor</a>.</p>
<ul><li>first<li>second <em>item</em></li></ul>
<pre>
def f():
    return 1 &lt; 2
</pre>
<table><tr><th>a</th><th>b</th></tr><tr><td>1</td><td>2</td></tr></table>
</body></html>
"""


def test_structure_survives_and_code_does_not() -> None:
    assert to_text(PAGE, "https://example.org/dir/page") == (
        "The title\n\n# Head & shoulders\n\n"
        "One paragraph\nover two lines with **bold**, [a link](https://example.org/rel?a=1&b=2)"
        " and [an anchor](https://example.org/dir/page#x).\n\n"
        "- first\n- second *item*\n\n"
        "```\ndef f():\n    return 1 < 2\n```\n\n"
        "| a | b |\n| --- | --- |\n| 1 | 2 |"
    )


@pytest.mark.parametrize(
    ("page", "text"),
    [
        ("just text", "just text"),
        ("a < b and c > d", "a < b and c > d"),
        ("open <!-- never closed", "open"),
        ("open <a href='x", "open"),
        ("<script>never closed", "never closed"),
        ("<SCRIPT>x</ScRiPt >after", "after"),
        ("&#65;&nbsp;&unknown;", "A &unknown;"),
        ("</p></p></a>x", "x"),
        ("İ<script>x</script>y", "İy"),
    ],
)
def test_broken_pages_are_read_as_far_as_they_go(page: str, text: str) -> None:
    assert to_text(page) == text


@pytest.mark.parametrize(
    "piece", ["<", "<!--", "<a ", "<script>", "<!", "</", "&", "<pre>", "<a href=", "[", "<p>", "x<"]
)
def test_a_hostile_page_takes_linear_time(piece: str) -> None:
    assert isinstance(to_text(piece * (400_000 // len(piece))), str)


@given(
    st.lists(st.sampled_from(["<", ">", "/", "a", "script", "!--", "-->", " ", "&lt;", "\n", "pre", "é", "href='x'"]))
)
def test_anything_is_text(parts: list[str]) -> None:
    assert isinstance(to_text("".join(parts), "http://x/"), str)


def test_links_stay_as_they_are_without_an_address_and_images_and_metadata_are_left_out() -> None:
    page = (
        '<html><head><meta name="description" content="m"></head><body><a href="/x">l</a><img src="i" alt="a"></body>'
    )
    assert to_text(page) == "[l](/x)" and to_text(page, "https://h/d/") == "[l](https://h/x)"
