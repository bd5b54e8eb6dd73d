"""Checks how a run behaves on a terminal and in a pipe: python tests/test_terminal.py.

The agent runs as a process of its own, on a pseudo-terminal where it matters.
"""

import fcntl
import os
import pty
import re
import signal
import subprocess
import sys
import time
import unittest
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any
from unittest import mock

from offline_gemini import (
    MODELS,
    Fault,
    OfflineGemini,
    Reply,
    calls,
    environment,
    failure,
    retry_info,
    text,
)
from support import WithAgent, run_tests

from functions import confine

LIST = ("get_files_info", {"directory": "."})
HOLD = "import fcntl, time\nlock = open('lock', 'w')\nfcntl.flock(lock, 2)\ntime.sleep(60)"


class Terminal(WithAgent):
    def setUp(self) -> None:
        super().setUp()
        self.copy_program()

    def start(self, api: OfflineGemini, *arguments: str, **options: Any) -> subprocess.Popen[bytes]:
        """The agent, in a session of its own, so that a signal to its group reaches no other."""
        env = environment(api.url) | {"GEMINI_MODEL": "", "TERM": "xterm"}
        env |= options.pop("env", {})
        command = [sys.executable, "-B", str(self.project / "main.py"), *arguments]
        return subprocess.Popen(
            command,
            env=env,
            stdout=options.get("stdout", subprocess.PIPE),
            stderr=options.get("stderr", subprocess.PIPE),
            start_new_session=True,
        )

    def on_terminal(
        self, replies: Iterable[Reply], *options: str, term: str = "xterm", **server: Any
    ) -> tuple[str, str]:
        """What stderr, a terminal, and stdout, a pipe, were sent."""
        leader, follower = pty.openpty()
        with OfflineGemini(replies, **server) as api:
            run = self.start(api, "Do it", *options, stderr=follower, env={"TERM": term})
            os.close(follower)
            stdout, _ = run.communicate(timeout=60)
        screen = b""
        try:
            while chunk := os.read(leader, 65536):
                screen += chunk
        except OSError:
            pass  # the end, for a pseudo-terminal
        os.close(leader)
        return screen.decode(), stdout.decode()


class StatusLine(Terminal):
    def test_it_is_rewritten_at_each_step_and_gone_at_the_end(self) -> None:
        screen, stdout = self.on_terminal([calls(LIST), text("ok")])
        shown = screen.split("\r\x1b[K")
        wanted = [
            "",
            "[1/20] gemini-2.5-flash",
            "[1/20] get_files_info",
            "[2/20] gemini-2.5-flash",
            "",
        ]
        self.assertEqual(shown, wanted)
        self.assertEqual(stdout, "Final response:\nok\n")

    def test_it_is_gone_before_a_warning_or_an_error_is_printed(self) -> None:
        screen, _ = self.on_terminal([failure(400, "No.")], models=MODELS[1:])
        lines = screen.split("\r\n")
        self.assertTrue(lines[0].startswith("\r\x1b[K[1/20] gemini-2.5-flash\r\x1b[Kgemini-2.5-"))
        self.assertRegex(lines[1], r"^\r\x1b\[KError: ")

    def test_a_name_from_the_model_cannot_draw_on_it_or_break_it(self) -> None:
        screen, _ = self.on_terminal([calls(("\x1b]0;x\x07\n" + "y" * 500, {})), text("ok")])
        self.assertIn(r"\x1b]0;x\x07\nyyy", screen)
        self.assertLess(max(len(part) for part in screen.split("\r\x1b[K")), 80)

    def test_wide_characters_cannot_break_it(self) -> None:
        screen, _ = self.on_terminal([calls(("\u4e2d\U0001f600\u202e" * 40, {})), text("ok")])
        self.assertTrue(screen.isascii())
        self.assertLess(max(len(part) for part in screen.split("\r\x1b[K")), 80)

    def test_verbose_or_a_dumb_terminal_has_none(self) -> None:
        screen, _ = self.on_terminal([calls(LIST), text("ok")], "--verbose")
        self.assertNotIn("[1/20]", screen)
        self.assertEqual(self.on_terminal([calls(LIST), text("ok")], term="dumb")[0], "")

    def test_a_pipe_has_none(self) -> None:
        self.assertEqual(self.run_process([calls(LIST), text("ok")], "Do it").stderr, "")


