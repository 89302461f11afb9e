"""The train: finished work onto a branch, verified, in order, without a person and without ever breaking the branch.

queue     what to build, check and land next: pure functions over the train's record
train     carries that out, for one repository and branch; any number of them at once do no harm
trailers  what a landed commit says of itself; `blame` finds the order of a line by it
bench     the git side of it: cars are built and checked beside the branch
branch    where the branch is, and how it is moved: in the repository, or behind a remote
forge     branches that a forge moves, by pull requests
conductor runs the trains while its node schedules, so that finished work lands by itself (`node` is that process)

What is landed is the tree that was checked, by compare-and-set on the branch. How orders are worked on is in `fleet`.
"""
