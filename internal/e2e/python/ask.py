"""What the Python asking servers ask, and how a Python client of the tests
answers; node/ask.mjs describes both."""

import json

import mcp_types as types

MODERN = "2026-07-28"


def _says(word):
    return lambda canary, heard: f"{canary} {word}"


QUESTIONS = {
    "form": [("elicitation", _says("form"))],
    "declined": [("elicitation", _says("please decline"))],
    "sampling": [("sampling", _says("sampling"))],
    "two": [
        ("elicitation", _says("first")),
        ("sampling", lambda canary, heard: f"{canary} second after {heard[0]}"),
    ],
    "roots": [("roots", None)],
}

WORD_SCHEMA = {"type": "object", "properties": {"word": {"type": "string"}}, "required": ["word"]}


def _messages(text):
    return [types.SamplingMessage(role="user", content=types.TextContent(type="text", text=text))]


def hear(answer):
    """Writes an answer down."""
    if isinstance(answer, types.ElicitResult):
        return f"accept {answer.content['word']}" if answer.action == "accept" else answer.action
    if isinstance(answer, types.ListRootsResult):
        return ",".join(str(r.uri) for r in answer.roots)
    content = answer.content[0] if isinstance(answer.content, list) else answer.content
    return content.text


async def _ask_directly(session, request_id, kind, text):
    """Asks as servers do in the legacy era: while they work."""
    match kind:
        case "elicitation":
            return await session.elicit_form(text, WORD_SCHEMA, related_request_id=request_id)
        case "sampling":
            return await session.create_message(_messages(text), max_tokens=64, related_request_id=request_id)
        case _:
            return await session.list_roots()


def _request(kind, text):
    match kind:
        case "elicitation":
            params = types.ElicitRequestFormParams(message=text, requested_schema=WORD_SCHEMA)
            return types.ElicitRequest(params=params)
        case "sampling":
            params = types.CreateMessageRequestParams(messages=_messages(text), max_tokens=64)
            return types.CreateMessageRequest(params=params)
        case _:
            return types.ListRootsRequest()


async def converse(name, canary, ctx, protocol_version, directly=False):
    """Returns what was heard, or what a modern caller has to be asked first.

    ctx is the context of a request, which has the same members in both packages.
    Directly is how tools of the legacy era ask, whichever era the caller is of.
    """
    steps = QUESTIONS[name]
    if directly or protocol_version < MODERN:
        heard = []
        for kind, text in steps:
            words = text and text(canary, heard)
            heard.append(hear(await _ask_directly(ctx.session, ctx.request_id, kind, words)))
        return " then ".join(heard)
    heard = json.loads(ctx.request_state or "[]")
    answers = ctx.input_responses or {}
    if (key := f"q{len(heard)}") in answers:
        heard.append(hear(answers[key]))
    if len(heard) == len(steps):
        return " then ".join(heard)
    kind, text = steps[len(heard)]
    return types.InputRequiredResult(
        input_requests={f"q{len(heard)}": _request(kind, text and text(canary, heard))},
        request_state=json.dumps(heard),
    )


class Person:
    """Answers the questions of one client; asked keeps what it was asked."""

    def __init__(self, secret):
        self.secret, self.asked = secret, []

    def elicit(self, message):
        """Returns the answer, or None to decline."""
        self.asked.append(message)
        if message.endswith("please decline"):
            return None
        if "asks you to run" in message:
            return {"output": self.secret}
        return {"word": f"{self.secret}|{message}"}

    def sample(self, messages):
        content = messages[-1].content
        text = (content[0] if isinstance(content, list) else content).text
        self.asked.append(text)
        return types.CreateMessageResult(
            role="assistant",
            model="none",
            content=types.TextContent(type="text", text=f"{self.secret}|{text}"),
        )

    def roots(self):
        self.asked.append("roots")
        return [types.Root(uri=f"file:///home/{self.secret}", name="home")]
