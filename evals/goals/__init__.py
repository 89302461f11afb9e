"""Goals of four to eight orders on small repositories: delta briefs against verbatim ones, a planner against none, with
and without review, and one agent that does all of it."""
