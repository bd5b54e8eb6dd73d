"""run_python_file: a script run in the working directory, with no right that it does not need."""

import contextlib
import fcntl
import itertools
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryFile, mkdtemp
from typing import IO

from google.genai.types import FunctionDeclaration, Schema, Type

from functions import confine
from functions.paths import FAILURES, Refusal, error_text, regular_file
from functions.text import valid

MAX_SECONDS = 30
MAX_CHARACTERS = 10_000
MAX_DISK_BYTES = 256 << 20
MAX_DISK_FILES = 10_000
MOST = [MAX_DISK_BYTES, MAX_DISK_FILES]
MAX_THREADS = 500
POLL_SECONDS = 0.001
AGENT = Path(__file__).resolve().parent.parent

CALLS = "a script is one process, without network, shared memory, links, devices or priorities"
FILES = "a script opens files only below the working directory and TMPDIR, and has no semaphores"
# What the system says when it refuses, and why. A script may catch and print it and go on well.
REFUSALS = {
    r"Errno (1\b|-\d)|not permitted|name resolution|Name or service not known": CALLS,
    r"Errno 13\b|Permission denied": FILES,
    r"denied: .*pyproject\.toml'": "an empty pytest.ini in the working directory helps pytest",
    "EOF when reading a line": "a script has no input; pass what it is to read in args or a file",
}
# What a script dies of at a limit. One that went well did not, even if it printed these words.
DIED_OF = {
    "MemoryError": "a script may map 2 GiB of memory",
    "start new thread": "a script may map 2 GiB of memory, threads included",
    "File too large": "a script may write 64 MiB to a file",
    "Too many open files": "a script may have 256 files open at once",
    "SIGXCPU": f"a script may use {MAX_SECONDS} seconds of CPU time",
}


def get_schema_run_python_file() -> FunctionDeclaration:
    """What the model is told about run_python_file."""
    path = "The script, relative to the working directory: `main.py`."
    args = 'The command-line arguments: `["3 + 5"]`; none if left out.'
    properties = {
        "file_path": Schema(type=Type.STRING, description=path),
        "args": Schema(type=Type.ARRAY, items=Schema(type=Type.STRING), description=args),
    }
    return FunctionDeclaration(
        name="run_python_file",
        description=(
            "Runs a Python script in the working directory and returns its exit code and what it "
            f"printed, of each stream at most {MAX_CHARACTERS} characters (head and tail). "
            f"It has {MAX_SECONDS} seconds, 2 GiB of memory and no input. It is confined: one "
            "process (threads work; subprocess and multiprocessing do not; run another script with "
            "another call), no network, files only below the working directory. Use it to check "
            "your work."
        ),
        parameters=Schema(type=Type.OBJECT, required=["file_path"], properties=properties),
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
            raise Refusal("Nothing is run, as the working directory holds the agent or its Python")


def arguments(args: object) -> list[bytes]:
    """The arguments as the system takes them; models also send numbers, or a lone string."""
    some = [args] if isinstance(args, str) else [] if args is None else args
    if not isinstance(some, list | tuple) or {type(x) for x in some} - {str, int, float, bool}:
        raise Refusal("args must be a list of strings")
    try:
        words = [str(arg) for arg in some]
    except ValueError:
        raise Refusal("args must not hold numbers of thousands of digits") from None
    if any("\0" in word or word != valid(word) for word in words):
        raise Refusal("args must not hold a NUL character or half a surrogate pair")
    return [word.encode() for word in words]


def run(root: Path, script: Path, words: list[bytes]) -> str:
    """Start the script, watch it, and word what became of it. Its output goes into files: a process
    that it left could hold a pipe open, and fill it faster than it is read."""
    is_confined = confine.landlock_version() > 0
    with private_directory() as home, contextlib.ExitStack() as files:
        stdout, stderr, report = (files.enter_context(TemporaryFile(buffering=0)) for _ in range(3))
        launcher = ["-s"]
        if is_confined:
            report.write(b"the launcher ended too early")  # deleted when it succeeds
            launcher = [*confine.LAUNCHER, str(os.getpid()), str(report.fileno()), str(root)]
        process = subprocess.Popen(
            [sys.executable, *launcher, script, *words],
            cwd=root,
            env=environment(home),
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=stderr,
            pass_fds=[report.fileno()] if is_confined else [],
            start_new_session=True,
        )
        stopped = watch(process, [str(root), home] if is_confined else [])
        if reason := excerpt(report).strip():
            last = "".join(f"; {line}" for line in excerpt(stderr).splitlines()[-1:])
            raise Refusal(f"The script was not run, as it could not be confined ({reason}{last})")
        return answer(process.returncode, stopped, excerpt(stdout), excerpt(stderr), is_confined)


@contextlib.contextmanager
def private_directory() -> Iterator[str]:
    """A directory that the script may fill, and that is deleted with all that it holds then."""
    home = mkdtemp()
    try:
        yield home
    finally:
        with contextlib.suppress(OSError):
            delete(home)


def delete(top: str) -> None:
    """Delete a directory. The directories below are made readable and moved up to it first: so no
    path gets too long, and no call too deep."""
    folders, prefix, number = [top], f"{top}/{os.urandom(8).hex()}-", itertools.count()
    while folders:
        folder = folders.pop()
        for entry in list(os.scandir(folder)):
            if entry.is_dir(follow_symlinks=False):
                os.chmod(entry.path, 0o700)
                folders.append(f"{prefix}{next(number)}")
                os.rename(entry.path, folders[-1])
            else:
                os.unlink(entry.path)
        if folder != top:
            os.rmdir(folder)
    os.rmdir(top)


def environment(home: str) -> dict[str, str]:
    """All that the script sees of the environment: no key, no token, no proxy."""
    return {
        **{name: os.environ[name] for name in ("LANG", "LC_ALL", "TZ") if name in os.environ},
        **dict.fromkeys(("HOME", "TMPDIR"), home),
        **dict.fromkeys(("USER", "LOGNAME"), "agent"),  # else getpass.getuser() reads /etc/passwd
        **dict.fromkeys(("PYTHONUTF8", "PYTHONUNBUFFERED", "PYTHONDONTWRITEBYTECODE"), "1"),
        "PATH": os.path.dirname(sys.executable),
        "MALLOC_ARENA_MAX": "2",  # an arena for each thread would use up the memory that it may map
    }


def watch(process: subprocess.Popen[bytes], directories: list[str]) -> str:
    """The limit at which the script was killed, or "" if it ended by itself. Free space is cheap to
    ask for; what the script wrote is counted only when much of that space is gone."""
    try:
        started, deadline = time.time() - 1, time.monotonic() + MAX_SECONDS  # file times are coarse
        disks = {os.stat(directory).st_dev: directory for directory in directories}.values()
        free, look = free_space(disks), time.monotonic()
        while not has_ended(process):
            if time.monotonic() > deadline:
                return f"it timed out after {MAX_SECONDS} seconds"
            if directories and os.stat(f"/proc/{process.pid}/task").st_nlink - 2 > MAX_THREADS:
                return f"it had more than {MAX_THREADS} threads"
            now_free = free_space(disks)
            lost = (a - b > most for a, b, most in zip(free, now_free, MOST * 2, strict=False))
            # Some file systems, btrfs for one, do not say how many files are free.
            if any(lost) or (0 in now_free and time.monotonic() > look + 0.5):
                if wrote_too_much(process.pid, directories, started, deadline):
                    return "it wrote more than 256 MiB or 10,000 files"
                free, look = now_free, time.monotonic()  # another program took it
            time.sleep(POLL_SECONDS)
        return ""
    finally:
        kill(process)


def has_ended(process: subprocess.Popen[bytes]) -> bool:
    """Whether the script has ended, without reaping it: so no other process can get its ID yet."""
    if not hasattr(os, "waitid"):  # macOS before Python 3.13
        return process.poll() is not None
    return bool(os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT))


