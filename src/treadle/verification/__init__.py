"""Whether work is done: the check of a person, run so that the work cannot decide how it ends.

An agent that is asked to make a check pass can change the code, or the check. So the files of a change are divided:
the *product* is what is checked, the *judge* is what checks it. The check runs on the branch's tree with only the
product files of the work; what the work changed of its judge is shown apart.

Words:
    check      the person's command that says whether work is good, such as `make test`
    judge      tests, their data and helpers, the configuration of the runner, and what would stand in front of it
    product    every other file
    base       the tree that the work began with, or the branch that it is to land on
    corner     old or new product with old or new judge: a tree, and how the check ended on it
    canary     a failing test that we add: a check that does not fail with it would not have noticed anything
    evidence   what was checked and how it ended, by tree and command, with one word for all of it

Flow: `judge` divides the changed files and builds the trees, `canary` plants what must fail, `checking` runs the
check on them and `evidence` finds the word, also from how many tests ran by the runner's own words. `finding` finds
the command that checks a project, and `ending` says what a turn's ending is worth.

Promises, and who keeps each:
    The work's own tests, runner and configuration do not decide its check.                     judge
    A check that cannot fail is not called passed.                                              checking
    A check that ran no test is not called passed, where its runner says how many ran.          evidence
    What was not checked is listed.                                                             evidence

`host`, `landing` and the rooms above import it; it imports `workspace`, `policy` and what is below. It starts no
program: who uses it says how a command is run.
"""
