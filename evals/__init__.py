"""How good is the agent? Thirty small tasks with checkers that run, for any model and any agent, compared in pairs.

`python -m evals --help`, `make eval`. The how-to page is docs/how-to/measure-an-agent.md.
"""
