"""The asking server of FastMCP: package fastmcp, both eras. With the argument
stdio it is on standard input and output."""

import asyncio
import sys

from fastmcp import Context, FastMCP
from mcp_types import InputRequiredResult

from ask import QUESTIONS, converse
from serve import serve

server = FastMCP("toolgate-ask-fastmcp", version="1")


def add(name):
    @server.tool(name=name, output_schema=None)
    async def tool(canary: str, ctx: Context) -> str | InputRequiredResult:
        return await converse(name, canary, ctx, ctx.request_context.protocol_version)

    @server.tool(name="direct_" + name, output_schema=None)
    async def direct(canary: str, ctx: Context) -> str:
        return await converse(name, canary, ctx, ctx.request_context.protocol_version, directly=True)

    @server.prompt(name=name)
    async def prompt(canary: str, ctx: Context) -> str | InputRequiredResult:
        return await converse(name, canary, ctx, ctx.request_context.protocol_version)


for question in QUESTIONS:
    add(question)
asyncio.run(server.run_stdio_async(show_banner=False) if "stdio" in sys.argv else serve(server.http_app()))
