"""The script that both Python clients run; node/script.mjs describes the
argument and the report, which are the same for every driver."""

import asyncio
import importlib.metadata
import json
import re
import sys
import traceback

from ask import Person

BIG = 9007199254740993  # 2^53 + 1: the first integer that a double cannot hold


def named(items, suffix):
    for item in items:
        if item == suffix or item.endswith("__" + suffix) or item.endswith("+" + suffix):
            return item
    raise LookupError(f"no {suffix} among {', '.join(items)}")


def text_of(result):
    return next((c.text for c in result.content if c.type == "text"), None)


async def until(seconds, fn):
    """Repeats fn until it succeeds, or raises what it raised last."""
    end = asyncio.get_running_loop().time() + seconds
    while True:
        try:
            return await fn()
        except Exception:
            if asyncio.get_running_loop().time() > end:
                raise
            await asyncio.sleep(0.1)


def authorization(target):
    """Returns the headers that authenticate this client."""
    return {"Authorization": f"Bearer {target['key']}"} if target.get("key") else {}


class Adapter:
    """What a driver offers: complete lists of names, calls and one watch.

    tools, prompts, resources, templates return names or URIs; call takes an
    optional progress callback of one number; watch returns an asyncio.Event that
    is set on each change of the tool list.
    """

    protocol = ""


async def run(c, label):
    checks = {}

    async def step(name, fn):
        try:
            ok, detail = await asyncio.wait_for(fn(), 20)
        except Exception as e:  # a failing step is a finding, not the end of the run
            ok, detail = False, f"{type(e).__name__}: {e}"
        checks[name] = {"ok": ok, "detail": detail}

    names = {}

    async def find():
        tools = await c.tools()
        for key, tool in (("echo", "echo"), ("slow", "slow"), ("count", "cancelled_count"), ("change", "change")):
            names[key] = named(tools, tool)
        names["greet"] = named(await c.prompts(), "greet")
        names["text"] = named(await c.resources(), "fixture://text")
        names["item"] = named(await c.templates(), "fixture://item/{id}")

    async def list_all():
        # A gateway lists a server once it has started, so a list that lacks
        # something is asked for again for a while.
        await until(10, find)
        return True, "tools, prompt, resource and template"

    async def call_int64():
        result = await c.call(names["echo"], {"n": BIG, "note": "<é>"})
        text = text_of(result) or ""
        found = re.search(r'"n":\s*(-?[0-9.eE+]+)', text)
        if not found or found[1] != str(BIG):
            return False, f"argument arrived as {found and found[1]}"
        structured = (result.structured_content or {}).get("n")
        if not isinstance(structured, int) or structured != BIG:
            return False, f"argument and text exact, structured content reads {structured}"
        return True, "argument, text and structured content exact"

    async def read_resource():
        text = await c.read(names["text"])
        item = await c.read(names["item"].replace("{id}", "42"))
        if text != "fixture text: é, 漢字, <&>, and a\nsecond line" or item != "item 42":
            return False, f"{text!r}, {item!r}"
        return True, "resource and template"

    async def get_prompt():
        got = await c.prompt(names["greet"], {"name": "Ada"})
        return got == "Hello, Ada!", got

    async def progress():
        seen, late, done = [], 0, False

        async def on_progress(value):
            nonlocal late
            late += done
            seen.append(value)

        result = await c.call(names["slow"], {"label": label + "_p", "ms": 400}, on_progress)
        done = True
        await asyncio.sleep(0.05)
        rising = all(a < b for a, b in zip(seen, seen[1:]))
        if len(seen) < 2 or not rising or late or text_of(result) != "done":
            return False, f"progress {seen}, {late} late, result {text_of(result)}"
        return True, "in order, before the result"

    async def cancel():
        async def ignore(_):
            pass

        call = asyncio.create_task(c.call(names["slow"], {"label": label + "_c", "ms": 20_000}, ignore))
        await asyncio.sleep(0.4)
        call.cancel()
        how = "a result"
        try:
            await asyncio.wait_for(call, 5)
        except (asyncio.CancelledError, Exception):
            how = "an error"
        counts = {}
        for _ in range(50):
            counts = json.loads(text_of(await c.call(names["count"], {"label": label + "_c"})))
            if counts["cancelled"] == 1 and counts["running"] == 0:
                break
            await asyncio.sleep(0.1)
        if how != "an error" or counts.get("cancelled") != 1 or counts.get("running") != 0:
            return False, f"call ended with {how}, server counts {counts}"
        return True, "seen by the server"

    async def list_changed():
        changed = await c.watch()
        await c.call(names["change"], {"name": "added_" + label})
        try:
            await asyncio.wait_for(changed.wait(), 5)
        except TimeoutError:
            return False, "the list change: nothing within 5000 ms"

        async def listed():
            named(await c.tools(), "added_" + label)

        await until(3, listed)
        return True, "told, and the new tool is listed"

    await step("list", list_all)
    if not checks["list"]["ok"]:
        return checks
    for fn in (call_int64, read_resource, get_prompt, progress, cancel, list_changed):
        await step(fn.__name__, fn)
    return checks


