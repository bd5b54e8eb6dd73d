"""Measures what the agent costs, always as a ratio to the plain way of doing the same.

    python tests/bench.py             everything
    python tests/bench.py start run   the parts whose names begin so

Each pair is measured in turn, so that a busy machine slows both; a ratio is the median over pairs.
Memory is the peak of what Python allocated, or of a process. It asserts nothing.
"""

import itertools
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path

from offline_gemini import OfflineGemini, Reply, calls, environment, text
from support import PROJECT

from functions.get_file_content import get_file_content
from functions.get_files_info import get_files_info
from functions.run_python_file import run_python_file
from functions.write_file import write_file

LIST = ("get_files_info", {"directory": "."})
READ = ("get_file_content", {"file_path": "lorem.txt"})
RUN = ("run_python_file", {"file_path": "main.py", "args": ["3 + 5"]})
# main.py with a clock at each of its steps; the last line of its output is what they showed.
CLOCK = """
import functools, json, os, sys, time
from collections import defaultdict
spent = defaultdict(list)
def clocked(label, function):
    @functools.wraps(function)
    def run(*arguments, **named):
        before, started = sum(map(sum, spent.values())), time.perf_counter()
        try:
            return function(*arguments, **named)
        finally:
            inner = sum(map(sum, spent.values())) - before
            spent[label].append(time.perf_counter() - started - inner)
    return run
def load():
    import google.genai.types
sys.path.insert(0, {project!r})
import main
clocked("import the SDK", load)()
import call_function
main.connect = clocked("make the client", main.connect)
main.ask = clocked("requests", main.ask)
main.generate_conversation = clocked("other functions", main.generate_conversation)
functions = call_function.function_map
functions["run_python_file"] = clocked("confined run", functions["run_python_file"])
main.prepare()
main.run()
print(json.dumps(spent), flush=True)
os._exit(0)
"""
# The loop of the description with the SDK alone: no retry, no limit, no confinement.
MINIMAL = """
import os, sys
sys.path.insert(0, {project!r})
os.chdir({project!r})
from google import genai
from google.genai import types
from call_function import available_functions, call_function
from prompts import system_prompt
client = genai.Client(api_key=os.environ["GEMINI_API_KEY"],
                      http_options=types.HttpOptions(api_version="v1beta"))
config = types.GenerateContentConfig(tools=[available_functions], system_instruction=system_prompt)
contents = [types.Content(role="user", parts=[types.Part(text=sys.argv[1])])]
while True:
    content = client.models.generate_content(
        model="gemini-2.5-flash", contents=list(contents), config=config).candidates[0].content
    contents.append(content)
    parts = [call_function(p.function_call).parts[0] for p in content.parts if p.function_call]
    if not parts:
        break
    contents.append(types.Content(role="user", parts=parts))
print(content.parts[0].text)
"""


def seconds(action: Callable[[], object]) -> float:
    started = time.perf_counter()
    action()
    return time.perf_counter() - started


def compare(name: str, ours: Callable[[], object], plain: Callable[[], object], pairs: int) -> None:
    """One row: the medians of both in milliseconds, and the median of the ratios."""
    measured = [(seconds(ours), seconds(plain)) for _ in range(pairs)]
    mine, theirs = (statistics.median(column) * 1000 for column in zip(*measured, strict=True))
    ratio = statistics.median(a / b for a, b in measured)
    print(f"{name:48} {mine:9.2f} ms {theirs:9.2f} ms   x {ratio:.2f}", flush=True)


def peak(action: Callable[[], object]) -> float:
    """The most that Python had allocated during an action, in MiB."""
    tracemalloc.start()
    action()
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return most / (1 << 20)


def python(*arguments: str) -> Callable[[], object]:
    command = [sys.executable, *arguments]
    return lambda: subprocess.run(command, cwd=PROJECT, capture_output=True, check=False)


def agent(program: list[str], replies: list[Reply]) -> Callable[[], object]:
    """A whole run of a program against the stand-in."""

    def run() -> None:
        with OfflineGemini(replies) as api:
            command = [sys.executable, *program, "Do it"]
            subprocess.run(command, env=environment(api.url), capture_output=True, check=True)

    return run


def bench_start() -> None:
    """--help against the bare interpreter; the first request against the SDK's import."""
    compare("start: --help / python -c pass", python("main.py", "--help"), python("-c", "pass"), 20)
    first = agent([str(PROJECT / "main.py")], [text("ok")])
    sdk = python("-c", "from google import genai")
    compare("start: first answer / import google.genai", first, sdk, 7)


