"""Keeps programs running in a pty. Any number of clients can watch them, type into them, query and end them."""
