import importlib, inspect, json, os, sys, traceback

folder, module, function = sys.argv[1:4]
# What the function prints is not its result.
result = os.fdopen(os.dup(1), "w", encoding="utf-8")
os.dup2(2, 1)
given = json.load(sys.stdin.buffer)
sys.path.insert(0, folder)
try:
    call = importlib.import_module(module)
    for name in function.split("."):
        call = getattr(call, name)
    answer = call(**given)
    if inspect.isawaitable(answer):
        import asyncio

        async def wait():
            return await answer

        answer = asyncio.run(wait())
    if not isinstance(answer, str):
        answer = json.dumps(answer, ensure_ascii=False, allow_nan=False)
except Exception as e:
    sys.stderr.write("".join(traceback.format_exception_only(type(e), e)))
    sys.exit(1)
result.write(answer)
result.close()
