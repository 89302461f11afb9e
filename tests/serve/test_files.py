"""The page's own files: all of them in the package, small, and nothing that could run what an agent said."""

import gzip
import re
from pathlib import Path

import pytest
from starlette.requests import Request

from tests.serve.conftest import Web
from treadle.serve import server

WEB = Path(server.__file__).parent / "web"


def test_the_page_is_small_and_asks_no_other_host() -> None:
    loaded = server.load()
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
    assert plain.content == server.load()["/app.js"].plain


@pytest.mark.parametrize(
    ("headers", "status", "encoding"),
    [
        ({}, 200, None),
        ({"accept-encoding": "br, gzip"}, 200, "gzip"),
        ({"accept-encoding": "br"}, 200, None),
        ({"if-none-match": "TAG"}, 304, None),
        ({"if-none-match": '"other"', "accept-encoding": "gzip"}, 200, "gzip"),
    ],
)
def test_a_file_is_sent_as_it_is_asked_for(headers: dict[str, str], status: int, encoding: str | None) -> None:
    file = server.WebFile("a.css", b"body {}" * 100)
    given = [(name.encode(), value.replace("TAG", file.tag).encode()) for name, value in headers.items()]
    response = file.response(Request({"type": "http", "headers": given}))
    assert response.status_code == status and response.headers.get("content-encoding") == encoding
    assert (response.headers["etag"], response.headers["cache-control"]) == (file.tag, "no-cache")
    assert response.headers["vary"] == "accept-encoding"
    expected = b"" if status == 304 else file.packed if encoding else file.plain
    assert response.body == expected and gzip.decompress(file.packed) == file.plain == b"body {}" * 100
    assert status == 304 or response.headers["content-type"] == "text/css; charset=utf-8"
    assert server.WebFile("a.css", b"other").tag != file.tag


def test_only_what_a_page_can_be_made_of_is_a_file_of_it_and_the_page_itself_is_the_root() -> None:
    loaded = server.load()
    assert loaded["/"].kind.startswith("text/html") and "/index.html" not in loaded
    assert {path[1:] for path in loaded if path != "/"} == {
        path.name for path in WEB.iterdir() if path.suffix[1:] in server.KINDS and path.name != "index.html"
    }
    assert not [path for path in loaded if path.endswith(".py")]
