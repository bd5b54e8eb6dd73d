"""Checks the policy of trying again and the reading of replies, without a server.

python tests/test_gemini.py
"""

import json
import ssl
import unittest
from typing import Any, ClassVar

import httpx2
from google.genai.errors import APIError
from google.genai.types import GenerateContentResponse
from offline_gemini import Json, calls, reply, text
from support import run_tests

import gemini

LIST = ("get_files_info", {"directory": "."})
SIGNED = {"thoughtSignature": "c2lnbmVk"}


def refused(code: int, message: str = "As scripted.", *details: Json, **more: Any) -> APIError:
    """What the SDK raises for an error of the service."""
    body = {"error": {"code": code, "message": message, "details": list(details), **more}}
    return APIError(code, body, httpx2.Response(code))


def verdict(error: Exception, tries: int = 1) -> str:
    return gemini.why_give_up(gemini.failure_of(error), tries)


def read(body: Json) -> GenerateContentResponse:
    return GenerateContentResponse.model_validate(body)


def quota(name: str, value: str = "10") -> Json:
    return {"violations": [{"quotaId": name, "quotaValue": value}]}


class TryingAgain(unittest.TestCase):
    """Each row is an error and what the verdict on it begins with; "" means: try again."""

    def assert_verdicts(self, *rows: tuple[Exception, str]) -> None:
        for error, words in rows:
            with self.subTest(str(error)[:60]):
                self.assertEqual(verdict(error)[: len(words) or None], words)

    def test_every_code_of_http_is_decided_on(self) -> None:
        stops = {code for code in range(300, 600) if verdict(refused(code))}
        passing = {408, 429, 499, *range(500, 600)}
        self.assertEqual(stops, set(range(300, 600)) - passing)

    def test_whatever_else_is_raised_is_tried_again(self) -> None:
        for error in (
            ValueError("Exceeds the limit (4300 digits) for integer string conversion"),
            RecursionError("maximum recursion depth exceeded"),
            TypeError("unhashable type"),
            AttributeError("'int' object has no attribute 'get'"),
            json.JSONDecodeError("Expecting value", "<html>", 0),
            UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte"),
            httpx2.ConnectError("[Errno 111] Connection refused"),
            httpx2.RemoteProtocolError("Server disconnected without sending a response."),
            httpx2.ReadTimeout("The read operation timed out"),
            TimeoutError("none within 240 s"),
            ConnectionResetError(104, "Connection reset by peer"),
            KeyError("candidates"),
        ):
            with self.subTest(repr(error)):
                self.assertEqual(verdict(error), "")
                self.assertTrue(verdict(error, gemini.MAX_TRIES).startswith("given up after 4"))

    def test_what_no_other_try_can_mend_stops_at_once(self) -> None:
        untrusted = httpx2.ConnectError("[SSL: CERTIFICATE_VERIFY_FAILED] self-signed")
        untrusted.__cause__ = ssl.SSLCertVerificationError(1, "certificate verify failed")
        for error in (
            untrusted,
            httpx2.UnsupportedProtocol("Request URL is missing an 'http://' protocol."),
            httpx2.InvalidURL("Invalid port: 'x'"),
            ModuleNotFoundError("No module named 'h2'"),
        ):
            with self.subTest(repr(error)):
                self.assertIn("GOOGLE_GEMINI_BASE_URL, SSL_CERT_FILE", verdict(error))

    def test_a_used_up_quota_or_credit_stops_at_once(self) -> None:
        used_up = "the quota or credit is used up"
        self.assert_verdicts(
            (refused(402), used_up),
            (refused(429, "Slow.", quota("GenerateRequestsPerDayPerProjectPerModel")), used_up),
            (refused(429, "Slow.", quota("PerMinute", "0")), used_up),
            (refused(429, "Quota exceeded, limit: 0, model: x"), used_up),
            (refused(429, "Your prepayment credits are depleted."), used_up),
            (refused(429, "Your project has exceeded its monthly spending cap."), used_up),
        )

    def test_a_limit_per_minute_passes(self) -> None:
        self.assert_verdicts(
            (refused(429), ""),
            (refused(429, "Slow.", quota("GenerateRequestsPerMinutePerProjectPerModel")), ""),
            (refused(429, "Quota exceeded, limit: 05"), ""),
            (refused(503, "credits are depleted"), ""),
        )

    def test_a_rejected_key_stops_at_once(self) -> None:
        self.assert_verdicts(
            (refused(400, "Not valid.", {"reason": "API_KEY_INVALID"}), "Gemini rejected the API"),
            (refused(401), "Gemini rejected the API key"),
            (refused(403), "Gemini rejected the API key"),
        )

    def test_only_a_404_with_that_status_is_about_the_model(self) -> None:
        self.assert_verdicts(
            (refused(404, status="NOT_FOUND"), "there is no such model; GEMINI_MODEL"),
            (refused(404), "the request was refused"),
            (APIError(404, {"message": "<title>no</title>", "status": "Not Found"}), "the request"),
        )

    def test_four_tries_are_the_most(self) -> None:
        self.assertEqual([verdict(refused(503), n) for n in (1, 2, 3)], ["", "", ""])
        self.assertEqual(verdict(refused(503), 4), "given up after 4 tries")

    def test_a_minute_is_the_most_that_is_waited(self) -> None:
        wait = [refused(503, "Slow.", {"retryDelay": delay}) for delay in ("60s", "60.5s", "61s")]
        self.assertEqual(verdict(wait[0]), "")
        self.assertEqual(verdict(wait[2]), "Gemini asks to wait 61 s, which is too long")
        self.assertTrue(verdict(wait[1]))


