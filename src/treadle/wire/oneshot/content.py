"""The content of a `user` record on stdin, as a text and images. What the model could not be shown is refused."""

from typing import Any

from treadle.errors import Unsupported
from treadle.wire.common.images import decoded

HINT = "save it as a file and name its path in the text: the agent has tools to read files"


def prompt_of(content: Any) -> tuple[str, tuple[bytes, ...]]:
    """A string, or a list of blocks. Raises Unsupported for a block that is neither text nor an image."""
    if not isinstance(content, list):
        return content if isinstance(content, str) else "", ()
    texts: list[str] = []
    images: list[bytes] = []
    for block in content:
        source = block.get("source") if isinstance(block, dict) else None
        match block:
            case {"type": "text", "text": str(text)}:
                texts.append(text)
            case {"type": "image", "source": {"type": "base64", "data": data}}:
                images.append(decoded(data))
            case {"type": "document", "source": {"type": "text", "data": str(text)}}:
                texts.append(f"<document>\n{text}\n</document>")
            case {"type": str(kind)}:
                form = source.get("media_type") or source.get("type") if isinstance(source, dict) else None
                named = f"{kind} ({form})" if form else kind
                raise Unsupported(f"a prompt cannot have a block of the kind {named}", hint=HINT)
            case _:
                raise Unsupported(
                    "a prompt has a block without a type", hint='a block is {"type": "text", "text": ...}'
                )
    return "\n".join(texts), tuple(images)
