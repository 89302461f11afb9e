"""A program kept in a pty: watched, typed into, asked how it is, and ended, by any number of clients."""
