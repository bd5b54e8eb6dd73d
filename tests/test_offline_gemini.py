"""Checks the stand-in itself: it must refuse what the API refuses.

python tests/test_offline_gemini.py
"""

import copy
import http.client
import json
import os
import re
import signal
import subprocess
import sys
import unittest
import urllib.error
import urllib.request

from offline_gemini import KEY, SIGNATURE, Json, OfflineGemini, calls, play, text
from support import PROJECT, run_tests

PROMPT: Json = {"role": "user", "parts": [{"text": "Do it"}]}
CALLS = calls(("one", {}), ("two", {"x": 1}))["candidates"][0]["content"]


def responses(*pairs: tuple[str, str]) -> Json:
    """A user turn of function responses, from ids and names."""
    return {
        "role": "user",
        "parts": [
            {"functionResponse": {"id": i, "name": name, "response": {"result": ""}}}
            for i, name in pairs
        ],
    }


ANSWERED = responses(("call-1-one", "one"), ("call-2-two", "two"))


class StandIn(unittest.TestCase):
    def post(self, body: Json | bytes, key: str = KEY, model: str = "gemini-2.5-flash") -> Json:
        """What the stand-in answers to a request, after it has sent CALLS."""
        with OfflineGemini([text("ok")]) as api:
            api.sent.append(CALLS)
            request = urllib.request.Request(
                f"{api.url}/v1beta/models/{model}:generateContent",
                body if isinstance(body, bytes) else json.dumps(body).encode(),
                {"x-goog-api-key": key},
            )
            try:
                with urllib.request.urlopen(request) as answer:
                    found: Json = json.load(answer)
            except urllib.error.HTTPError as error:
                found = json.load(error)
        return found

    def assert_refused(self, contents: list[Json], words: str) -> None:
        error = self.post({"contents": contents})["error"]
        self.assertEqual((error["code"], error["status"]), (400, "INVALID_ARGUMENT"))
        self.assertIn(words, error["message"])

    def test_a_right_request_is_answered(self) -> None:
        for contents in ([PROMPT], [PROMPT, CALLS, ANSWERED], [PROMPT, CALLS, ANSWERED, PROMPT]):
            self.assertIn("candidates", self.post({"contents": contents}))

    def test_a_missing_key_is_refused(self) -> None:
        self.assertIn(
            "API key not valid", self.post({"contents": [PROMPT]}, key="")["error"]["message"]
        )

    def test_an_unknown_model_is_not_found(self) -> None:
        error = self.post({"contents": [PROMPT]}, model="gemini-1.0")["error"]
        self.assertEqual((error["code"], error["status"]), (404, "NOT_FOUND"))

    def test_roles_other_than_user_and_model_are_refused(self) -> None:
        for role in ("tool", "system", "function", None):
            self.assert_refused([PROMPT | {"role": role}], "is not supported")

    def test_no_contents_and_no_parts_are_refused(self) -> None:
        self.assert_refused([], "contents is not specified")
        self.assert_refused([PROMPT | {"parts": []}], "parts must not be empty")
        self.assert_refused(
            [PROMPT | {"parts": [{"thought": True}]}], "required oneof field 'data'"
        )
        both = [{"text": "", "functionCall": {"name": "one"}}]
        self.assert_refused([PROMPT | {"parts": both}], "required oneof field 'data'")

    def test_a_last_turn_by_the_model_is_refused(self) -> None:
        said = {"role": "model", "parts": [{"text": "Hm."}]}
        self.assert_refused([PROMPT, said], "ending with a model turn")

    def test_responses_that_differ_in_number_are_refused(self) -> None:
        words = "must equal that of the function call parts"
        self.assert_refused([PROMPT, CALLS, responses(("call-1-one", "one"))], words)
        self.assert_refused([PROMPT, CALLS, PROMPT], words)
        self.assert_refused([PROMPT, ANSWERED], words)

    def test_responses_that_differ_in_name_id_or_order_are_refused(self) -> None:
        for wrong in (
            responses(("call-1-one", "two"), ("call-2-two", "one")),
            responses(("call-9-one", "one"), ("call-2-two", "two")),
            responses(("call-2-two", "two"), ("call-1-one", "one")),
        ):
            self.assert_refused([PROMPT, CALLS, wrong], "does not match functionCall")

    def test_a_lost_or_moved_signature_is_refused(self) -> None:
        lost, moved = copy.deepcopy(CALLS), copy.deepcopy(CALLS)
        del lost["parts"][0]["thoughtSignature"], moved["parts"][0]["thoughtSignature"]
        moved["parts"][1]["thoughtSignature"] = SIGNATURE
        for wrong in (lost, moved):
            self.assert_refused([PROMPT, wrong, ANSWERED], "missing a thought_signature")

    def test_what_is_no_json_is_refused(self) -> None:
        for body in (b'{"contents": NaN}', b'{"contents": "\\ud83d"}', b"{", b"\xff"):
            self.assertIn("Invalid JSON payload", self.post(body)["error"]["message"])

    def test_an_array_without_items_is_refused(self) -> None:
        schema = {"properties": {"args": {"type": "ARRAY"}}}
        tools = [{"functionDeclarations": [{"name": "run", "parameters": schema}]}]
        error = self.post({"contents": [PROMPT], "tools": tools})["error"]
        self.assertIn("items: missing field", error["message"])

    def test_a_function_without_parameters_is_taken(self) -> None:
        for declaration in ({"name": "now"}, {"name": "now", "parameters": {"type": "OBJECT"}}):
            tools = [{"functionDeclarations": [declaration]}]
            self.assertIn("candidates", self.post({"contents": [PROMPT], "tools": tools}))

    def test_a_request_in_chunks_is_taken(self) -> None:
        body = json.dumps({"contents": [PROMPT]}).encode()
        with OfflineGemini([text("ok")]) as api:
            connection = http.client.HTTPConnection(api.url.removeprefix("http://"))
            path, headers = (
                "/v1beta/models/gemini-2.5-flash:generateContent",
                {"x-goog-api-key": KEY},
            )
            parts = iter((body[:7], body[7:30], body[30:]))
            connection.request("POST", path, parts, headers, encode_chunked=True)
            answer = connection.getresponse()
            self.assertEqual((answer.status, api.requests), (200, [{"contents": [PROMPT]}]))
            connection.close()

    def test_its_words_come_from_what_it_was_sent(self) -> None:
        prompt = {"role": "user", "parts": [{"text": "Calculate 3 + 5 using calculator/main.py"}]}
        listed, run = (
            {"role": "user", "parts": [{"functionResponse": {"response": {"result": result}}}]}
            for result in ("- main.py", 'STDOUT: {"result": 99}\nSTDERR: ')
        )
        self.assertIn("3 + 5 = 99", str(play({"contents": [prompt, listed, run]})))
        failed = {"role": "user", "parts": [{"functionResponse": {"response": {"error": "no"}}}]}
        self.assertIn("gave no result", str(play({"contents": [prompt, listed, failed]})))

    def test_it_calls_what_it_is_told_to_call(self) -> None:
        told = 'Call write_file {"file_path": "x", "content": "a\\nb"}'
        asked = {"contents": [{"role": "user", "parts": [{"text": told}]}]}
        parts = play(asked)["candidates"][0]["content"]["parts"]  # type: ignore[index]
        self.assertEqual(parts[0]["functionCall"]["args"], {"file_path": "x", "content": "a\nb"})

    def test_it_says_so_if_it_cannot_read_what_it_is_told_to_call(self) -> None:
        for told, answer in (("Call now {'a': 1}", "is not JSON"), ("Call now", "functionCall")):
            asked = {"contents": [{"role": "user", "parts": [{"text": told}]}]}
            self.assertIn(answer, str(play(asked)))

    def test_it_can_be_served_to_an_agent_started_apart(self) -> None:
        command = [sys.executable, str(PROJECT / "tests/offline_gemini.py"), "--serve"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, stderr=-3) as server:
            assert server.stdout
            variables = dict(re.findall(r"(\w+)=(\S+)", server.stdout.readline()))
            agent = [sys.executable, str(PROJECT / "main.py"), "hello"]
            done, wrong = (
                subprocess.run(
                    agent, env=os.environ | each, capture_output=True, text=True, check=False
                )
                for each in (variables, variables | {"GEMINI_API_KEY": "wrong"})
            )
            server.send_signal(signal.SIGINT)
            server.wait(timeout=10)
        self.assertIn("I am a stand-in without a model", done.stdout, done.stderr)
        self.assertIn("Gemini rejected the API key", wrong.stderr)
        self.assertEqual(server.returncode, 0)


if __name__ == "__main__":
    run_tests()
