"""The train: finished work lands on a branch in order, checked, and the branch never breaks.

Words:
    train      what lands on one branch of one repository: its record is `train.NAME` in the fleet's store
    change     the commit of a finished order that wants to land
    car        one or more changes merged onto a commit and checked together
    row        cars that build on each other, the first on the branch's tip; cars apart are checked alone
    state      where a change is, one table for all who say it: `changes`
    conductor  runs the trains of a machine while its node schedules
    forge      GitHub, GitLab or Forgejo: a change is a pull request there, and its checks are a verdict

Flow: an order that names a branch leaves a mark when it is done; the conductor queues it. `queue` decides what
to build, check, land or leave out; `train` does it: `bench` builds cars in a store beside the branch, a check runs
as an order of the fleet, and the branch moves (`forge/branch`). What was red or in conflict goes back to its author,
then to a reconciler, then to a person (`returned` decides, `sending` does it). `reverting` takes landed work back.

Promises, and who keeps each:
    What lands is the tree that was checked.                                                    bench, train
    Branch and record change only by compare-and-set: several trains at once do no harm.        train
    A landing is intent, move, proof; after the intent it is only carried forward.              train, queue
    A car that is built twice is the same commit.                                               bench
    Only the first car's verdict counts, so no change is blamed for another's fault.            queue
    A red change is checked once more before it is left out.                                    queue
    A landed commit names its orders; `blame` finds them from a line.                           bench, blame
    What passes (a remote that is away) is tried again by itself; the record says when.         fleet/engine/controller

`goals`, `serve` and `cli` import it; it imports `fleet`, `workspace` and what is below. How orders are worked on is in
`fleet`; the format of the record is in `wire/fleet/train.py`. The reasons are in docs/explanation/landing.md.
"""
