"""The plan of a goal, `goal.toml`: what is wanted, how it is proved, and the orders that lead there.

A plan is a file that people read, write and change; planners write it too. It says nothing about progress: which orders
have landed is kept by the fleet, so a plan never conflicts with itself. It is a format and not a conversation, so this
folder has no `Connection`.

    plan      the fields, and how a text becomes a `GoalPlan` or a list of mistakes, each with its line
    records   what is stored of a goal that is carried out
    verdicts  what agents answer for a goal: a plan, a review, a judgement

The format is described in docs/reference/goal.md.
"""
