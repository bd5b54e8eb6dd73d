"""Checks what becomes of a run when the service fails: python tests/test_failures.py.

Which failure is worth another try is checked in test_gemini.py. No test waits for real: the
function that waits is replaced by a list.
"""

import contextlib
import io
import itertools
import signal
import socket
import ssl
import subprocess
import tempfile
import threading
from pathlib import Path
from unittest import mock

from offline_gemini import (
    KEY,
    Fault,
    Json,
    OfflineGemini,
    Reply,
    calls,
    failure,
    reply,
    retry_info,
    text,
)
from support import WithAgent, run_tests

import main

LIST = ("get_files_info", {"directory": "."})
DONE = text("Recovered.")


class Service(WithAgent):
    """Runs with a list in the place of time.sleep."""

    def setUp(self) -> None:
        super().setUp()
        self.waits: list[float] = []
        patch = mock.patch("main.sleep", self.waits.append)
        patch.start()
        self.addCleanup(patch.stop)

    def assert_recovers(self, *faults: Reply) -> None:
        self.waits.clear()
        run = self.run_agent([calls(LIST), *faults, DONE])
        self.assertEqual((run.code, run.stdout), (0, "Final response:\nRecovered.\n"), run.stderr)
        self.assertEqual(len(self.waits), len(faults))
        self.assertEqual(len(run.stderr.splitlines()), len(faults))
        self.assert_plain(run.stderr)

    def assert_stops(self, fault: Reply, *words: str, tries: int = 1) -> str:
        """That the run ends after so many tries, a line for each, the last with the words."""
        self.waits.clear()
        run = self.run_agent(itertools.chain([calls(LIST)], itertools.repeat(fault)))
        self.assertEqual((run.code, run.stdout), (1, ""))
        self.assertEqual(len(run.server.times) - 1, tries, run.stderr)
        lines = run.stderr.splitlines()
        self.assertEqual(len(lines), tries)
        self.assertTrue(lines[-1].startswith("Error: "), lines[-1])
        for word in words:
            self.assertIn(word, lines[-1])
        self.assert_plain(run.stderr)
        return lines[-1]

    def assert_plain(self, screen: str) -> None:
        """That no word of a library is in what a user reads."""
        for word in ("Traceback", "None", "pydantic", "httpx", "Error(", "://errors", "Exception"):
            self.assertNotIn(word, screen)


