"""Content blocks of the Agent Client Protocol, read as text and written from text."""

from typing import Any

from treadle.wire.common.images import decoded, encoded, media_type


def text_block(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def text_of(block: Any) -> str:
    """A block as readable text; a block that is not text is named in brackets."""
    if not isinstance(block, dict):
        return ""
    kind = block.get("type")
    if kind == "text":
        return _text(block.get("text"))
    if kind == "resource_link":
        return f"[{_text(block.get('name')) or 'file'}: {_text(block.get('uri'))}]"
    if kind == "resource":
        inside = block.get("resource")
        resource = inside if isinstance(inside, dict) else {}
        return _text(resource.get("text")) or f"[{_text(resource.get('uri'))}]"
    return f"[{kind}]" if isinstance(kind, str) else ""


def image_block(data: bytes) -> dict[str, Any]:
    return {"type": "image", "data": encoded(data), "mimeType": media_type(data)}


def prompt_images(blocks: Any) -> tuple[bytes, ...]:
    """The images of a prompt, decoded but not checked."""
    given = [block for block in (blocks if isinstance(blocks, list) else []) if isinstance(block, dict)]
    return tuple(decoded(block.get("data")) for block in given if block.get("type") == "image")


def prompt_text(blocks: Any) -> str:
    """A prompt as one text. A file that the client embedded is named, followed by its content."""
    parts = []
    for block in blocks if isinstance(blocks, list) else []:
        if isinstance(block, dict) and block.get("type") == "image":
            continue
        text = text_of(block)
        inside = block.get("resource") if isinstance(block, dict) else None
        if isinstance(inside, dict) and isinstance(inside.get("text"), str):
            text = f'<file uri="{_text(inside.get("uri"))}">\n{text}\n</file>'
        parts.append(text)
    return "\n".join(part for part in parts if part)


def texts_in(content: Any) -> str:
    """The text of a tool call's content: its blocks, without diffs and terminals."""
    found = [
        text_of(item.get("content"))
        for item in (content if isinstance(content, list) else [])
        if isinstance(item, dict) and item.get("type") == "content"
    ]
    return "\n".join(text for text in found if text)


def diffs_in(content: Any) -> list[dict[str, Any]]:
    """The diffs in a tool call's content that name their file."""
    return [
        item
        for item in (content if isinstance(content, list) else [])
        if isinstance(item, dict) and item.get("type") == "diff" and isinstance(item.get("path"), str)
    ]


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
