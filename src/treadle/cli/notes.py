"""What a person should know before the first turn: ignored settings, servers that did not start."""

from treadle.events import Warned
from treadle.session import Session


def opening_notes(session: Session) -> list[str]:
    """The warnings of a session that was just opened."""
    return [event.message for event in session.events().ready() if isinstance(event, Warned)]
