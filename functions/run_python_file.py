"""run_python_file: a script run in the working directory, with no right that it does not need."""

import contextlib
import fcntl
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

from google.genai import types

from functions import confine
from functions.paths import FAILURES, Refusal, error_text, regular_file
from functions.text import valid

MAX_SECONDS = 30
MAX_CHARACTERS = 10_000
MAX_DISK_BYTES = 256 << 20
MAX_DISK_FILES = 10_000
MAX_THREADS = 500
POLL_SECONDS = 0.003
AGENT = Path(__file__).resolve().parent.parent

# What a script says when it meets a limit, and what that limit is.
CONFINED = "a script is one process, without network, with files only below the working directory"
NOTES = {
    "Permission": CONFINED,
    "not permitted": CONFINED,
    "MemoryError": "a script may use 2 GiB of memory",
    "start new thread": "a script may use 2 GiB of memory, threads included",
    "File too large": "a script may write 64 MiB to a file",
    "Too many open files": "a script may have 256 files open at once",
    "SIGXCPU": f"a script may use {MAX_SECONDS} seconds of CPU time",
}


def get_schema_run_python_file() -> types.FunctionDeclaration:
    """What the model is told about run_python_file."""
    return types.FunctionDeclaration(
        name="run_python_file",
        description=(
            "Runs a Python script in the working directory and returns its exit code and what it "
            f"printed, of each stream at most {MAX_CHARACTERS} characters (head and tail). "
            f"It has {MAX_SECONDS} seconds, 2 GiB of memory and no input. It is confined: one "
            "process (threads work; subprocess and multiprocessing do not; run another script with "
            "another call), no network, files only below the working directory. Use it to check "
            "your work."
        ),
        parameters=types.Schema(
            type=types.Type.OBJECT,
            required=["file_path"],
            properties={
                "file_path": types.Schema(
                    type=types.Type.STRING,
                    description="The script, relative to the working directory: `main.py`.",
                ),
                "args": types.Schema(
                    type=types.Type.ARRAY,
                    items=types.Schema(type=types.Type.STRING),
                    description='The command-line arguments: `["3 + 5"]`; none if left out.',
                ),
            },
        ),
    )


def run_python_file(
    working_directory: str, file_path: str, args: Sequence[str] | None = None
) -> str:
    """Exit code, stdout and stderr of the script, or a string that begins with `Error: `."""
    try:
        script = regular_file(working_directory, file_path, "execute")
        if script.suffix != ".py":
            raise Refusal(f'"{file_path}" is not a Python file; its name must end in .py')
        root = Path(os.path.realpath(working_directory))
        keep_agent_out_of(root)
        return run(root, script, arguments(args))
    except FAILURES as error:
        return error_text("execute", file_path, error)


def keep_agent_out_of(root: Path) -> None:
    """A script may change all that is in the working directory; that must not be what runs it."""
    for place in (AGENT, sys.base_prefix, sys.prefix):
        if Path(os.path.realpath(place)).is_relative_to(root):
            raise Refusal(
                "Nothing is run, as the working directory holds the agent, its Python or its "
                "virtual environment, which scripts could change"
            )


def arguments(args: object) -> list[bytes]:
    """The arguments as the system takes them; models also send numbers, or a lone string."""
    if args is None:
        args = []
    elif isinstance(args, str):
        args = [args]
    if not isinstance(args, list | tuple) or not all(
        isinstance(arg, str | int | float) for arg in args
    ):
        raise Refusal("args must be a list of strings")
    try:
        words = [str(arg) for arg in args]
    except ValueError:
        raise Refusal("args must not hold numbers of thousands of digits") from None
    if any("\0" in word or word != valid(word) for word in words):
        raise Refusal("args must not hold a NUL character or half a surrogate pair")
    return [word.encode() for word in words]


def run(root: Path, script: Path, words: list[bytes]) -> str:
    """Start the script, watch it, and word what became of it. Its output goes into files: a pipe
    could be held open by a process that it left, and filled faster than it is read."""
    is_confined = confine.landlock_version() > 0
    launcher = [*confine.LAUNCHER, root] if is_confined else ["-s"]
    with (
        private_directory() as home,
        tempfile.TemporaryFile() as stdout,
        tempfile.TemporaryFile() as stderr,
    ):
        process = subprocess.Popen(
            [sys.executable, *launcher, script, *words],
            cwd=root,
            env=environment(home),
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=stderr,
            start_new_session=True,
        )
        try:
            stopped = watch(process, [str(root), home] if is_confined else [])
        finally:
            kill(process)
        return report(process.returncode, stopped, excerpt(stdout), excerpt(stderr), is_confined)


@contextlib.contextmanager
def private_directory() -> Iterator[str]:
    """A directory that the script may fill, and that goes with it."""
    directory = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
    try:
        yield directory.name
    finally:
        with contextlib.suppress(RecursionError):
            directory.cleanup()
        if os.path.exists(directory.name):  # directories in directories, a thousand deep
            subprocess.run(["rm", "-rf", directory.name], check=False)  # noqa: S607


