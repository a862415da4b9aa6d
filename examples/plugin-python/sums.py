#!/usr/bin/env -S python3 -I
"""A plugin for toolgate in Python, made from the published protocol alone: one tool,
which adds up numbers slowly, tells how far it is, and stops when nobody waits."""

import json
import logging
import os
import sys
import threading
from concurrent import futures

import grpc
import plugin_pb2
import plugin_pb2_grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc

# Everything except errors about the arguments goes to standard error, such as how a
# call went. Show it with: toolgate logs sums
logging.basicConfig(level=logging.INFO, format="%(levelname)s %(message)s")
log = logging.getLogger("sums")

ADD_UP = plugin_pb2.Tool(
    name="add_up",
    description="Add up the numbers from 1 to another.",
    input_schema_json=json.dumps(
        {
            "type": "object",
            "properties": {
                "to": {"type": "integer", "description": "the last number, 1 or more"},
                "pause_ms": {"type": "integer", "description": "milliseconds between two numbers"},
            },
            "required": ["to"],
            "additionalProperties": False,
        }
    ).encode(),
    output_schema_json=b'{"type":"object","properties":{"sum":{"type":"integer"}},"required":["sum"]}',
    annotations_json=b'{"readOnlyHint":true,"openWorldHint":false}',
    risk="low",
)


class Plugin(plugin_pb2_grpc.ToolPluginServicer):
    def __init__(self):
        self.ended = threading.Event()

    def Init(self, request, context):
        return plugin_pb2.InitResponse(name="sums", version="1.0.0")

    def ListTools(self, request, context):
        return plugin_pb2.ListToolsResponse(tools=[ADD_UP])

    def Call(self, request, context):
        if request.name != "add_up":
            context.abort(grpc.StatusCode.NOT_FOUND, "there is no such tool")
        arguments = json.loads(request.arguments_json)
        to, pause, total = arguments["to"], arguments.get("pause_ms", 0) / 1000, 0
        if to < 1:
            # A sentence for the model that called.
            yield problem(f"to is {to} and must be 1 or more.")
            return
        canceled = threading.Event()
        if not context.add_callback(canceled.set):  # called when nobody waits any more
            return
        log.info("adding up to=%d", to)
        data = json.dumps(f"adding up to {to}").encode()
        yield plugin_pb2.CallEvent(log=plugin_pb2.Log(level="info", logger="add_up", data_json=data))
        for n in range(1, to + 1):
            if canceled.wait(pause):
                log.info("stopped at=%d, as nobody waits for the rest", n)
                return
            total += n
            yield plugin_pb2.CallEvent(progress=plugin_pb2.Progress(done=n, total=to))
        structured = json.dumps({"sum": total}).encode()
        yield plugin_pb2.CallEvent(result=plugin_pb2.Result(structured_json=structured))

    def Shutdown(self, request, context):
        log.info("told to end")
        self.ended.set()
        return plugin_pb2.ShutdownResponse()


def problem(text):
    return plugin_pb2.CallEvent(result=plugin_pb2.Result(is_error=True, text=text))


def end_with_host(ended):
    # The standard input ends with the gateway, however the gateway ends.
    while os.read(sys.stdin.fileno(), 4096):
        pass
    ended.set()


def main():
    if os.environ.get("TOOLGATE_PLUGIN") != "5a6c0b86a5f2-tool-plugin":
        sys.exit("this is a plugin; toolgate starts it when its configuration names it")
    if "1" not in os.environ.get("PLUGIN_PROTOCOL_VERSIONS", "1").split(","):
        sys.exit("this plugin speaks version 1 of the protocol")
    plugin = Plugin()
    server = grpc.server(
        futures.ThreadPoolExecutor(max_workers=16),
        options=[("grpc.max_receive_message_length", 64 << 20)],
    )
    plugin_pb2_grpc.add_ToolPluginServicer_to_server(plugin, server)
    alive = health.HealthServicer()
    alive.set("plugin", health_pb2.HealthCheckResponse.SERVING)
    health_pb2_grpc.add_HealthServicer_to_server(alive, server)

    path = os.path.join(os.environ["PLUGIN_UNIX_SOCKET_DIR"], "sums.sock")
    server.add_insecure_port("unix:" + path)
    server.start()
    # The handshake is the last line that is printed: nothing else belongs to the
    # protocol.
    print(f"1|1|unix|{path}|grpc", flush=True)
    sys.stdout = sys.stderr

    threading.Thread(target=end_with_host, args=(plugin.ended,), daemon=True).start()
    plugin.ended.wait()
    server.stop(grace=1).wait()


if __name__ == "__main__":
    main()
