"""The branch of a train, and forges that move it: a change is a pull request there, and its checks are a verdict.

interface   what a forge must offer; one of another distribution is an entry point of `treadle.forges`
kinds       which forge a name means
github      the HTTP API of GitHub, and what Forgejo and Gitea share with it
branch      the branch that a train lands on: of the repository, behind a remote, or moved by a forge

Everything else about landing is the same as for other branches.
"""