class Interrupts(Terminal):
    def interrupt(self, replies: Iterable[Reply], when: Callable[[OfflineGemini], object]) -> None:
        """Ctrl-C, when the condition holds: 130, one word, no traceback."""
        with OfflineGemini(replies) as api:
            run = self.start(api, "Do it")
            while not when(api):
                time.sleep(0.01)
            time.sleep(0.1)
            os.killpg(run.pid, signal.SIGINT)
            stdout, stderr = run.communicate(timeout=10)
        self.assertEqual((run.returncode, stdout), (130, b""))
        self.assertEqual(stderr.decode().splitlines()[-1], "Interrupted")
        self.assertNotIn(b"Traceback", stderr)

    def test_while_waiting_for_the_model(self) -> None:
        self.interrupt([Fault(body=text("late"), delay=5)], lambda api: api.requests)

    def test_while_waiting_to_try_again(self) -> None:
        wait = failure(429, "Wait.", retry_info("50s"))
        self.interrupt([wait], lambda api: api.requests)

    def test_while_a_script_runs_which_dies(self) -> None:
        (self.project / "calculator/hold.py").write_text(HOLD)
        run_it = calls(("run_python_file", {"file_path": "hold.py"}))
        lock = self.project / "calculator/lock"
        self.interrupt([run_it], lambda _: lock.exists())
        with lock.open() as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def test_a_second_time_while_it_ends(self) -> None:
        with OfflineGemini([Fault(body=text("late"), delay=5)]) as api:
            run = self.start(api, "Do it")
            while not api.requests:
                time.sleep(0.01)
            for _ in range(20):
                os.killpg(run.pid, signal.SIGINT)
                time.sleep(0.003)
            _, stderr = run.communicate(timeout=10)
        self.assertEqual((run.returncode, stderr), (130, b"Interrupted\n"))

    def test_to_be_told_to_end_ends_the_script_and_leaves_nothing(self) -> None:
        (self.project / "calculator/hold.py").write_text(HOLD)
        scratch = self.project / "scratch"
        scratch.mkdir()
        for number in (signal.SIGTERM, signal.SIGHUP):
            lock = self.project / "calculator/lock"
            lock.unlink(missing_ok=True)
            with OfflineGemini([calls(("run_python_file", {"file_path": "hold.py"}))]) as api:
                run = self.start(api, "Do it", env={"TMPDIR": str(scratch)})
                while not lock.exists():
                    time.sleep(0.01)
                run.send_signal(number)
                _, stderr = run.communicate(timeout=10)
            self.assertEqual((run.returncode, stderr), (128 + number, b""))
            self.assertEqual(list(scratch.iterdir()), [])

    def test_nohup_is_respected(self) -> None:
        with OfflineGemini([Fault(body=text("late"), delay=0.5)]) as api:
            command = ["nohup", sys.executable, "-B", str(self.project / "main.py"), "Do it"]
            run = subprocess.Popen(
                command, env=environment(api.url), stdout=subprocess.PIPE, stderr=subprocess.PIPE
            )
            while not api.requests:
                time.sleep(0.01)
            run.send_signal(signal.SIGHUP)
            stdout, _ = run.communicate(timeout=10)
        self.assertEqual((run.returncode, stdout), (0, b"Final response:\nlate\n"))

    @unittest.skipUnless(Path("/proc/self/maps").exists(), "only /proc tells when that is")
    def test_while_the_sdk_is_imported_it_waits_and_then_counts(self) -> None:
        with OfflineGemini([Fault(body=text("late"), delay=5)]) as api:
            run = self.start(api, "Do it")
            process = Path(f"/proc/{run.pid}")
            while "pydantic_core" not in (process / "maps").read_text():
                time.sleep(0.001)
            blocked = re.search(r"SigBlk:\s*(\w+)", (process / "status").read_text())
            assert blocked
            self.assertTrue(int(blocked[1], 16) >> (signal.SIGINT - 1) & 1)
            os.killpg(run.pid, signal.SIGINT)
            _, stderr = run.communicate(timeout=10)
        self.assertEqual((run.returncode, stderr, api.requests), (130, b"Interrupted\n", []))


