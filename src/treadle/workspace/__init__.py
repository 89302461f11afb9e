"""The files that an agent works on: where they are, what changed in them, and how changes reach a repository.

An agent can write any file in its workspace, also `.git/config` and hooks, which name programs to run. So no git of
ours runs where an agent could have written. Files are read by our own code, hashed into a store of ours, and everything
that is stated, applied or sent on comes from that store.

Words:
    workspace   where a run works: a copy, a directory written from a commit, or the directory itself
    store       a bare git directory of ours that no sandbox shows
    tree        git's tree: the content of a directory, by its hash
    private git the git directory that an agent sees in place of the user's; it borrows the user's objects
    in place    working in the user's own checkout, with a private git mounted over its `.git`
    takeover    moving refs, HEAD and index of the user's repository to what the agent did in its private one
    user repository   the person's own: only its refs and objects are used, by name

Flow: `workspace` prepares a directory (`directories`, `private_git`); a program works there; the directory is taken
into the store as one tree; `changes` compares trees; `merge` with `journal` applies the difference to a directory, or
`branch_merges` and `branch_moves` bring it onto a branch. `in_place` does the same for a checkout, after each command.

Promises, and who keeps each:
    What is applied was hashed when it was read: it is the tree that was stated.                store, merge
    A link in a directory is never followed.                                                    directories
    Many files change as one step; a kill half-way is finished or undone.                       journal
    A branch moves by compare-and-set, with the clean checkouts that have it.                   branch_moves
    A push that may have arrived is judged by the branch, not by the exit code.                 remotes
    Unapplied changes are kept until a person discards them.                                    workspace

Rooms above may import it; it imports `io`, `policy` and what is below. Who may write what is in `policy`, what a
sandbox shows is in `sandboxed`, which order works where is in `fleet`. Most functions block: call them in a thread.
"""
