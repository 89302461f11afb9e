"""Shows the end of a session that is resumed."""

from treadle.agent.messages import AssistantMessage, UserMessage
from treadle.agent.session_list import find_session
from treadle.agent.transcript import Transcript
from treadle.cli.chat.page import Page
from treadle.cli.chat.prose import Prose, trimmed
from treadle.cli.render import printable
from treadle.errors import TreadleError


def last_words(session_id: str, page: Page) -> str:
    """The last prompt and the last answer, ready to print; empty for sessions that another program stores."""
    try:
        messages = Transcript.read(find_session(session_id)).view()
    except TreadleError:
        return ""
    asked = next((one.text for one in reversed(messages) if isinstance(one, UserMessage) and one.text), "")
    answer = next((one.text for one in reversed(messages) if isinstance(one, AssistantMessage) and one.text), "")
    shown = page.prompt(asked) or f"> {printable(asked)}\n" if asked else ""
    drawn = page.draw(Prose(printable(answer), page.theme))
    return "\n" + shown + (trimmed(drawn) + "\n" if answer else "")