class Pipes(Terminal):
    def test_a_reader_that_leaves_ends_the_run_quietly(self) -> None:
        for options, code in (([], 0), (["--verbose"], 1)):
            with OfflineGemini([calls(LIST), text("line\n" * 100_000)]) as api:
                run = self.start(api, "Do it", *options)
                assert run.stdout
                assert run.stderr
                run.stdout.close()
                self.assertEqual(run.stderr.read(), b"")
                run.stderr.close()
                self.assertEqual(run.wait(), code)

    def test_closed_streams_break_nothing(self) -> None:
        for redirections in ("2>&-", "<&-", "<&- >&- 2>&-", ">&-"):
            with OfflineGemini(
                [calls(("run_python_file", {"file_path": "main.py"})), text("ok")]
            ) as api:
                command = f'"$0" main.py "Do it" {redirections}'
                done = subprocess.run(
                    ["sh", "-c", command, sys.executable],
                    cwd=self.project,
                    env=environment(api.url),
                    capture_output=True,
                    timeout=60,
                    check=False,
                )
                self.assertEqual((done.returncode, done.stderr), (0, b""), redirections)
                self.assertEqual(
                    done.stdout, b"" if ">&-" in redirections.split() else b"Final response:\nok\n"
                )
                self.assertIn("Usage", str(api.requests[-1]["contents"][-1]))

    def test_a_full_disk_behind_stdout_is_told(self) -> None:
        with OfflineGemini([text("ok")]) as api, open("/dev/full", "w") as full:
            run = self.start(api, "Do it", stdout=full)
            _, stderr = run.communicate(timeout=60)
        self.assertEqual(run.returncode, 1)
        self.assertEqual(
            stderr.decode().splitlines(),
            ["Error: standard input or output: No space left on device"],
        )

    def test_a_full_disk_behind_stderr_breaks_nothing(self) -> None:
        with (
            OfflineGemini([text("ok")], models=MODELS[1:]) as api,
            open("/dev/full", "w") as full,
        ):
            run = self.start(api, "Do it", stderr=full)
            stdout, _ = run.communicate(timeout=60)
        self.assertEqual((run.returncode, stdout), (0, b"Final response:\nok\n"))

    def test_exit_codes_of_scripts_are_right_whoever_started_the_agent(self) -> None:
        (self.project / "calculator/seven.py").write_text("raise SystemExit(7)")
        with OfflineGemini(
            [calls(("run_python_file", {"file_path": "seven.py"})), text("ok")]
        ) as api:
            code = "import os, signal, sys; signal.signal(signal.SIGCHLD, signal.SIG_IGN); "
            code += "os.execv(sys.executable, [sys.executable, 'main.py', 'Do it'])"
            command = [sys.executable, "-c", code]
            subprocess.run(
                command,
                cwd=self.project,
                env=environment(api.url),
                capture_output=True,
                check=True,
            )
        self.assertIn("exited with code 7", str(api.requests[-1]["contents"][-1]))

    def test_the_trace_comes_while_the_run_goes_on(self) -> None:
        with OfflineGemini([calls(LIST), Fault(body=text("late"), delay=30)]) as api:
            run = self.start(api, "Do it", "--verbose")
            assert run.stdout
            seen, started = b"", time.monotonic()
            while b"main.py: " not in seen:
                seen += run.stdout.readline()
            self.assertLess(time.monotonic() - started, 20)
            os.killpg(run.pid, signal.SIGKILL)
            run.communicate()


PLAIN = {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}
IN_ASCII = unittest.skipUnless(
    sys.prefix.isascii(), "Python cannot import packages from this path in an ASCII locale"
)


