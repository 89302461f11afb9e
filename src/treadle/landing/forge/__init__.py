"""Branches that only a forge moves: a change is a pull request there, its checks are a verdict, the forge merges it.

interface   what a forge must offer; a new one is one module beside `github`
github      GitHub's HTTP API, also of a server of one's own
requested   a branch that is moved in this way

Everything else about landing is the same as for other branches.
"""