def free_space(directories: Iterable[str]) -> list[int]:
    """Free bytes and free files of the file system of each directory."""
    systems = [os.statvfs(directory) for directory in directories]
    return [free for x in systems for free in (x.f_bfree * x.f_frsize, x.f_ffree)]


def wrote_too_much(pid: int, directories: list[str], started: float, deadline: float) -> bool:
    """Whether the files that the script made or changed, or all that it wrote, are over the limits.
    It stands still meanwhile: it neither writes on nor moves what is being counted."""
    os.kill(pid, signal.SIGSTOP)
    try:
        io = Path(f"/proc/{pid}/io").read_text()
        counts = re.findall(r"^(?:wchar|write_bytes): (\d+)", io, re.MULTILINE)
        size, files = 0, 0
        for status in itertools.chain.from_iterable(map(files_below, directories)):
            if status.st_ctime >= started:
                size, files = size + status.st_blocks * 512, files + 1
            if size > MAX_DISK_BYTES or files > MAX_DISK_FILES or time.monotonic() > deadline:
                break
        return max(size, *map(int, counts)) > MAX_DISK_BYTES or files > MAX_DISK_FILES
    except (OSError, RecursionError):
        return True  # what is too deep to be looked at counts against it
    finally:
        os.kill(pid, signal.SIGCONT)


def files_below(directory: str) -> Iterator[os.stat_result]:
    """The status of each file and directory below; no list of them is ever made."""
    with os.scandir(directory) as entries:
        for entry in entries:
            with contextlib.suppress(FileNotFoundError):
                yield entry.stat(follow_symlinks=False)
                if entry.is_dir(follow_symlinks=False):
                    yield from files_below(entry.path)


def kill(process: subprocess.Popen[bytes]) -> None:
    """Kill the script and its process group, then reap it: its ID stays its own until then."""
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def excerpt(stream: IO[bytes]) -> str:
    """What the script printed, or its head and its tail; never more than that is in memory."""
    fcntl.fcntl(stream, fcntl.F_SETFL, 0)  # the script shares its flags, and may have set O_DIRECT
    size = stream.seek(0, os.SEEK_END)
    stream.seek(0)
    text = stream.read(4 * MAX_CHARACTERS).decode("utf-8", "replace")
    if size > 4 * MAX_CHARACTERS or len(text) > MAX_CHARACTERS:
        half = MAX_CHARACTERS // 2 - 50
        stream.seek(max(size - 4 * half, 0))
        tail = stream.read(4 * half).decode("utf-8", "replace")[-half:]
        text = f"{text[:half]}\n[...cut: {size} bytes in total, head and tail are shown...]\n{tail}"
    return text.removesuffix("\n")


def answer(code: int, stopped: str, stdout: str, stderr: str, is_confined: bool) -> str:
    """The three parts of the answer, and a note for each limit that the script met."""
    names = {-number: f" ({number.name})" for number in signal.Signals}
    name = names.get(code, f" (signal {-code})") if code < 0 else ""
    parts = f"Process exited with code {code}{name}\nSTDOUT: {stdout}\nSTDERR: {stderr}"
    met = {f"the script was stopped, as {stopped}"} if stopped else set()
    if is_confined and not stopped:
        met |= {note for sign, note in REFUSALS.items() if re.search(sign, f"{stdout}\n{stderr}")}
        met |= {note for sign, note in DIED_OF.items() if code != 0 and sign in name + stderr}
    return "\n".join([parts, *(f"NOTE: {note}" for note in sorted(met))])