class Characters(Terminal):
    def test_a_console_that_cannot_show_a_character_gets_a_replacement(self) -> None:
        for encoding in ("cp1252", "ascii"):
            plain = {"PYTHONIOENCODING": encoding, "PYTHONUTF8": "0"}
            run = self.run_process(
                [calls(LIST), text("Done ✅ naïve")], "Do it", "--verbose", env=plain
            )
            self.assertEqual((run.code, run.stderr), (0, ""))
            self.assertIn("Done ? na", run.stdout)

    @IN_ASCII
    def test_a_prompt_that_the_locale_cannot_hold_arrives_whole(self) -> None:
        run = self.run_process([text("ok")], "résumé 😀".encode(), env=PLAIN)
        self.assertEqual(run.server.requests[0]["contents"][0]["parts"][0]["text"], "résumé 😀")

    @IN_ASCII
    def test_names_that_the_locale_cannot_hold_are_answered(self) -> None:
        wanted = [("write_file", {"file_path": "é.txt", "content": "é"}), LIST]
        run = self.run_process([calls(*wanted), text("ok")], "Do it", env=PLAIN)
        self.assertEqual(
            (run.code, [list(answer["response"]) for answer in run.answers]), (0, [["result"]] * 2)
        )

    def test_half_a_surrogate_pair_is_shown_as_something(self) -> None:
        run = self.run_process([text("half \ud83d smile")], "Do it")
        self.assertEqual(run.code, 0)
        self.assertRegex(run.stdout, "half . smile")

    def test_control_characters_are_shown_and_not_obeyed(self) -> None:
        evil = "a\x1b[2J\x07\x00\x7f\x9b31m\rb\tc\n"
        write = ("write_file", {"file_path": "evil.txt", "content": evil})
        script = ("write_file", {"file_path": "evil.py", "content": f"print({evil!r})"})
        run_it = ("run_python_file", {"file_path": "evil.py"})
        read = ("get_file_content", {"file_path": "evil.txt"})
        run = self.run_process(
            [calls(write, script, run_it, read), text(evil)], evil.replace("\0", ""), "--verbose"
        )
        self.assertEqual(re.findall(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", run.stdout + run.stderr), [])
        self.assertIn(r"a\x1b[2J\x07\x00\x7f\x9b31m\rb" + "\tc\n", run.stdout)
        self.assertEqual((self.project / "calculator/evil.txt").read_bytes(), evil.encode())

    def test_line_ends_of_windows_are_line_ends(self) -> None:
        run = self.run_process([text("one\r\ntwo\rthree\r\n")], "Do it")
        self.assertEqual(run.stdout, "Final response:\none\ntwo\\rthree\n\n")

    def test_marks_that_turn_the_direction_of_writing_are_shown_and_not_obeyed(self) -> None:
        marks = "".join(map(chr, [*range(0x202A, 0x202F), *range(0x2066, 0x206A)]))
        run = self.run_process([text(f"a{marks}b")], "Do it")
        shown = "".join(f"\\u{ord(mark):04x}" for mark in marks)
        self.assertEqual(run.stdout, f"Final response:\na{shown}b\n")

    def test_control_characters_of_the_service_are_shown_too(self) -> None:
        run = self.run_process([failure(400, "no\x1b[2J\nway")], "Do it")
        self.assertIn(r"no\x1b[2J way", run.stderr)


class WithoutConfinement(WithAgent):
    def test_where_the_kernel_cannot_confine_one_line_says_what_is_not_held(self) -> None:
        run_it = calls(("run_python_file", {"file_path": "main.py", "args": ["1 + 1"]}))
        with mock.patch.object(confine, "landlock_version", return_value=0):
            run = self.run_agent([run_it, run_it, text("ok")])
        self.assertEqual((run.code, len(run.stderr.splitlines())), (0, 1))
        self.assertIn("Warning: this system cannot confine scripts", run.stderr)
        self.assertIn('"result": 2', run.answers[0]["response"]["result"])


if __name__ == "__main__":
    run_tests()
