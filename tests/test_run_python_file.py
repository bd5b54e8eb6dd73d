"""Checks run_python_file: python tests/test_run_python_file.py.

What confines a script is checked in test_confine.py.
"""

import contextlib
import fcntl
import gc
import io
import itertools
import json
import os
import re
import signal
import sys
import threading
import time
import tracemalloc
import unittest
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

from support import InTemporaryDirectory, run_tests

from functions import confine, run_python_file

# Holds a lock until it ends, and says when it has it.
HOLD = """import fcntl, time
lock = open("lock", "w")
fcntl.flock(lock, fcntl.LOCK_EX)
print("held", flush=True)
time.sleep(99)
"""


def go_down(name: str, mode: int = 0o700) -> None:
    os.mkdir(name, mode)
    os.chdir(name)


def fill_with_modes() -> None:
    os.makedirs("a/b")
    Path("a/b/x").touch()
    os.chmod("a", 0o300)
    for name, mode in (("none", 0), ("readable", 0o500), ("passable", 0o100)):
        os.mkdir(name, mode)


def fill_with_long_names() -> None:
    for _ in range(40):
        go_down("n" * 200)


def fill_deeply() -> None:
    for _ in range(3000):
        go_down("d", 0o300)


def fill_with_names_of_our_own() -> None:
    for name in ("home", "0", "1"):
        os.makedirs(f"{name}/{name}/0/1")


def fill_with_links() -> None:
    os.symlink("/", "root")
    os.symlink(".", "loop")
    os.mkfifo("fifo")


FILLS = (
    fill_with_modes,
    fill_with_long_names,
    fill_deeply,
    fill_with_names_of_our_own,
    fill_with_links,
)


def fill_as_ordinary_user(fill: Callable[[], None]) -> tuple[str, str]:
    """The name of a private directory that was filled and left, and what went to stderr."""
    reader, writer = os.pipe()
    errors_reader, errors_writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.dup2(errors_writer, 2)
        try:
            if os.getuid() == 0:
                os.setgid(65534)
                os.setuid(65534)
            with run_python_file.private_directory() as home:
                os.write(writer, home.encode())
                os.chdir(home)
                fill()
        except BaseException as error:
            os.write(2, repr(error).encode())
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    os.close(writer)
    os.close(errors_writer)
    with os.fdopen(reader) as name, os.fdopen(errors_reader) as errors:
        return name.read(), errors.read()


