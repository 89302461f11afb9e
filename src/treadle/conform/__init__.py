"""The conformance kit: does a program keep one of the protocols? Behind `treadle conform`, for anyone's program.

A module for each protocol holds its checks; each is a sentence of the specification and a conversation that shows
whether it is kept. `kit` runs them, `lines` talks to the program, `report` says what was found. The program is only
judged by what it writes and how it ends. Nothing here knows which program that is, and ours is held to the same checks.
"""
