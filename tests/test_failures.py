"""Checks what becomes of a failing service: python tests/test_failures.py.

No test waits for real: where the waits matter, the function that waits is replaced by a list.
"""

import itertools
import re
import signal
import socket
from typing import ClassVar
from unittest import mock

from offline_gemini import (
    KEY,
    Fault,
    Json,
    OfflineGemini,
    Reply,
    calls,
    failure,
    quota_failure,
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
        run = self.run_agent([calls(LIST), *faults, DONE])
        self.assertEqual((run.code, run.stdout), (0, "Final response:\nRecovered.\n"), run.stderr)
        self.assertEqual(len(self.waits), len(faults))
        self.assertEqual(len(run.stderr.splitlines()), len(faults))

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
        return lines[-1]


class Retries(Service):
    def test_errors_that_pass_are_tried_again(self) -> None:
        for code in (408, 429, 500, 502, 503, 504):
            with self.subTest(code=code):
                self.waits.clear()
                self.assert_recovers(failure(code))

    def test_four_tries_are_made_in_all_and_then_the_servers_message_is_told(self) -> None:
        self.assert_stops(
            failure(503, "The model is overloaded."), "The model is overloaded.", tries=4
        )
        self.assertEqual(len(self.waits), 3)

    def test_three_failures_in_a_row_are_survived(self) -> None:
        self.assert_recovers(failure(503), failure(500), failure(429))

    def test_the_tries_start_anew_with_each_request(self) -> None:
        faults = [failure(503)] * 3
        run = self.run_agent([*faults, calls(LIST), *faults, DONE])
        self.assertEqual(run.code, 0, run.stderr)

    def test_waits_grow_and_have_jitter(self) -> None:
        seen = set()
        for _ in range(5):
            self.waits.clear()
            self.assert_recovers(failure(503), failure(503), failure(503))
            self.assertEqual(self.waits, sorted(self.waits))
            self.assertTrue(all(0.5 < wait < 6 for wait in self.waits), self.waits)
            seen |= set(self.waits)
        self.assertEqual(len(seen), 15)

    def test_each_wait_is_announced_with_what_how_long_and_which_try(self) -> None:
        run = self.run_agent([failure(503, "Overloaded."), DONE])
        self.assertRegex(run.stderr, r"^503 UNAVAILABLE: Overloaded\.; try 2 of 4 in \d\.\d s\n$")

    def test_failed_tries_do_not_count_towards_the_20(self) -> None:
        faults: list[Reply] = [failure(503), calls(LIST)]
        run = self.run_agent(itertools.cycle(faults))
        self.assertEqual(len(run.server.requests), 40)
        self.assertIn("no final answer after 20 iterations", run.stderr)

    def test_dropped_and_cut_replies_are_tried_again(self) -> None:
        body = text("cut in two")
        self.assert_recovers(Fault(drop=True), Fault(body=body, cut=40), Fault(body=body, cut=1))

    def test_replies_that_are_no_json_or_no_reply_are_tried_again(self) -> None:
        garbage = (
            b"",
            b"{}",
            b"[]",
            b"null",
            b"<html>Sign in to the hotel Wi-Fi</html>",
            b'{"candidates": [{"content": {"parts": [{"te',
            b"\xff\xfe\x00",
            b'{"candidates": 3}',
            b'{"candidates": [{"content": {"parts": [{"text": 5}]}}]}',
        )
        for body in garbage:
            with self.subTest(body=body[:20]):
                self.waits.clear()
                self.assert_recovers(Fault(body=body))

    def test_an_error_whose_body_is_no_text_is_tried_again(self) -> None:
        self.assert_recovers(Fault(502, b'{"error": "\xff"}'))

    def test_a_connection_that_is_refused_is_tried_again_and_told(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            address = f"http://127.0.0.1:{free.getsockname()[1]}"
        run = self.run_agent([DONE], env={"GOOGLE_GEMINI_BASE_URL": address})
        self.assertEqual((run.code, len(self.waits)), (1, 3))
        self.assertIn("refused", run.stderr)

    def test_a_server_that_says_nothing_is_given_up_and_tried_again(self) -> None:
        with mock.patch("main.TIMEOUT_MILLISECONDS", 200):
            self.assert_recovers(Fault(body=DONE, delay=0.5))

    def test_a_server_that_sends_drop_by_drop_is_given_up_and_tried_again(self) -> None:
        with mock.patch("main.MAX_REQUEST_SECONDS", 0.5):
            self.assert_recovers(Fault(body=DONE, drip=0.02))
        self.assertEqual(signal.getitimer(signal.ITIMER_REAL)[0], 0)

    def test_the_time_out_is_two_minutes(self) -> None:
        self.assertEqual(main.TIMEOUT_MILLISECONDS, 120_000)

    def test_written_files_stay_when_the_run_fails(self) -> None:
        write = ("write_file", {"file_path": "made.txt", "content": "kept"})
        run = self.run_agent([calls(write), failure(403)])
        self.assertEqual(run.code, 1)
        self.assertEqual((self.project / "calculator/made.txt").read_text(), "kept")


class RateLimits(Service):
    def test_the_delay_that_is_asked_for_is_waited(self) -> None:
        for delay, seconds in (("2s", 2), ("2.5s", 2.5), ("60s", 60), ("0.000001s", 0.000001)):
            self.waits.clear()
            self.assert_recovers(failure(429, "Slow down.", retry_info(delay)))
            self.assertEqual(self.waits, [seconds])

    def test_a_retry_after_header_is_honoured_too(self) -> None:
        self.assert_recovers(failure(503, headers={"Retry-After": "7"}))
        self.assertEqual(self.waits, [7])

    def test_forms_that_are_no_duration_mean_that_no_delay_was_asked(self) -> None:
        for delay in ("997ms", "", "soon", "-3s", "0s", "9" * 30 + "s"):
            self.waits.clear()
            self.assert_recovers(failure(429, "Slow down.", retry_info(delay)))
            self.assertLess(self.waits[0], 2)
        for odd in ({"retryDelay": {"seconds": 9}}, {"retryDelay": None}, {}):
            self.waits.clear()
            self.assert_recovers(failure(429, "Slow down.", odd))
            self.assertLess(self.waits[0], 2)

    def test_more_than_a_minute_is_not_waited_but_told(self) -> None:
        self.assert_stops(failure(429, "Slow down.", retry_info("61s")), "61 s", "Slow down.")

    def test_a_daily_quota_is_not_waited_for(self) -> None:
        daily = quota_failure("GenerateRequestsPerDayPerProjectPerModel-FreeTier")
        fault = failure(429, "You exceeded your quota.", daily, retry_info("2s"))
        self.assert_stops(fault, "quota", "You exceeded your quota.")

    def test_a_limit_of_0_is_not_waited_for(self) -> None:
        self.assert_stops(failure(429, "Quota exceeded, limit: 0, model: x"), "quota")
        zero = {"violations": [{"quotaId": "PerMinute", "quotaValue": "0"}]}
        self.assert_stops(failure(429, "Quota exceeded.", zero), "quota")

    def test_a_limit_per_minute_is_waited_for(self) -> None:
        minute = quota_failure("GenerateRequestsPerMinutePerProjectPerModel-FreeTier")
        self.assert_recovers(failure(429, "Quota exceeded, limit: 05", minute))


class Refusals(Service):
    def test_used_up_credit_ends_the_run(self) -> None:
        self.assert_stops(failure(402, "Out of credit."), "credit", "Out of credit.")

    def test_a_rejected_key_ends_the_run_with_the_servers_message(self) -> None:
        invalid = failure(400, "API key not valid.", {"reason": "API_KEY_INVALID"})
        for fault in (invalid, failure(401, "No."), failure(403, "Leaked.")):
            self.assert_stops(fault, "rejected the API key", "GEMINI_API_KEY")

    def test_other_refusals_end_the_run_with_the_servers_message(self) -> None:
        for code in (400, 409, 501):
            self.assert_stops(failure(code, "The reason why."), "The reason why.", str(code))

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

    def test_errors_in_other_shapes_are_told_in_one_line(self) -> None:
        for body in (
            b"",
            b"[]",
            b'{"error": "x"}',
            b'{"error": {"details": 5}}',
            b"<html>\n\nno</html>",
        ):
            self.assert_stops(Fault(400, body), "400")

    def test_a_long_message_is_cut(self) -> None:
        self.assertLess(len(self.assert_stops(failure(400, "long " * 5000))), 1100)

    def test_the_key_is_never_shown_even_where_the_server_repeats_it(self) -> None:
        line = self.assert_stops(failure(403, f"Key {KEY} is blocked."), "is blocked.")
        self.assertNotIn(KEY, line)

    def test_a_socks_proxy_is_told_in_one_line(self) -> None:
        run = self.run_agent([DONE], env={"ALL_PROXY": "socks5://127.0.0.1:9"})
        self.assertEqual((run.code, len(run.stderr.splitlines())), (1, 1))
        self.assertRegex(run.stderr, "(?i)socks")

    def test_an_address_that_is_none_is_told_in_one_line(self) -> None:
        for address in ("nonsense", "http://[::1", "http://", "ftp://x"):
            run = self.run_agent([DONE], env={"GOOGLE_GEMINI_BASE_URL": address})
            self.assertEqual((run.code, self.waits), (1, []))
            self.assertRegex(run.stderr, r"^\w*(Error|URL): .*\n$")


class RepliesWithoutSubstance(Service):
    UNUSABLE: ClassVar[dict[str, Json]] = {
        "no candidates key": {},
        "no candidates": {"candidates": []},
        "no content": {"candidates": [{"finishReason": "STOP"}]},
        "content null": {"candidates": [{"content": None, "finishReason": "STOP"}]},
        "no parts": {"candidates": [{"content": {"role": "model"}, "finishReason": "STOP"}]},
        "empty parts": reply(),
        "an empty part": reply({}),
        "empty text": text(""),
        "blank text": text(" \n"),
        "thoughts alone": reply({"text": "Hm.", "thought": True}),
        "a malformed call": reply(finish="MALFORMED_FUNCTION_CALL"),
        "a malformed call with text": text("print(default_api)", finish="MALFORMED_FUNCTION_CALL"),
        "a malformed reply": text("{", finish="MALFORMED_RESPONSE"),
        "an unexpected call": calls(LIST, finish="UNEXPECTED_TOOL_CALL"),
        "a call without a name": reply({"functionCall": {"args": {}}}),
    }

    def test_they_are_not_appended_and_asked_again(self) -> None:
        for name, unusable in self.UNUSABLE.items():
            with self.subTest(name):
                run = self.run_agent([calls(LIST), unusable, DONE])
                self.assertEqual((run.code, run.stdout), (0, "Final response:\nRecovered.\n"))
                second, third = run.server.requests[1:]
                self.assertEqual(second, third)
                self.assertEqual(len(run.stderr.splitlines()), 1)

    def test_the_second_time_a_short_user_turn_is_added(self) -> None:
        for unusable in self.UNUSABLE.values():
            run = self.run_agent([unusable, unusable, DONE])
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

    def test_a_blocked_prompt_ends_the_run_with_the_reasons_name(self) -> None:
        for reason in ("PROHIBITED_CONTENT", "SAFETY", "SOMETHING_NEW"):
            self.assert_stops({"promptFeedback": {"blockReason": reason}}, reason)

    def test_a_safety_stop_ends_the_run_with_the_reasons_name(self) -> None:
        self.assertGreaterEqual(len(main.STOPPED), 8)
        for reason in main.STOPPED:
            self.assert_stops(text("Half a", finish=reason), reason)
            self.assert_stops({"candidates": [{"finishReason": reason}]}, reason)

    def test_an_answer_that_is_cut_off_is_printed_with_a_warning(self) -> None:
        run = self.run_agent([text("Half an ans", finish="MAX_TOKENS")])
        self.assertEqual((run.code, run.stdout), (0, "Final response:\nHalf an ans\n"))
        self.assertIn("MAX_TOKENS", run.stderr)

    def test_a_reply_cut_off_before_any_text_ends_the_run(self) -> None:
        self.assert_stops(reply(finish="MAX_TOKENS"), "MAX_TOKENS")
        self.assert_stops(calls(LIST, finish="MAX_TOKENS"), "MAX_TOKENS")

    def test_finish_reasons_that_are_new_say_nothing_on_the_screen(self) -> None:
        run = self.run_process([text("ok", finish="SOMETHING_NEW")], "Do it")
        self.assertEqual((run.code, run.stderr), (0, ""))


class InProcesses(WithAgent):
    def test_no_failure_ends_in_a_traceback(self) -> None:
        faults = [
            Fault(drop=True),
            failure(429, "Wait.", retry_info("0.01s")),
            Fault(body=b"<html>"),
            failure(400, "No."),
        ]
        run = self.run_process(faults, "Do it")
        self.assertEqual(run.code, 1)
        self.assertNotIn("Traceback", run.stderr)
        self.assertEqual(len(run.stderr.splitlines()), 4)
        self.assertTrue(re.match(r"^RemoteProtocolError", run.stderr))


if __name__ == "__main__":
    run_tests()
