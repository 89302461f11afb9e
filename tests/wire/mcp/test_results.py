import msgspec

from treadle.wire.mcp.connection import Greeting, ResultPart, ServerResult, ServerTool, ToolPage


def test_a_result_is_read_under_the_names_of_the_protocol() -> None:
    block = {"type": "image", "data": "AA==", "mimeType": "image/png", "annotations": {}}
    read = msgspec.convert({"content": [block], "structuredContent": [1], "isError": True, "_meta": {}}, ServerResult)
    shown = ResultPart(type="image", data="AA==", mime_type="image/png")
    assert read == ServerResult(content=[shown], structured_content=[1], is_error=True)


def test_a_page_of_tools_and_a_greeting_need_little() -> None:
    page = msgspec.convert({"tools": [{"name": "x", "inputSchema": {}}], "nextCursor": "2"}, ToolPage)
    assert page == ToolPage(tools=[ServerTool(name="x", input_schema={})], next_cursor="2")
    assert msgspec.convert({"protocolVersion": "2025-11-25"}, Greeting).protocol_version == "2025-11-25"


def test_a_result_that_does_not_say_so_is_no_error() -> None:
    assert not ServerResult().is_error and msgspec.convert({}, ToolPage) == ToolPage()
