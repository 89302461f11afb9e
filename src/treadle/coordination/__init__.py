"""Shared files for agents in one repository: symbols, capsules, facts, ledger, identities, claims."""
