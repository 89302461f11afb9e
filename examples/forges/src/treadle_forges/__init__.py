"""GitLab, Forgejo and Gitea as forges of `treadle land` and `treadle goal`."""