class Retries(Service):
    def test_three_failures_in_a_row_are_survived(self) -> None:
        self.assert_recovers(failure(503), failure(499), failure(429))

    def test_after_four_tries_the_servers_message_is_told(self) -> None:
        fault = failure(503, "The model is overloaded.")
        self.assert_stops(fault, "The model is overloaded.", tries=4)
        self.assertEqual(len(self.waits), 3)

    def test_the_tries_start_anew_with_each_request(self) -> None:
        faults = [failure(503)] * 3
        run = self.run_agent([*faults, calls(LIST), *faults, DONE])
        self.assertEqual(run.code, 0, run.stderr)

    def test_each_wait_is_announced_with_what_how_long_and_which_try(self) -> None:
        run = self.run_agent([failure(503, "Overloaded."), DONE])
        self.assertRegex(run.stderr, r"^503 UNAVAILABLE: Overloaded\.; try 2 of 4 in \d\.\d s\n$")

    def test_each_wait_is_longer_than_the_one_before(self) -> None:
        self.assert_recovers(*[failure(503)] * 3)
        for wait, least in zip(self.waits, (0.75, 1.5, 3), strict=True):
            self.assertTrue(least <= wait <= least / 0.75 * 1.25, self.waits)

    def test_the_delay_that_is_asked_for_is_waited(self) -> None:
        self.assert_recovers(failure(429, "Slow down.", retry_info("21.5s")))
        self.assertEqual(self.waits, [21.5])

    def test_more_than_a_minute_is_not_waited_but_told(self) -> None:
        self.assert_stops(failure(429, "Slow down.", retry_info("61s")), "61 s", "Slow down.")

    def test_failed_tries_do_not_count_towards_the_20(self) -> None:
        faults: list[Reply] = [failure(503), calls(LIST)]
        run = self.run_agent(itertools.cycle(faults))
        self.assertEqual(len(run.server.requests), 40)
        self.assertIn("no final answer after 20 iterations", run.stderr)

    def test_dropped_and_cut_replies_are_tried_again(self) -> None:
        body = text("cut in two")
        self.assert_recovers(Fault(drop=True), Fault(body=body, cut=40), Fault(body=body, cut=1))

    def test_replies_that_are_no_json_or_no_reply_are_tried_again(self) -> None:
        digits, deep = b"9" * 5000, b'{"a":' * 5000 + b"1" + b"}" * 5000
        call = b'{"candidates": [{"content": {"parts": [{"functionCall": {"name": "x", "args": %s}'
        for body in (
            b"",
            b"{}",
            b"[]",
            b"null",
            b"<html>Sign in to the hotel Wi-Fi</html>",
            b'{"candidates": [{"content": {"parts": [{"te',
            b"\xff\xfe\x00",
            b'{"candidates": 3}',
            b'{"candidates": [{"content": {"parts": [{"text": 5}]}}]}',
            b'{"candidates": [{"content": {"parts": [{"text": "x"}]}, "finishReason": 7}]}',
            call % (b'{"offset": %s}' % digits) + b"}]}}]}",
            call % deep + b"}]}}]}",
            call % (b'{"a":' * 500 + b"1" + b"}" * 500) + b"}]}}]}",
        ):
            with self.subTest(body=body[:20]):
                self.assert_recovers(Fault(body=body))

    def test_errors_with_odd_bodies_are_tried_again(self) -> None:
        page = Fault(524, b"<html>error code: 524</html>")
        self.assert_recovers(Fault(502, b'{"error": "\xff"}'), page, Fault(503, b"[]"))

    def test_an_error_that_comes_with_the_status_200_is_that_error(self) -> None:
        for code, tries in ((429, 4), (503, 4), (400, 1), ("x", 4)):
            error = {"error": {"code": code, "message": "The team's budget is used up"}}
            self.assert_stops(Fault(body=error), "The team's budget is used up", tries=tries)
        self.assert_stops(Fault(body={"error": "Only words"}), "Only words", tries=4)
        beside = {"error": {"code": 400, "message": "The reason"}, "candidates": []}
        self.assert_stops(Fault(body=beside), "The reason")

    def test_a_reply_that_only_speaks_of_an_error_is_a_reply(self) -> None:
        run = self.run_agent([text('The log says {"error": {"code": 400}}') | {"error": None}])
        self.assertEqual((run.code, run.stderr), (0, ""))

    def test_a_reply_that_holds_a_candidate_beside_an_error_is_a_reply(self) -> None:
        run = self.run_agent([text("ok") | {"error": {"code": 400, "message": "No."}}])
        self.assertEqual((run.code, run.stdout), (0, "Final response:\nok\n"), run.stderr)

    def test_a_connection_that_is_refused_is_tried_again_and_told(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            address = f"http://127.0.0.1:{free.getsockname()[1]}"
        run = self.run_agent([DONE], env={"GOOGLE_GEMINI_BASE_URL": address})
        self.assertEqual((run.code, len(self.waits)), (1, 3))
        self.assertRegex(run.stderr, r"^no reply: Connection refused; try 2 of 4 in \d\.\d s\n")

    def test_a_server_that_says_nothing_is_given_up_and_tried_again(self) -> None:
        with mock.patch("main.TIMEOUT_MILLISECONDS", 200):
            self.assert_recovers(Fault(body=DONE, delay=0.5))

    def test_a_server_that_sends_drop_by_drop_is_given_up_and_tried_again(self) -> None:
        with mock.patch("main.MAX_REQUEST_SECONDS", 0.5):
            self.assert_recovers(Fault(body=DONE, drip=0.02))
        self.assertEqual(signal.getitimer(signal.ITIMER_REAL)[0], 0)

    def test_the_time_out_goes_out_as_two_minutes(self) -> None:
        with mock.patch("google.genai.types.HttpOptions", side_effect=RuntimeError) as options:
            self.run_agent([DONE])
        self.assertEqual(options.call_args.kwargs["timeout"], 120_000)

    def test_written_files_stay_when_the_run_fails(self) -> None:
        write = ("write_file", {"file_path": "made.txt", "content": "kept"})
        run = self.run_agent([calls(write), failure(403)])
        self.assertEqual(run.code, 1)
        self.assertEqual((self.project / "calculator/made.txt").read_text(), "kept")


class Refusals(Service):
    def test_a_rejected_key_ends_the_run_with_the_servers_message(self) -> None:
        invalid = failure(400, "API key not valid.", {"reason": "API_KEY_INVALID"})
        self.assert_stops(invalid, "rejected the API key", "GEMINI_API_KEY", "not valid.")

    def test_other_refusals_end_the_run_with_the_servers_message(self) -> None:
        for code in (400, 409):
            self.assert_stops(failure(code, "The reason why."), "The reason why.", str(code))

    def test_used_up_credit_ends_the_run(self) -> None:
        self.assert_stops(failure(402, "Out of credit."), "quota or credit", "Out of credit.")

    def test_a_404_that_is_not_about_the_model_has_no_second_choice(self) -> None:
        run = self.run_agent([Fault(404, b"<title>Not here</title>")])
        self.assertEqual((run.code, run.server.models), (1, ["gemini-2.5-flash"]))
        self.assertIn("404", run.stderr)

    def test_a_redirection_is_not_followed_as_it_would_carry_the_key(self) -> None:
        with OfflineGemini([DONE]) as other:
            for code in (301, 302, 307, 308):
                fault = Fault(
                    code, b"", {"Location": f"{other.url}/v1beta/models/x:generateContent"}
                )
                self.assert_stops(fault, str(code))
            self.assertEqual(other.times, [])

    def test_a_long_message_is_cut(self) -> None:
        line = self.assert_stops(failure(400, "x" * 5000))
        self.assertEqual(len(line), 1000)

    def test_the_key_is_never_shown_even_if_the_server_repeats_it(self) -> None:
        line = self.assert_stops(failure(403, f"Key {KEY} is blocked."), "is blocked.")
        self.assertNotIn(KEY, line)

    def test_nor_is_half_of_it_where_a_long_message_is_cut(self) -> None:
        stderr = io.StringIO()
        with mock.patch.dict("os.environ", GEMINI_API_KEY=KEY), contextlib.redirect_stderr(stderr):
            main.warn("x" * 995 + KEY)
        self.assertEqual(stderr.getvalue(), "x" * 995 + "[GEMI\n")


class Settings(Service):
    """A setting that cannot work is told in one line that names the variable."""

    def assert_named(self, name: str, value: str, **more: str) -> str:
        run = self.run_agent([DONE], env={name: value, **more})
        self.assertEqual((run.code, self.waits), (1, []), run.stderr)
        self.assertEqual(len(run.stderr.splitlines()), 1)
        self.assertIn(name, run.stderr)
        self.assert_plain(run.stderr)
        return run.stderr

    def test_an_address_that_is_none_is_named(self) -> None:
        for address in (
            "nonsense",
            "http://[::1",
            "http://",
            "ftp://x",
            "127.0.0.1:80",
            "http://a b",
        ):
            with self.subTest(address):
                line = self.assert_named("GOOGLE_GEMINI_BASE_URL", address)
                self.assertIn(address, line)

    def test_an_address_that_ends_in_a_version_is_named(self) -> None:
        for end in ("/v1beta", "/v1beta/", "/gemini/v1beta"):
            self.assert_named("GOOGLE_GEMINI_BASE_URL", f"http://127.0.0.1:9{end}")

    def test_usual_addresses_are_taken(self) -> None:
        for address in (
            "http://127.0.0.1:4000",
            "https://example.com/gemini/",
            "http://[::1]:80",
            "http://user:password@host.example",
        ):
            self.assertRegex(address, f"^{main.ADDRESS}$")

    def test_a_file_of_certificates_that_is_not_there_or_is_none_is_named(self) -> None:
        self.assertIn("No such file", self.assert_named("SSL_CERT_FILE", "/nowhere/x.pem"))
        self.assert_named("SSL_CERT_FILE", "/etc/hostname")

    def test_a_proxy_that_cannot_be_used_is_named(self) -> None:
        for address in ("socks5://127.0.0.1:9", "ftp://x", "http://[::1"):
            self.assert_named("ALL_PROXY", address)

    def test_a_socks_proxy_needs_a_package_which_is_named(self) -> None:
        self.assertIn("socksio", self.assert_named("ALL_PROXY", "socks5://127.0.0.1:9"))

    def test_a_certificate_that_is_not_trusted_is_told_at_once(self) -> None:
        with tempfile.TemporaryDirectory() as directory:
            certificate = Path(directory, "certificate.pem")
            command = "openssl req -x509 -newkey rsa:2048 -nodes -subj /CN=localhost -days 2"
            subprocess.run(
                [*command.split(), "-keyout", certificate, "-out", certificate],
                capture_output=True,
                check=True,
            )
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
        with socket.create_server(("127.0.0.1", 0)) as server:

            def greet() -> None:
                connection, _ = server.accept()
                with connection, contextlib.suppress(OSError):
                    context.wrap_socket(connection, server_side=True)

            threading.Thread(target=greet, daemon=True).start()
            address = f"https://127.0.0.1:{server.getsockname()[1]}"
            line = self.assert_named("GOOGLE_GEMINI_BASE_URL", address)
        self.assertIn("SSL_CERT_FILE", line)


class RepliesWithoutSubstance(Service):
    """What makes a reply useless is checked in test_gemini.py."""

    def test_one_is_not_appended_and_asked_again(self) -> None:
        for useless in (text(""), {}, reply(finish="MALFORMED_FUNCTION_CALL")):
            run = self.run_agent([calls(LIST), useless, DONE])
            self.assertEqual((run.code, run.stdout), (0, "Final response:\nRecovered.\n"))
            second, third = run.server.requests[1:]
            self.assertEqual(second, third)
            self.assertEqual(len(run.stderr.splitlines()), 1)

    def test_the_second_time_a_short_user_turn_is_added(self) -> None:
        run = self.run_agent([text(""), text(""), DONE])
        self.assertEqual(run.code, 0)
        contents = [request["contents"] for request in run.server.requests]
        self.assertEqual(contents[0], contents[1])
        self.assertEqual(contents[2][:-1], contents[1])
        self.assertEqual(contents[2][-1]["role"], "user")
        self.assertLess(len(contents[2][-1]["parts"][0]["text"]), 200)

    def test_after_the_third_in_a_row_the_run_ends_with_the_reason(self) -> None:
        run = self.run_agent(itertools.repeat(reply(finish="MALFORMED_FUNCTION_CALL")))
        self.assertEqual((run.code, len(run.server.requests)), (1, 3))
        last = run.stderr.splitlines()[-1]
        self.assertRegex(last, r"^Error: .*MALFORMED_FUNCTION_CALL$")

    def test_a_good_reply_starts_the_count_anew(self) -> None:
        replies = [text(""), text(""), calls(LIST), text(""), text(""), DONE]
        self.assertEqual(self.run_agent(replies).code, 0)

    def test_they_count_towards_the_20(self) -> None:
        run = self.run_agent(itertools.cycle([text(""), calls(LIST)]))
        self.assertEqual(len(run.server.requests), 20)

    def test_a_blocked_prompt_and_a_safety_stop_end_the_run_with_the_reasons_name(self) -> None:
        self.assert_stops({"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}}, "PROHIBITED")
        self.assert_stops({"promptFeedback": {"blockReason": "SOMETHING_NEW"}}, "SOMETHING_NEW")
        self.assert_stops(text("Half a", finish="SAFETY"), "SAFETY")

    def test_an_answer_with_another_reason_than_stop_is_printed_with_a_warning(self) -> None:
        for reason in ("MAX_TOKENS", "OTHER", "SOMETHING_NEW"):
            run = self.run_agent([text("Half an ans", finish=reason)])
            self.assertEqual((run.code, run.stdout), (0, "Final response:\nHalf an ans\n"))
            self.assertEqual(run.stderr, f"the answer may not be whole: {reason}\n")

    def test_an_answer_without_a_reason_is_printed_without_a_warning(self) -> None:
        run = self.run_agent([text("Whole.", finish=None)])
        self.assertEqual((run.code, run.stdout), (0, "Final response:\nWhole.\n"))
        self.assertEqual(run.stderr, "")

    def test_a_call_that_may_be_cut_is_not_run(self) -> None:
        write: tuple[str, Json] = ("write_file", {"file_path": "cut.py", "content": "x ="})
        both = calls(write, finish="MAX_TOKENS")
        both["candidates"][0]["content"]["parts"].insert(0, {"text": "I will write"})
        self.assertIn("MAX_TOKENS", self.run_agent([both]).stderr)
        self.assertFalse((self.project / "calculator/cut.py").exists())


class InProcesses(WithAgent):
    def test_no_failure_ends_in_a_traceback(self) -> None:
        run = self.run_process([Fault(drop=True), failure(400, "No.")], "Do it")
        self.assertEqual(run.code, 1)
        self.assertNotIn("Traceback", run.stderr)
        self.assertEqual(len(run.stderr.splitlines()), 2)
        self.assertTrue(run.stderr.startswith("no reply: Server disconnected"), run.stderr)


if __name__ == "__main__":
    run_tests()
