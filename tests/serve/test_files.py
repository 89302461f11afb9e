"""The page's own files: all of them in the package, small, and nothing that could run what an agent said."""

import re
from pathlib import Path

from tests.serve.conftest import Web
from treadle.serve import files

WEB = Path(files.__file__).parent / "web"


def test_the_page_is_small_and_asks_no_other_host() -> None:
    loaded = files.load()
    assert {"/", "/app.js", "/style.css", "/icon.svg"} <= set(loaded)
    assert sum(len(file.packed) for file in loaded.values()) < 70_000
    assert sum(len(file.plain) for file in loaded.values()) < 190_000
    for file in loaded.values():
        text = file.plain.decode().replace("http://www.w3.org/2000/svg", "")
        assert not re.search(r"(src|href)=.https?:|url\(|@import|from .https?:", text)


def test_no_script_makes_markup_of_a_text() -> None:
    for path in WEB.glob("*.js"):
        found = re.findall(
            r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|new Function|srcdoc", path.read_text()
        )
        assert found == [], path.name


def test_every_module_that_is_imported_is_there() -> None:
    for path in WEB.glob("*.js"):
        for name in re.findall(r"""(?:from|import\()\s*["']\./([\w.]+)["']""", path.read_text()):
            assert (WEB / name).exists(), f"{path.name} imports {name}"


async def test_a_file_is_sent_packed_once_and_not_again_while_it_is_the_same(alone: Web) -> None:
    first = await alone.http.get("/app.js", headers={"accept-encoding": "gzip"})
    assert first.headers["content-encoding"] == "gzip" and first.headers["content-type"].startswith("text/javascript")
    again = await alone.http.get("/app.js", headers={"if-none-match": first.headers["etag"]})
    assert again.status_code == 304 and again.content == b""
    plain = await alone.http.get("/app.js", headers={"accept-encoding": "identity"})
    assert plain.content == files.load()["/app.js"].plain
