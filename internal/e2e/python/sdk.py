"""The Python SDK: package mcp."""

import asyncio
from contextlib import asynccontextmanager

import httpx2
import mcp_types
from mcp.client import Client
from mcp.client.sse import sse_client
from mcp.client.stdio import StdioServerParameters
from mcp.client.streamable_http import streamable_http_client

from script import Adapter, authorization, main


class SDK(Adapter):
    def __init__(self, client, changed, stack):
        self.client, self.changed, self.stack = client, changed, stack
        self.protocol = client.protocol_version

    async def tools(self):
        return [t.name for t in (await self.client.list_tools()).tools]

    async def prompts(self):
        return [p.name for p in (await self.client.list_prompts()).prompts]

    async def resources(self):
        return [str(r.uri) for r in (await self.client.list_resources()).resources]

    async def templates(self):
        return [t.uri_template for t in (await self.client.list_resource_templates()).resource_templates]

    async def call(self, name, arguments, on_progress=None):
        async def progress(value, _total, _message):
            await on_progress(value)

        return await self.client.call_tool(name, arguments, progress_callback=progress if on_progress else None)

    async def read(self, uri):
        return (await self.client.read_resource(uri)).contents[0].text

    async def prompt(self, name, arguments):
        return (await self.client.get_prompt(name, arguments)).messages[0].content.text

    async def watch(self):
        if self.protocol < "2026-07-28":
            return self.changed
        # A modern client hears of changes only on a stream that it asks for.
        opened = asyncio.Event()

        async def follow():
            async with self.client.listen(tools_list_changed=True) as events:
                opened.set()
                async for _ in events:
                    self.changed.set()

        self.stack.append(asyncio.create_task(follow()))
        await asyncio.wait_for(opened.wait(), 5)
        return self.changed


def answering(person):
    """Returns what a client needs to answer as person does, nothing for None."""
    if person is None:
        return {}

    async def elicit(_context, params):
        content = person.elicit(params.message)
        if content is None:
            return mcp_types.ElicitResult(action="decline")
        return mcp_types.ElicitResult(action="accept", content=content)

    async def sample(_context, params):
        return person.sample(params.messages)

    async def roots(_context):
        return mcp_types.ListRootsResult(roots=person.roots())

    return {"elicitation_callback": elicit, "sampling_callback": sample, "list_roots_callback": roots}


@asynccontextmanager
async def connect(target, person=None):
    changed = asyncio.Event()

    async def on_message(message):
        if isinstance(message, mcp_types.ToolListChangedNotification):
            changed.set()

    headers = authorization(target)
    http = httpx2.AsyncClient(headers=headers, timeout=30) if headers else None
    match target["transport"]:
        case "http" if http:
            server = streamable_http_client(target["url"], http_client=http)
        case "http":
            server = target["url"]
        case "sse":
            server = sse_client(target["url"])
        case _:
            server = StdioServerParameters(
                command=target["command"], args=target.get("args", []), env=target.get("env")
            )
    mode = "auto" if target.get("era") == "modern" else "legacy"
    tasks = []
    async with Client(server, mode=mode, message_handler=on_message, **answering(person)) as client:
        try:
            yield SDK(client, changed, tasks)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
    if http:
        await http.aclose()


main("python-sdk", "mcp", connect)
