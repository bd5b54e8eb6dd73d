"""Checks run_python_file: python tests/test_run_python_file.py.

What confines a script is checked in test_confine.py.
"""

import fcntl
import json
import os
import signal
import sys
import threading
import time
import tracemalloc
from pathlib import Path
from typing import Any
from unittest import mock

from support import InTemporaryDirectory, run_tests

from functions import confine, run_python_file

# Holds a lock for as long as it lives, and says when it does.
HOLD = """import fcntl, time
lock = open("lock", "w")
fcntl.flock(lock, fcntl.LOCK_EX)
print("held", flush=True)
time.sleep(99)
"""


class RunPythonFile(InTemporaryDirectory):
    def run_script(self, source: str, args: object = None, name: str = "script.py") -> str:
        self.put(name, source)
        return self.run_file(name, args)

    def run_file(self, path: str, args: object = None) -> str:
        return run_python_file.run_python_file(str(self.work), path, args)  # type: ignore[arg-type]

    def printed(self, expression: str, args: object = None) -> Any:
        """The value of an expression in a script, which goes through its stdout as JSON."""
        answer = self.run_script(f"import json, os, sys\nprint(json.dumps({expression}))", args)
        return json.loads(answer.partition("STDOUT: ")[2].partition("\nSTDERR: ")[0])

    def test_exit_code_stdout_and_stderr_are_three_parts(self) -> None:
        self.assertEqual(
            self.run_script("import sys; print('out'); print('err', file=sys.stderr); sys.exit(3)"),
            "Process exited with code 3\nSTDOUT: out\nSTDERR: err",
        )

    def test_silence_and_success_are_three_parts_too(self) -> None:
        self.assertEqual(self.run_script(""), "Process exited with code 0\nSTDOUT: \nSTDERR: ")

    def test_only_the_last_newline_of_a_stream_is_dropped(self) -> None:
        self.assertIn("STDOUT: a\n\n\nSTDERR: ", self.run_script("print('a\\n\\n')"))

    def test_a_signal_is_named(self) -> None:
        answer = self.run_script("import os; os.kill(os.getpid(), 9)")
        self.assertIn("Process exited with code -9 (SIGKILL)\n", answer)
        answer = self.run_script("import os; os.kill(os.getpid(), 35)")
        self.assertIn("Process exited with code -35 (signal 35)\n", answer)

    def test_the_interpreter_is_the_agents_own(self) -> None:
        self.assertEqual(self.printed("[sys.executable, sys.prefix]"), [sys.executable, sys.prefix])

    def test_the_current_directory_is_the_working_directory(self) -> None:
        self.assertEqual(self.printed("os.getcwd()"), str(self.work))

    def test_a_script_imports_its_neighbours_and_installed_packages(self) -> None:
        self.put("tool/helper.py", "y = 3")
        answer = self.run_script("import helper, dotenv; print(helper.y)", name="tool/script.py")
        self.assertIn("STDOUT: 3\n", answer)

    def test_arguments_arrive_as_they_were_sent(self) -> None:
        args = ["a b", "--x=1", "-3", "ü", "", "'\""]
        self.assertEqual(self.printed("sys.argv[1:]", args), args)

    def test_numbers_become_strings_and_a_lone_string_is_one_argument(self) -> None:
        self.assertEqual(self.printed("sys.argv[1:]", [3, 0.5]), ["3", "0.5"])
        self.assertEqual(self.printed("sys.argv[1:]", "3 + 5"), ["3 + 5"])
        self.assertEqual(self.printed("sys.argv[1:]", []), [])

    def test_other_arguments_are_an_error(self) -> None:
        for args in (
            {"a": 1},
            5,
            [None],
            [["x"]],
            ["a\0b"],
            ["\ud800"],
            ["x" * 3_000_000],
        ):
            with self.subTest(str(args)[:20]):
                self.assertTrue(self.run_script("", args).startswith("Error: "))

    def test_a_number_of_more_digits_than_python_prints_is_an_error(self) -> None:
        self.assertTrue(self.run_script("", [10**5000]).startswith("Error: "))

    def test_standard_input_is_closed_and_the_users_is_not_eaten(self) -> None:
        reader, writer = os.pipe()
        os.write(writer, b"typed by the user\n")
        saved = os.dup(0)
        os.dup2(reader, 0)
        try:
            self.assertIn("EOFError", self.run_script("input('Name? ')"))
            self.assertEqual(os.read(0, 99), b"typed by the user\n")
        finally:
            os.dup2(saved, 0)
            for descriptor in (saved, reader, writer):
                os.close(descriptor)

    def test_the_environment_holds_nothing_of_the_agents_but_language_and_time_zone(self) -> None:
        own = {"GEMINI_API_KEY": "secret", "HTTPS_PROXY": "x", "PYTHONPATH": "x", "TZ": "UTC"}
        with mock.patch.dict(os.environ, own):
            names = self.printed("sorted(os.environ)")
        allowed = {"LANG", "LC_ALL", "TZ", "PATH", "HOME", "TMPDIR", "LC_CTYPE"}
        allowed |= {"MALLOC_ARENA_MAX", "PYTHONUTF8", "PYTHONUNBUFFERED", "PYTHONDONTWRITEBYTECODE"}
        self.assertLessEqual(set(names), allowed)
        self.assertLessEqual({"TZ", "MALLOC_ARENA_MAX"}, set(names))

    def test_home_and_temporary_directory_are_private_and_gone_afterwards(self) -> None:
        home = self.printed("[os.environ['HOME'], open(os.environ['TMPDIR'] + '/x', 'w').name][0]")
        self.assertFalse(Path(str(home)).exists())

    def test_directories_a_thousand_deep_are_removed_with_it(self) -> None:
        dig = "import os\nos.chdir(os.environ['TMPDIR'])\nprint(os.getcwd())\n"
        dig += "for _ in range(3000): os.mkdir('d'); os.chdir('d')"
        home = self.run_script(dig).partition("STDOUT: ")[2].partition("\n")[0]
        self.assertTrue(home.startswith("/"))
        self.assertFalse(Path(home).exists())

    def test_no_bytecode_is_left_behind(self) -> None:
        self.put("helper.py", "")
        self.run_script("import helper")
        self.assertEqual(list(self.work.rglob("*.pyc")), [])

    def test_a_script_is_in_utf_8_mode_whatever_the_locale(self) -> None:
        self.assertEqual(self.printed("sys.flags.utf8_mode"), 1)

    def test_output_is_utf_8_and_what_is_none_is_replaced(self) -> None:
        answer = self.run_script("import os; print('é€'); os.write(1, b'\\xff\\xed\\xa0\\x80')")
        self.assertIn("STDOUT: é€\n\ufffd", answer)
        answer.encode()

    def test_long_output_keeps_its_head_and_its_tail(self) -> None:
        for count in (10_001, 3_000_000):
            printed = self.run_script(f"print('head' + 'é' * {count} + 'tail')")
            stream = printed.partition("STDOUT: ")[2].partition("\nSTDERR: ")[0]
            self.assertTrue(stream.startswith("headé"))
            self.assertTrue(stream.endswith("étail"))
            self.assertIn(
                f"[...cut: {2 * count + 9} bytes in all, head and tail are shown...]", stream
            )
            self.assertLessEqual(len(stream), 10_000)

    def test_output_is_read_whatever_the_script_did_to_its_descriptor(self) -> None:
        source = "import fcntl, os\nprint('hello', flush=True)\n"
        source += "fcntl.fcntl(1, fcntl.F_SETFL, os.O_DIRECT | os.O_APPEND)"
        self.assertIn("STDOUT: hello\n", self.run_script(source))

    def test_a_limit_is_named_only_where_a_script_failed(self) -> None:
        for stream in ("stdout", "stderr"):
            answer = self.run_script(f"import sys; print('MemoryError', file=sys.{stream})")
            self.assertNotIn("NOTE", answer)

    def test_10000_characters_of_output_are_not_cut(self) -> None:
        self.assertIn("😀" * 10_000, self.run_script("print('😀' * 10_000, end='')"))

    def test_the_agents_memory_stays_flat_whatever_is_printed(self) -> None:
        tracemalloc.start()
        self.run_script("for _ in range(600): print('x' * 100_000)")
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        self.assertLess(peak, 1 << 20)

    def test_what_was_printed_before_the_time_out_is_there(self) -> None:
        with mock.patch.object(run_python_file, "MAX_SECONDS", 1):
            answer = self.run_script("import time; print('before'); time.sleep(60)")
        self.assertEqual(
            answer,
            "Process exited with code -9 (SIGKILL)\nSTDOUT: before\nSTDERR: \n"
            "NOTE: the script was stopped, as it timed out after 1 seconds",
        )

    def test_a_script_that_stops_itself_times_out(self) -> None:
        with mock.patch.object(run_python_file, "MAX_SECONDS", 1):
            answer = self.run_script("import os, signal; os.kill(os.getpid(), signal.SIGSTOP)")
        self.assertIn("timed out", answer)

    def assert_dead(self) -> None:
        """That whoever held the lock is no more."""
        with (self.work / "lock").open() as lock:
            time.sleep(0.1)
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def test_nothing_is_left_running_even_without_confinement(self) -> None:
        self.put("hold.py", HOLD)
        start = "import subprocess, sys\n"
        start += "held = subprocess.Popen([sys.executable, 'hold.py'], stdout=-1)"
        with mock.patch.object(confine, "landlock_version", return_value=0):
            started = time.monotonic()
            self.assertIn("held", self.run_script(f"{start}\nprint(held.stdout.readline())"))
        self.assertLess(time.monotonic() - started, 10)
        self.assert_dead()

    def test_an_interruption_ends_the_script(self) -> None:
        def interrupt() -> None:
            while not (self.work / "lock").exists():
                time.sleep(0.01)
            os.kill(os.getpid(), signal.SIGINT)

        threading.Thread(target=interrupt).start()
        with self.assertRaises(KeyboardInterrupt):
            self.run_script(HOLD)
        self.assert_dead()

    def test_only_files_that_end_in_py_are_run(self) -> None:
        for name in ("tool", "tool.txt", "tool.PY", "py"):
            self.put(name, "print('ran')")
            self.assertEqual(
                self.run_file(name),
                f'Error: "{name}" is not a Python file; its name must end in .py',
            )

    def test_a_script_outside_is_refused_in_the_fixed_words(self) -> None:
        (self.outside / "tool.py").write_text("print('ran')")
        (self.work / "link.py").symlink_to(self.outside / "tool.py")
        for path in ("../tool.py", str(self.outside / "tool.py"), "link.py"):
            with self.subTest(path):
                self.assert_refused_as_outside(self.run_file(path), "execute", path)

    def test_a_missing_script_a_directory_and_a_fifo_are_errors(self) -> None:
        os.mkfifo(self.work / "fifo.py")
        (self.work / "dir.py").mkdir()
        for path in ("mian.py", "dir.py", "fifo.py", ""):
            with self.subTest(path):
                self.assertTrue(self.run_file(path).startswith("Error: "))

    def test_odd_names_are_run(self) -> None:
        self.assertIn("STDOUT: ran", self.run_script("print('ran')", name="a b/π -x'.py"))
        self.assertIn("STDOUT: ran", self.run_script("print('ran')", name="-c.py"))

    def test_nothing_is_run_where_the_working_directory_holds_the_agent(self) -> None:
        self.put("script.py", "print('ran')")
        for part, place in (("AGENT", self.work / "agent"), ("AGENT", self.work)):
            with mock.patch.object(run_python_file, part, place):
                self.assertIn("Error: Nothing is run, as", self.run_file("script.py"))
        for part in ("prefix", "base_prefix"):
            with mock.patch.object(sys, part, str(self.work / "venv")):
                self.assertIn("Error: Nothing is run, as", self.run_file("script.py"))


if __name__ == "__main__":
    run_tests()