is_confining = unittest.skipIf(confine.landlock_version() == 0, "this kernel cannot confine")
has_waitid = unittest.skipUnless(hasattr(os, "waitid"), "this system cannot see an end and wait")


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

    def test_arguments_nested_however_deep_are_an_error(self) -> None:
        deep: list[Any] = []
        for _ in range(100_000):
            deep = [deep]
        self.assertTrue(self.run_script("", deep).startswith("Error: "))

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
        allowed = {"LANG", "LC_ALL", "TZ", "PATH", "HOME", "TMPDIR", "LC_CTYPE", "USER", "LOGNAME"}
        allowed |= {"MALLOC_ARENA_MAX", "PYTHONUTF8", "PYTHONUNBUFFERED", "PYTHONDONTWRITEBYTECODE"}
        for version in (confine.landlock_version(), 0):
            with (
                mock.patch.dict(os.environ, own),
                mock.patch.object(confine, "landlock_version", return_value=version),
            ):
                names = self.printed("sorted(os.environ)")
            self.assertLessEqual(set(names), allowed)
            self.assertLessEqual({"TZ", "MALLOC_ARENA_MAX"}, set(names))

    def test_the_user_has_a_name_which_is_not_the_real_one(self) -> None:
        with mock.patch.dict(os.environ, USER="real", LOGNAME="real"):
            self.assertEqual(self.printed("__import__('getpass').getuser()"), "agent")

    def test_home_and_temporary_directory_are_private_and_gone_afterwards(self) -> None:
        home = self.printed("[os.environ['HOME'], open(os.environ['TMPDIR'] + '/x', 'w').name][0]")
        self.assertFalse(Path(str(home)).exists())

    def test_it_is_removed_whatever_is_in_it_and_who_the_user_is(self) -> None:
        for number, fill in enumerate(FILLS):
            home, errors = fill_as_ordinary_user(fill)
            self.assertEqual(errors, "")
            self.assertTrue(home.startswith("/"))
            self.assertFalse(Path(home).exists(), number)

    def test_what_cannot_be_removed_costs_neither_the_answer_nor_a_line_on_the_screen(self) -> None:
        with (
            mock.patch.object(run_python_file, "delete", side_effect=PermissionError),
            contextlib.redirect_stderr(io.StringIO()) as stderr,
        ):
            home = str(self.printed("os.environ['HOME']"))
            gc.collect()
        self.assertEqual(stderr.getvalue(), "")
        run_python_file.delete(home)
        self.assertFalse(Path(home).exists())

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
                f"[...cut: {2 * count + 9} bytes in total, head and tail are shown...]", stream
            )
            self.assertLessEqual(len(stream), 10_000)

    def test_output_is_read_whatever_the_script_did_to_its_descriptor(self) -> None:
        source = "import fcntl, os\nprint('hello', flush=True)\n"
        source += "fcntl.fcntl(1, fcntl.F_SETFL, os.O_DIRECT | os.O_APPEND)"
        self.assertIn("STDOUT: hello\n", self.run_script(source))

    @is_confining
    def test_a_refusal_is_explained_even_if_the_script_went_on(self) -> None:
        calls, files = run_python_file.CALLS, run_python_file.FILES
        no_input = "a script has no input; pass what it is to read in args or a file"
        for source, notes in (
            ("subprocess.run(['ls'])", [calls]),
            ("os.nice(3)", [calls]),
            ("os.truncate('script.py', 3)", [calls]),
            ("os.symlink('a', 'b')", [calls]),
            ("socket.getaddrinfo('example.com', 80)", [calls]),
            ("open('/etc/passwd')", [files]),
            ("multiprocessing.Lock()", [files]),
            ("input()", [no_input]),
            ("open('missing')", []),
            ("1 / 0", []),
        ):
            for handle in ("raise", "print(e)", "print(repr(e), file=sys.stderr)"):
                text = "import multiprocessing, os, socket, subprocess, sys\n"
                text += f"try: {source}\nexcept Exception as e: {handle}"
                answer = self.run_script(text)
                found = re.findall("^NOTE: (.*)", answer, re.MULTILINE)
                self.assertEqual(found, notes, answer)

    @is_confining
    def test_what_pytest_does_above_the_working_directory_is_explained(self) -> None:
        (self.outside / "pyproject.toml").touch()
        answer = self.run_script("open('../pyproject.toml')")
        self.assertIn("NOTE: an empty pytest.ini in the working directory helps pytest", answer)
        self.assertNotIn("pytest", self.run_script("open('../secret.txt')"))

    def test_a_limit_is_named_only_where_a_script_failed(self) -> None:
        for stream in ("stdout", "stderr"):
            answer = self.run_script(f"import sys; print('MemoryError', file=sys.{stream})")
            self.assertNotIn("NOTE", answer)

    def test_notes_have_one_order_only(self) -> None:
        signs = "Errno 1, Errno 13, EOF when reading a line, MemoryError, File too large"
        answer = run_python_file.answer(1, "", "", signs, True)
        notes = re.findall("^NOTE: .*", answer, re.MULTILINE)
        self.assertEqual((len(notes), notes), (5, sorted(notes)))

    def test_10000_characters_of_output_are_not_cut_and_one_more_is(self) -> None:
        for character in ("x", "é", "😀"):
            for count in (9_999, 10_000):
                answer = self.run_script(f"print('{character}' * {count}, end='')")
                self.assertIn(f"STDOUT: {character * count}\nSTDERR: ", answer)
            answer = self.run_script(f"print('{character}' * 10_001, end='')")
            size = 10_001 * len(character.encode())
            half = character * 4_950
            cut = f"[...cut: {size} bytes in total, head and tail are shown...]"
            self.assertIn(f"STDOUT: {half}\n{cut}\n{half}\nSTDERR: ", answer)

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

    def test_a_script_has_30_seconds(self) -> None:
        real, mark = time.monotonic, self.work / "started"
        for late, then, is_stopped in (
            (29.0, "", False),
            (30.0, "import time; time.sleep(9)", True),
        ):

            def clock(late: float = late) -> float:
                return real() + (late if mark.exists() else 0)

            with mock.patch.object(time, "monotonic", clock):
                answer = self.run_script(f"open('started', 'w')\n{then}")
            self.assertEqual("as it timed out after 30 seconds" in answer, is_stopped)
            self.assertEqual("timed out" in answer, is_stopped)
            mark.unlink()
        schema = run_python_file.get_schema_run_python_file()
        self.assertIn("30 seconds", schema.description or "")

    def test_a_script_that_stops_itself_times_out(self) -> None:
        with mock.patch.object(run_python_file, "MAX_SECONDS", 1):
            answer = self.run_script("import os, signal; os.kill(os.getpid(), signal.SIGSTOP)")
        self.assertIn("timed out", answer)

    def assert_dead(self) -> None:
        """That the process which held the lock has ended."""
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

    @has_waitid
    def test_no_process_is_signalled_once_it_has_been_waited_for(self) -> None:
        def checked(signal_it: Callable[[int, int], None]) -> Callable[[int, int], None]:
            def call(number: int, what: int) -> None:
                os.waitid(os.P_PID, number, os.WEXITED | os.WNOHANG | os.WNOWAIT)  # or it raises
                signals.append(what)
                signal_it(number, what)

            return call

        for source, version in itertools.product(
            ("", "import time; time.sleep(60)"), (confine.landlock_version(), 0)
        ):
            signals: list[int] = []
            with (
                mock.patch.object(os, "kill", checked(os.kill)),
                mock.patch.object(os, "killpg", checked(os.killpg)),
                mock.patch.object(run_python_file, "MAX_SECONDS", 1),
                mock.patch.object(confine, "landlock_version", return_value=version),
            ):
                self.assertIn("Process exited with code", self.run_script(source))
            # If another program fills the disk, the script is stopped and counted before.
            self.assertEqual(signals[-1:], [signal.SIGKILL])

    @has_waitid
    def test_where_the_end_cannot_be_seen_without_waiting_nothing_is_signalled_after_it(
        self,
    ) -> None:
        with (
            mock.patch.object(confine, "landlock_version", return_value=0),
            mock.patch.object(os, "killpg") as killpg,
        ):
            waitid = os.waitid
            del os.waitid
            try:
                self.assertIn("STDOUT: 1\n", self.run_script("print(1)"))
            finally:
                os.waitid = waitid
        killpg.assert_not_called()

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

    def test_of_a_link_the_name_of_what_it_leads_to_counts(self) -> None:
        self.put("notes.txt", "print('ran')")
        (self.work / "link.py").symlink_to("notes.txt")
        (self.work / "link").symlink_to("main.py")
        self.assertIn('Error: "link.py" is not a Python file', self.run_file("link.py"))
        self.assertIn("STDOUT: main ran\n", self.run_file("link"))

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