def environment(home: str) -> dict[str, str]:
    """All that the script sees of the environment: no key, no token, no proxy."""
    kept = {name: os.environ[name] for name in ("LANG", "LC_ALL", "TZ") if name in os.environ}
    return kept | {
        "PATH": os.path.dirname(sys.executable),
        "HOME": home,
        "TMPDIR": home,
        "AGENT_PID": str(os.getpid()),
        "PYTHONUTF8": "1",
        "PYTHONUNBUFFERED": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
        "MALLOC_ARENA_MAX": "2",  # an arena for each thread would use up the memory that it may map
    }


def watch(process: subprocess.Popen[bytes], directories: list[str]) -> str:
    """Wait for the script to end; the limit for which it must be stopped, or "".

    The file systems are asked, which is cheap, and only if they lose much, what the script has.
    """
    started, deadline = time.time() - 1, time.monotonic() + MAX_SECONDS
    before = free_space(directories)
    threads = f"/proc/{process.pid}/task"
    while True:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(POLL_SECONDS)
            return ""
        if time.monotonic() > deadline:
            return f"it timed out after {MAX_SECONDS} seconds"
        with contextlib.suppress(FileNotFoundError):
            if os.stat(threads).st_nlink > MAX_THREADS:
                return f"it had more than {MAX_THREADS} threads"
        now = free_space(directories)
        if before[0] - now[0] > MAX_DISK_BYTES or before[1] - now[1] > MAX_DISK_FILES:
            if takes_too_much(process.pid, directories, started):
                return "it wrote more than 256 MiB or 10,000 files"
            before = now  # it was another program


def free_space(directories: list[str]) -> tuple[int, int]:
    """Free bytes and free files, summed over the file systems of the directories."""
    systems = {os.stat(directory).st_dev: os.statvfs(directory) for directory in directories}
    free = [(status.f_bfree * status.f_frsize, status.f_ffree) for status in systems.values()]
    return sum(size for size, _ in free), sum(files for _, files in free)


def takes_too_much(pid: int, directories: list[str], started: float) -> bool:
    """Whether the files that the script made or changed, or what it wrote, are over the limits."""
    try:
        changed = [status for status in files_below(directories) if status.st_ctime >= started]
        size = max(sum(status.st_blocks * 512 for status in changed), written(pid))
    except OSError:
        return True  # what is too deep to be looked at counts against it
    return size > MAX_DISK_BYTES or len(changed) > MAX_DISK_FILES


def files_below(directories: list[str]) -> Iterator[os.stat_result]:
    def fail(error: OSError) -> None:
        if not isinstance(error, FileNotFoundError):
            raise error

    for directory in directories:
        for place, folders, files in os.walk(directory, onerror=fail):
            for name in folders + files:
                with contextlib.suppress(FileNotFoundError):
                    yield os.lstat(os.path.join(place, name))


def written(pid: int) -> int:
    """How many bytes a process has written, with a system call or through memory."""
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        counts = dict(re.findall(r"(\w+): (\d+)", Path(f"/proc/{pid}/io").read_text()))
        return max(int(counts["wchar"]), int(counts["write_bytes"]))
    return 0


def kill(process: subprocess.Popen[bytes]) -> None:
    """End the script and, where it could start any, its children."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def excerpt(stream: BinaryIO) -> str:
    """What the script printed, or its head and its tail; never more than that is in memory."""
    fcntl.fcntl(stream, fcntl.F_SETFL, 0)  # the script had it too, and may have set O_DIRECT
    size = stream.seek(0, os.SEEK_END)
    stream.seek(0)
    text = stream.read(4 * MAX_CHARACTERS).decode("utf-8", "replace")
    if size > 4 * MAX_CHARACTERS or len(text) > MAX_CHARACTERS:
        half = MAX_CHARACTERS // 2 - 50
        stream.seek(max(size - 4 * half, 0))
        tail = stream.read(4 * half).decode("utf-8", "replace")[-half:]
        text = f"{text[:half]}\n[...cut: {size} bytes in all, head and tail are shown...]\n{tail}"
    return text.removesuffix("\n")


def report(code: int, stopped: str, stdout: str, stderr: str, is_confined: bool) -> str:
    """The three parts of the answer and, where the script met a limit, a note that says which."""
    if is_confined and code == confine.NOT_CONFINED and stderr.startswith(confine.FAILURE):
        raise Refusal(f"The script was not run, as it could not be confined ({stderr})")
    names = {-number: f" ({number.name})" for number in signal.Signals}
    name = names.get(code, f" (signal {-code})") if code < 0 else ""
    answer = f"Process exited with code {code}{name}\nSTDOUT: {stdout}\nSTDERR: {stderr}"
    if stopped:
        return f"{answer}\nNOTE: the script was stopped, as {stopped}"
    is_telling = is_confined and code != 0
    met = {note for sign, note in NOTES.items() if is_telling and sign in name + stderr}
    return "\n".join([answer, *(f"NOTE: {note}" for note in sorted(met))])
