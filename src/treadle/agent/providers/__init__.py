"""Model providers: three HTTP wire formats over one client, and the scripted one.

Most services speak one of the formats: try `TREADLE_BASE_URL=https://HOST/v1 TREADLE_MODEL=chat:MODEL`. To name one,
add a line to `VENDORS` in `names.py`. A new format is one file without I/O; the client, retries, time limits, errors
and event framing are shared (`http.py`). It has a struct with

    path: str
    headers(key) -> dict[str, str]
    body(request: ModelRequest, provider, model) -> bytes
    reader(provider, model)      with `done`, `read(events: list[bytes]) -> list[ReplyItem]`, `reply() -> Reply`

What the contract test checks: token counts do not overlap, and what the service did not report is None; tool
arguments are kept as the model wrote them, and only well-formed ones are sent back (`arguments`); reasoning goes back
only to the provider that it came from, unchanged; an error inside the stream is raised with `from_event`, unknown
events are skipped; a reply that is not whole raises `cut()`; `decode` turns garbage into a clear error.

Then let `_format` in `names.py` return it, add a format to `testing/server.py` (`asked`, `events`, `whole`, `failure`)
with its path in `FORMATS` of `testing/server.py`, and the name to `WIRES` in `tests/agent/providers/helpers.py`.
"""
