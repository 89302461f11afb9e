"""HTML as Markdown for a model to read: headings, lists, links, tables and preformatted text survive.

A library does the work whose time stays proportional to the page's size even on hostile pages, unlike that of Python's
own parser. It is a reader, not a sanitiser.
"""

import html
import re

DEEPEST = 400
"""How deeply elements may be nested; what is deeper is left out."""
NO_TEXT = ["script", "style", "noscript", "template", "svg", "iframe", "textarea", "object", "canvas"]
_TITLE = re.compile(r"<title[^<>]{0,200}>([^<]{1,500})", re.I)
_HEAD = 16 << 10
"""How many characters are searched for a title."""


def to_text(page: str, base: str = "") -> str:
    """Links are made absolute with `base`. A page that cannot be read gives an empty text."""
    from html_to_markdown import ConversionOptions, convert

    options = ConversionOptions(
        base_url=base or None,
        skip_images=True,
        extract_metadata=False,
        max_depth=DEEPEST,
        exclude_selectors=NO_TEXT,
    )
    text = (convert(page.encode("utf-8", "replace").decode(), options).content or "").strip()
    title = _TITLE.search(page[:_HEAD])
    return f"{' '.join(html.unescape(title[1]).split())}\n\n{text}".strip() if title else text
