"""Settings of an agent that starts servers itself."""

MCP_SERVERS = {
    "notebook": {"command": ["notes-server"], "args": [], "timeout": 120},
}