class Delays(unittest.TestCase):
    def assert_asked(self, error: Exception, seconds: float) -> None:
        self.assertAlmostEqual(gemini.failure_of(error).delay, seconds)

    def test_the_delay_is_found_in_details_header_and_message(self) -> None:
        for delay, seconds in (("2s", 2.0), ("2.5s", 2.5), ("0.000001s", 0.000001)):
            self.assert_asked(refused(429, "Slow.", {"retryDelay": delay}), seconds)
        for message, seconds in (
            ("Please retry in 5.2s.", 5.2),
            ("Please retry in 34.074824224s.", 34.074824224),
            ("Please retry in 997.5ms.", 0.9975),
            ("please try again in 20 s", 20),
            ("Please retry in 1m5.5s.", 65.5),
            ("Please retry in 10h0m3s.", 36003),
            ("Please retry in 1m 3s.", 63),
        ):
            self.assert_asked(refused(429, message), seconds)
        body = {"error": {"code": 503, "message": "Busy."}}
        header = httpx2.Response(503, headers={"Retry-After": "7"})
        self.assert_asked(APIError(503, body, header), 7)

    def test_the_longest_of_them_counts(self) -> None:
        self.assert_asked(refused(429, "Please retry in 9s.", {"retryDelay": "3s"}), 9)
        self.assert_asked(refused(429, "Please retry in 2s.", {"retryDelay": "3s"}), 3)

    def test_other_forms_ask_for_none(self) -> None:
        odd = ("997ms", "", "soon", "-3s", "0s", "9" * 30 + "s", None, 5, {"seconds": 9}, ["5s"])
        for delay in odd:
            with self.subTest(delay=delay):
                self.assert_asked(refused(429, "Slow.", {"retryDelay": delay}), 0)
        for header in ("soon", "-3", "1.5.2", "", "Wed, 21 Oct 2026 07:28:00 GMT"):
            response = httpx2.Response(503, headers={"Retry-After": header})
            self.assert_asked(APIError(503, {}, response), 0)

    def test_a_digit_that_is_not_decimal_asks_for_none(self) -> None:
        response = httpx2.Response(503, headers=[(b"Retry-After", b"\xb2")])  # a raised 2
        self.assert_asked(APIError(503, {}, response), 0)

    def test_waits_grow_have_jitter_and_are_never_shorter_than_asked(self) -> None:
        plain = gemini.failure_of(refused(503))
        for _ in range(200):
            waits = [gemini.seconds_to_wait(plain, tries) for tries in (1, 2, 3)]
            self.assertEqual(waits, sorted(waits))
            self.assertTrue(waits[0] >= 0.75 and waits[2] <= 5, waits)
        self.assertGreater(len({gemini.seconds_to_wait(plain, 1) for _ in range(20)}), 15)
        for asked, least in ((30.0, 30.0), (0.01, 0.75)):
            failure = plain._replace(delay=asked)
            self.assertGreaterEqual(gemini.seconds_to_wait(failure, 1), least)


