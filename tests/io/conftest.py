"""What is opened here is closed here."""

from tests.descriptors import nothing_left_open

__all__ = ["nothing_left_open"]
