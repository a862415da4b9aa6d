"""The asking server of the Python SDK: package mcp, both eras. With the argument
stdio it is on standard input and output."""

import asyncio
import sys

from mcp.server.mcpserver import Context, MCPServer
from mcp_types import InputRequiredResult

from ask import QUESTIONS, converse
from serve import serve

server = MCPServer("toolgate-ask-python-sdk", version="1", log_level="WARNING")


def add(name):
    # A return type that can say both is how this package learns that one may ask.
    @server.tool(name=name, structured_output=False)
    async def tool(canary: str, ctx: Context) -> str | InputRequiredResult:
        return await converse(name, canary, ctx, ctx.protocol_version)

    @server.tool(name="direct_" + name, structured_output=False)
    async def direct(canary: str, ctx: Context) -> str:
        return await converse(name, canary, ctx, ctx.protocol_version, directly=True)

    @server.prompt(name=name)
    async def prompt(canary: str, ctx: Context) -> str | InputRequiredResult:
        return await converse(name, canary, ctx, ctx.protocol_version)


for question in QUESTIONS:
    add(question)
asyncio.run(server.run_stdio_async() if "stdio" in sys.argv else serve(server.streamable_http_app()))
