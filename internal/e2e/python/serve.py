"""Serves an ASGI application on a port that the system chooses. The URL is the
first line on stdout."""

import socket

import uvicorn


async def serve(app):
    listener = socket.create_server(("127.0.0.1", 0))
    print(f"http://127.0.0.1:{listener.getsockname()[1]}/mcp", flush=True)
    # Streams may be open as long as their clients live; they are not waited for.
    # A request that meets a connection that is just being closed for its idleness
    # fails, so they are idle for longer than any pause of the tests.
    config = uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=1, timeout_keep_alive=300)
    await uvicorn.Server(config).serve(sockets=[listener])