class Words(unittest.TestCase):
    def words(self, error: Exception) -> str:
        return gemini.failure_of(error).words

    def test_an_error_of_the_service_is_told_with_code_status_and_message(self) -> None:
        error = refused(503, "The model is overloaded.", status="UNAVAILABLE")
        self.assertEqual(self.words(error), "503 UNAVAILABLE: The model is overloaded.")

    def test_what_is_missing_is_left_out(self) -> None:
        self.assertEqual(self.words(refused(503, "Busy.", status=None)), "503: Busy.")

    def test_of_a_page_of_html_the_text_is_told(self) -> None:
        page = {"message": "<html><title>502 Bad Gateway</title></html>", "status": "Bad Gateway"}
        told = " ".join(self.words(APIError(502, page)).split())
        self.assertEqual(told, "502 Bad Gateway: 502 Bad Gateway")

    def test_errors_in_other_shapes_are_told_as_they_are(self) -> None:
        for body in ([], {}, {"error": "x"}, {"error": {"details": 5}}, "text", None, [1, 2]):
            with self.subTest(body=body):
                self.assertEqual(self.words(APIError(400, body)), f"400: {json.dumps(body)}")

    def test_an_error_without_a_message_is_told_in_its_own_letters(self) -> None:
        self.assertEqual(
            self.words(APIError(400, {"Grund": "zu groß"})), '400: {"Grund": "zu groß"}'
        )

    def test_of_a_lost_reply_only_plain_words_are_told(self) -> None:
        for error, words in (
            (httpx2.ConnectError("[Errno 111] Connection refused"), "Connection refused"),
            (httpx2.ConnectError("[SSL] wrong version (_ssl.c:100)"), "wrong version"),
            (httpx2.ReadTimeout("timed out"), "timed out"),
            (httpx2.ReadError("Lost. For more see https://example.com"), "Lost"),
        ):
            self.assertEqual(self.words(error), f"no reply: {words}")
        odd = ValueError("1 validation error for X\n see https://errors.pydantic.dev")
        self.assertEqual(self.words(odd), "the reply cannot be read")


class Replies(unittest.TestCase):
    UNUSABLE: ClassVar[dict[str, Json]] = {
        "no candidates key": {"modelVersion": "x"},
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
        "no finish reason": reply(finish=None),  # type: ignore[arg-type]
    }

    def test_a_reply_without_substance_is_unusable_but_another_may_not_be(self) -> None:
        for name, body in self.UNUSABLE.items():
            with self.subTest(name):
                problem, may_pass = gemini.trouble(read(body))
                self.assertTrue(problem.startswith("unusable reply, "), problem)
                self.assertTrue(may_pass)

    def test_what_the_service_stopped_on_purpose_is_not_asked_for_again(self) -> None:
        self.assertGreaterEqual(len(gemini.STOPPED), 8)
        stopped = [reply(finish=reason) for reason in gemini.STOPPED]
        stopped += [text("Half", finish=reason) for reason in gemini.STOPPED]
        stopped += [calls(LIST, finish="SAFETY"), reply(finish="MAX_TOKENS")]
        stopped += [calls(LIST, finish="MAX_TOKENS")]
        both = calls(LIST, finish="MAX_TOKENS")
        both["candidates"][0]["content"]["parts"].append({"text": "I will write"})
        for body in [*stopped, both]:
            problem, may_pass = gemini.trouble(read(body))
            self.assertIn(body["candidates"][0]["finishReason"], problem)
            self.assertFalse(may_pass)

    def test_a_prompt_is_blocked_only_if_there_is_no_candidate(self) -> None:
        for reason in ("PROHIBITED_CONTENT", "SAFETY", "BLOCKED_REASON_UNSPECIFIED"):
            feedback: Json = {"promptFeedback": {"blockReason": reason}}
            self.assertEqual(
                gemini.trouble(read(feedback)), (f"Gemini blocked the prompt: {reason}", False)
            )
            self.assertEqual(gemini.trouble(read(text("ok") | feedback)), ("", False))

    def test_text_and_calls_are_of_use_whatever_else_they_end_with(self) -> None:
        for reason in ("STOP", "OTHER", None):
            self.assertEqual(gemini.trouble(read(text("ok", finish=reason))), ("", False))
            self.assertEqual(gemini.trouble(read(calls(LIST, finish=reason))), ("", False))
        self.assertEqual(gemini.trouble(read(text("cut", finish="MAX_TOKENS"))), ("", False))

    def test_thoughts_are_no_text(self) -> None:
        thought = {"text": "SECRET", "thought": True}
        body = reply(thought, {"text": "An"}, thought, {"text": "swer"})
        self.assertEqual(gemini.text_of(read(body)), "Answer")

    def test_text_keeps_the_blanks_at_its_ends(self) -> None:
        self.assertEqual(gemini.text_of(read(text("  indented\n"))), "  indented\n")

    def test_a_reply_that_says_nothing_or_is_too_deep_to_send_back_cannot_be_read(self) -> None:
        deep: Json = {}
        for _ in range(400):
            deep = {"a": deep}
        for body in ({}, calls(("get_files_info", deep))):
            with self.assertRaises(ValueError):
                gemini.checked(read(body))
        self.assertIsNotNone(gemini.checked(read(text("ok"))))


