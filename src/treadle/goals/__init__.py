"""A goal in place of orders: a plan that people can read, worked out into waves and checked before anything runs.

waves      which orders can go together, and which claims overlap
check      what a plan will do in a repository: waves, briefs, tokens, and what is wrong with it there
imported   plans from other tools' lists and back: checklists, Markdown tasks, beads, Task Master

The format itself is in `wire/goal`, so that what lies below can read it too.

Orders are run by `fleet` and landed by `landing`: nothing here runs an agent.
"""