async def call_all(c, link, at_once, answers):
    """Makes every call of the link, a few lanes at once."""
    left = list(link["lanes"])

    async def answered(call, into):
        method, arguments = call["method"], call.get("args", {"canary": call["canary"]})
        if method == "tools/list":
            return " ".join(await c.tools())
        if method == "prompts/get":
            return await c.prompt(call["name"], arguments)

        async def count(_):
            into["progress"] += 1

        if call.get("progress"):
            into["progress"] = 0
        made = c.call(call["name"], arguments, count if call.get("progress") else None)
        if after := call.get("cancelAfter"):
            made = asyncio.wait_for(made, after / 1000)
        result = await made
        if result.is_error:
            raise RuntimeError(f"tool error: {text_of(result)}")
        return text_of(result)

    async def once(call):
        into = {}
        try:
            into["text"] = await asyncio.wait_for(answered(call, into), 20)
        except Exception as e:  # a failing call is a finding, not the end of the run
            into["error"] = f"{type(e).__name__}: {e}"
        return into

    async def returned(call):
        """Makes one call, again and again where it waits for something."""
        end = asyncio.get_running_loop().time() + 5
        while True:
            got = await once(call)
            wanted = call.get("until")
            if not wanted or wanted in got.get("text", "") or asyncio.get_running_loop().time() > end:
                return got
            await asyncio.sleep(0.05)

    async def work():
        while left:
            for call in left.pop(0):
                answers[call["id"]] = await returned(call)

    await asyncio.gather(*(work() for _ in range(at_once)))


async def converse(target, report, connect):
    """Opens each link, makes its calls and closes it."""
    person = Person(target["secret"])
    report["answers"], report["asked"], report["protocols"] = {}, person.asked, []
    for link in target["links"]:
        async with connect({**target, **link}, person) as adapter:
            report["protocol"] = adapter.protocol
            report["protocols"].append(adapter.protocol)
            await call_all(adapter, link, target["atOnce"], report["answers"])


def main(client, package, connect):
    """Runs the script with the adapter that the async context manager connect
    yields for the target, and prints the report, whatever happens."""
    target = json.loads(sys.argv[1])
    report = {
        "client": client,
        "version": importlib.metadata.version(package),
        "protocol": "",
        "error": "",
        "checks": {},
    }

    async def session():
        if target.get("links"):
            await converse(target, report, connect)
            return
        async with connect(target) as adapter:
            report["protocol"] = adapter.protocol
            report["checks"] = await run(adapter, target["label"])

    try:
        asyncio.run(asyncio.wait_for(session(), 110))
    except BaseException:
        report["error"] = traceback.format_exc()[-2000:]
    print(json.dumps(report), flush=True)
