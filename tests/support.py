"""What the tests share: a runner that speaks in sentences, and the agent on a temporary copy."""

import contextlib
import io
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

PROJECT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(PROJECT))

from offline_gemini import KEY, MODELS, Json, OfflineGemini, Reply, environment  # noqa: E402

import main  # noqa: E402

# What is started in the background ignores Ctrl-C, and so would what it starts in turn; with nohup,
# the end of the terminal.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)

PROGRAM = [
    "main.py",
    "gemini.py",
    "call_function.py",
    "prompts.py",
    "pyproject.toml",
    "functions",
    "calculator",
    "tests",
]
CACHES = shutil.ignore_patterns("__pycache__", ".*_cache")


class SentenceResult(unittest.TextTestResult):
    """Says what was checked: a test's name, read as a sentence."""

    def getDescription(self, test: unittest.TestCase) -> str:
        words = test.id().rpartition(".test_")[2].replace("_", " ")
        return words[:1].upper() + words[1:]

    def addSuccess(self, test: unittest.TestCase) -> None:
        super().addSuccess(test)
        self.stream.writeln(f"ok    {self.getDescription(test)}.")


def run_tests() -> None:
    """Run the tests of the script that was started; exit with 1 on the first broken promise."""
    runner = unittest.TextTestRunner(resultclass=SentenceResult, verbosity=0, failfast=True)  # type: ignore[arg-type]
    unittest.main(testRunner=runner, verbosity=0)


class InTemporaryDirectory(unittest.TestCase):
    """Each test has a directory of its own, and `work`, the working directory, in it."""

    def setUp(self) -> None:
        holder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        self.addCleanup(holder.cleanup)
        self.outside = Path(holder.name).resolve()
        self.work = self.outside / "calculator"
        self.work.mkdir()
        self.put("main.py", "print('main ran')\n")
        self.put("pkg/render.py", "def render():\n    pass\n")
        self.secret = self.outside / "secret.txt"
        self.secret.write_text("TOP SECRET")

    def put(self, path: str, content: str | bytes = "") -> Path:
        """Make a file below the working directory, with its parents."""
        target = self.work / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content.encode() if isinstance(content, str) else content)
        return target

    def assert_refused_as_outside(self, answer: str, verb: str, path: str) -> None:
        wording = f'Error: Cannot {verb} "{path}" as it is outside working directory'
        self.assertEqual(answer, wording)


@dataclass
class Run:
    """What became of one run of the agent."""

    code: int
    stdout: str
    stderr: str
    server: OfflineGemini
    project: Path

    @property
    def answers(self) -> list[Json]:
        """The function responses of the last request."""
        parts = self.server.requests[-1]["contents"][-1]["parts"]
        return [part["functionResponse"] for part in parts]


class WithAgent(unittest.TestCase):
    """Runs the agent against the stand-in, on a temporary copy of the project's calculator."""

    def setUp(self) -> None:
        holder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        self.addCleanup(holder.cleanup)
        self.project = Path(holder.name).resolve()
        shutil.copytree(PROJECT / "calculator", self.project / "calculator", ignore=CACHES)
        self.addCleanup(os.chdir, Path.cwd())

    def run_agent(
        self,
        replies: Iterable[Reply] | Callable[[Json], Reply],
        *options: str,
        prompt: str = "Do it",
        env: dict[str, str] | None = None,
        **server: Any,
    ) -> Run:
        """main.run() in this process: the real loop, client and functions."""
        stdout, stderr = io.StringIO(), io.StringIO()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD):
            self.addCleanup(signal.signal, number, signal.getsignal(number))
        with (
            OfflineGemini(replies, **server) as api,
            mock.patch.object(main, "PROJECT", str(self.project)),
            mock.patch.object(sys, "argv", ["main.py", prompt, *options]),
            mock.patch.dict(os.environ, environment(api.url) | {"GEMINI_MODEL": ""} | (env or {})),
            contextlib.redirect_stdout(stdout),
            contextlib.redirect_stderr(stderr),
        ):
            code = main.run()
        return Run(code, stdout.getvalue(), stderr.getvalue(), api, self.project)

    def copy_program(self) -> None:
        """Put the program itself beside the copy of the calculator."""
        for name in PROGRAM:
            if (PROJECT / name).is_dir():
                shutil.copytree(
                    PROJECT / name, self.project / name, ignore=CACHES, dirs_exist_ok=True
                )
            else:
                shutil.copy(PROJECT / name, self.project)

    def run_process(
        self,
        replies: Iterable[Reply] | Callable[[Json], Reply],
        *arguments: str | bytes,
        env: dict[str, str] | None = None,
        stdin: bytes = b"",
        copy: bool = True,
        **server: Any,
    ) -> Run:
        """python main.py ARGUMENTS as a process of its own."""
        if copy:
            self.copy_program()
        with OfflineGemini(replies, **server) as api:
            done = subprocess.run(
                [sys.executable, "-B", str(self.project / "main.py"), *arguments],
                env=environment(api.url) | {"GEMINI_MODEL": ""} | (env or {}),
                input=stdin,
                capture_output=True,
                timeout=60,
                check=False,
            )
        out, err = done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace")
        return Run(done.returncode, out, err, api, self.project)


__all__ = ["KEY", "MODELS", "PROJECT", "InTemporaryDirectory", "Run", "WithAgent", "run_tests"]
