"""What is opened here is closed here."""

from tests.descriptors import nothing_left_open
from tests.machines import old_kernel

__all__ = ["nothing_left_open", "old_kernel"]
