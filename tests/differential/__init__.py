"""The same program, behind the same SDK and the same scripted model: Claude Code, and us. See `compare.py`."""
