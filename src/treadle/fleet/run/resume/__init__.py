"""How the next attempt continues where the last one was cut off: checkpoints, and the agent's own session files.

Which attempt counts is decided in `schedule`.
"""
