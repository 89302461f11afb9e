"""The plan of a goal, `goal.toml`: what is wanted, how it is proved, and the orders that lead there.

A plan is a file that people read, write and change; planners write it too. It says nothing about progress: which orders
have landed is kept by the fleet, so a plan never conflicts with itself. It is a format and not a conversation, so this
folder has no `Connection`.

plan     the fields
reading  how a text becomes a `GoalPlan`, or a list of mistakes, each with its line
lines    where in the text a table and its keys stand
The format is described in docs/reference/goal.md.
"""