def bench_whole() -> None:
    """Four requests against the minimal loop with the SDK alone."""
    replies: list[Reply] = [calls(LIST), calls(READ), calls(LIST, READ), text("ok")]
    ours = agent([str(PROJECT / "main.py")], replies)
    minimal = agent(["-c", MINIMAL.format(project=str(PROJECT))], replies)
    compare("whole run: 4 requests / minimal SDK loop", ours, minimal, 9)


def clocked(replies: list[Reply]) -> dict[str, list[float]]:
    """The seconds that one run spends in each step; "all" is what it takes from outside."""
    with OfflineGemini(replies) as api:
        command = [sys.executable, "-c", CLOCK.format(project=str(PROJECT)), "Do it"]
        started = time.perf_counter()
        done = subprocess.run(command, env=environment(api.url), capture_output=True, check=True)
        spent: dict[str, list[float]] = json.loads(done.stdout.splitlines()[-1])
    return spent | {"all": [time.perf_counter() - started]}


def bench_shares() -> None:
    """Where the time of a run of four requests goes, one of them with a confined script."""
    runs = [clocked([calls(LIST), calls(READ), calls(RUN), text("ok")]) for _ in range(9)]
    median = {step: statistics.median(sum(run[step]) for run in runs) for step in runs[0]}
    whole = median.pop("all")
    median["start Python, import main.py, leave"] = whole - sum(median.values())
    for step, seconds_spent in median.items():
        print(f"shares: {step:40} {seconds_spent * 1000:9.1f} ms {seconds_spent / whole:9.0%}")


def bench_iterations() -> None:
    """Twenty replies with 10,000-character results: how requests grow, and the process's peak."""
    runs = [clocked([*itertools.repeat(calls(READ), 19), text("ok")])["requests"] for _ in range(5)]
    for number in (1, 5, 10, 15, 20):
        cost = statistics.median(run[number - 1] for run in runs) * 1000
        print(f"iterations: request {number:2} {cost:37.1f} ms")
    most = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss // 1024
    print(f"iterations: peak memory {most:33} MiB")


def bench_run() -> None:
    """A confined run against a bare subprocess.run of the same script."""
    with tempfile.TemporaryDirectory() as directory:
        Path(directory, "empty.py").write_text("")
        for name, work, args in (
            ("main.py", PROJECT / "calculator", ["3 + 5"]),
            ("tests.py", PROJECT / "calculator", []),
            ("empty.py", Path(directory), []),
        ):

            def confined(work: Path = work, name: str = name, args: list[str] = args) -> None:
                run_python_file(str(work), name, args)

            def bare(work: Path = work, name: str = name, args: list[str] = args) -> None:
                command = [sys.executable, name, *args]
                subprocess.run(command, cwd=work, capture_output=True, check=False)

            compare(f"run: confined {name} / bare subprocess.run", confined, bare, 40)


def bench_files() -> None:
    """Large files and directories against open and os.scandir."""
    with tempfile.TemporaryDirectory() as directory:
        work, late = Path(directory), 900 << 20
        with (work / "huge.txt").open("wb") as file:
            file.write(b"some text\n" * 5000)
            file.seek(late)
            file.write(b"some text\n" * 5000)
            file.truncate(1 << 30)
        (work / "many").mkdir()
        for number in range(100_000):
            (work / f"many/{number}").touch()
        content = "x" * (10 << 20)

        def plain_read(offset: int) -> str:
            with (work / "huge.txt").open("rb") as file:
                file.seek(offset)
                return file.read(10_000).decode()

        def plain_list() -> str:
            with os.scandir(work / "many") as entries:
                return json.dumps(sorted(entry.name for entry in entries))

        rows: list[tuple[str, Callable[[], object], Callable[[], object]]] = [
            (
                "files: read the start of 1 GiB / open, read",
                lambda: get_file_content(directory, "huge.txt"),
                lambda: plain_read(0),
            ),
            (
                "files: read 900 MiB on / open, seek, read",
                lambda: get_file_content(directory, "huge.txt", late),
                lambda: plain_read(late),
            ),
            (
                "files: list 100,000 entries / scandir, sorted",
                lambda: get_files_info(directory, "many"),
                plain_list,
            ),
            (
                "files: write 10 MB / Path.write_text",
                lambda: write_file(directory, "ours.txt", content),
                lambda: (work / "plain.txt").write_text(content),
            ),
        ]
        for name, ours, plain in rows:
            compare(name, ours, plain, 9)
            print(f"{'':48} {peak(ours):8.1f} MiB {peak(plain):8.1f} MiB")


def main() -> None:
    parts = (bench_start, bench_whole, bench_shares, bench_iterations, bench_run, bench_files)
    print(f"{'':48} {'ours':>12} {'plain':>12}")
    for part in parts:
        if not sys.argv[1:] or part.__name__.removeprefix("bench_").startswith(tuple(sys.argv[1:])):
            part()


if __name__ == "__main__":
    main()
