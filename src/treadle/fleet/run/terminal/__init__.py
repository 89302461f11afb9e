"""Orders whose agent runs in a terminal: the program, its socket reached from any machine, and what it asks.

Terminals themselves are in `treadle.terminal`.
"""
