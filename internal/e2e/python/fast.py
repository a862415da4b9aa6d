"""The FastMCP client: package fastmcp."""

import asyncio
from contextlib import asynccontextmanager

from fastmcp import Client
from fastmcp.client.elicitation import ElicitResult
from fastmcp.client.messages import MessageHandler
from fastmcp.client.transports import SSETransport, StdioTransport, StreamableHttpTransport

from script import Adapter, authorization, main


class Fast(Adapter):
    def __init__(self, client, changed):
        self.client, self.changed = client, changed
        self.protocol = client.protocol_version

    async def tools(self):
        return [t.name for t in await self.client.list_tools()]

    async def prompts(self):
        return [p.name for p in await self.client.list_prompts()]

    async def resources(self):
        return [str(r.uri) for r in await self.client.list_resources()]

    async def templates(self):
        return [t.uri_template for t in await self.client.list_resource_templates()]

    async def call(self, name, arguments, on_progress=None):
        async def progress(value, _total, _message):
            await on_progress(value)

        return await self.client.call_tool(name, arguments, progress_handler=progress if on_progress else None)

    async def read(self, uri):
        return (await self.client.read_resource(uri))[0].text

    async def prompt(self, name, arguments):
        return (await self.client.get_prompt(name, arguments)).messages[0].content.text

    async def watch(self):
        return self.changed


def answering(person):
    """Returns what a client needs to answer as person does, nothing for None."""
    if person is None:
        return {}

    async def elicit(message, _response_type, _params, _context):
        content = person.elicit(message)
        return ElicitResult(action="decline") if content is None else content

    async def sample(messages, _params, _context):
        return person.sample(messages)

    async def roots(_context):
        return person.roots()

    return {"elicitation_handler": elicit, "sampling_handler": sample, "roots": roots}


@asynccontextmanager
async def connect(target, person=None):
    changed = asyncio.Event()

    class Watch(MessageHandler):
        async def on_tool_list_changed(self, _message):
            changed.set()

    match target["transport"]:
        case "http":
            transport = StreamableHttpTransport(target["url"], headers=authorization(target))
        case "sse":
            transport = SSETransport(target["url"])
        case _:
            transport = StdioTransport(
                target["command"], target.get("args", []), env=target.get("env"), keep_alive=False
            )
    mode = "auto" if target.get("era") == "modern" else "legacy"
    async with Client(transport, mode=mode, message_handler=Watch(), **answering(person)) as client:
        yield Fast(client, changed)


main("fastmcp", "fastmcp", connect)
