"""The branch of a train, and forges that move it: a change is a pull request there, and its checks are a verdict.

interface   what a forge must offer; a new one is one module beside `github`
github      the HTTP APIs of GitHub and of Forgejo and Gitea, also of a server of one's own
gitlab      GitLab's HTTP API
branch      the branch that a train lands on: of the repository, behind a remote, or moved by a forge

Everything else about landing is the same as for other branches.
"""
