"""How good is the agent? Thirty small tasks with checkers that run, for any model and any agent, compared in pairs.

`python -m evals --help`, `make eval`. README.md shows how to use it.
"""