class Parts(unittest.TestCase):
    """What of a reply goes back."""

    def back(self, *parts: Json) -> list[Json]:
        turn = gemini.model_turn(read(reply(*parts)))
        sent: Json = turn.model_dump(mode="json", exclude_none=True, by_alias=True)
        self.assertEqual(sent["role"], "model")
        return list(sent["parts"])

    CALL: ClassVar[Json] = {"functionCall": {"name": "x", "args": {}}}

    def test_a_usual_part_goes_back_as_it_came(self) -> None:
        for part in (
            {"text": "plan", "thought": True},
            {"text": "plan", **SIGNED},
            {"text": ""},
            {"functionCall": {"id": "1", "name": "x", "args": {"a": None, "b": [1, "é"]}}},
            {"functionCall": {"name": "x"}, **SIGNED},
            {"executableCode": {"code": "1", "language": "PYTHON"}},
        ):
            self.assertEqual(self.back(part), [part])

    def test_a_part_with_nothing_but_a_mark_gets_an_empty_text(self) -> None:
        for mark in (SIGNED, {"thought": True}, {"thought": True, **SIGNED}):
            self.assertEqual(self.back(mark, self.CALL), [{"text": "", **mark}, self.CALL])

    def test_an_empty_text_beside_a_call_is_left_out(self) -> None:
        self.assertEqual(self.back(self.CALL | {"text": "", **SIGNED}), [self.CALL | SIGNED])

    def test_two_kinds_of_data_become_two_parts_with_the_signature_on_the_call(self) -> None:
        back = self.back(self.CALL | {"text": "Look", **SIGNED})
        self.assertEqual(back, [{"text": "Look"}, self.CALL | SIGNED])

    def test_a_part_without_a_field_is_dropped(self) -> None:
        self.assertEqual(self.back({}, self.CALL), [self.CALL])

    def test_what_no_json_can_hold_is_replaced(self) -> None:
        odd = {"functionCall": {"name": "x", "args": {"p": "a\ud83d", "n": float("nan")}}}
        args = self.back(odd)[0]["functionCall"]["args"]
        self.assertEqual(args, {"p": "a\ufffd", "n": "nan"})

    def test_so_are_names_and_infinities(self) -> None:
        odd = {"functionCall": {"name": "x", "args": {"a\ud83d": float("inf"), "b": -float("inf")}}}
        args = self.back(odd)[0]["functionCall"]["args"]
        self.assertEqual(args, {"a\ufffd": "inf", "b": "-inf"})


if __name__ == "__main__":
    run_tests()
