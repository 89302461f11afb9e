"""Shared files for agents in one repository: symbols, capsules, facts, ledger, identities, claims.

Orders and machines are not known here; the fleet uses surfaces and claims from here.
"""
