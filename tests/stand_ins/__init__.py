"""Programs that stand in for agents: recorded ones, a sidecar that does one thing wrong; and a clock moved by hand."""

from pathlib import Path

RECORD, REPLAY = (str(Path(__file__).with_name(name)) for name in ("record.py", "replay.py"))
"""Run by their paths, in a Python without site-packages: a test starts hundreds of them."""
