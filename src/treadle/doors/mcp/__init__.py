"""Agents as tools of an MCP server: any MCP client can put any agent to work."""
