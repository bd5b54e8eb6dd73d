"""A stand-in for the Gemini API on loopback, with the standard library alone. No model is involved.

For people without a key: it plays the model by a few plain rules, and runs main.py against itself.

    python tests/offline_gemini.py "Calculate 3 + 5 using calculator/main.py" --verbose
    python tests/offline_gemini.py 'Call get_file_content {"file_path": "main.py"}' --verbose
    python tests/offline_gemini.py --serve

For tests: `with OfflineGemini(replies) as server` plays the replies one by one, keeps what it was
sent (`server.requests`), refuses what the API refuses (`server.refusals`), and can drop, cut, delay
and garble a reply (`Fault`).
"""

import contextlib
import json
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

Json = dict[str, Any]
MODELS = ("gemini-2.5-flash", "gemini-3.5-flash-lite")
KEY = "offline-key-of-the-stand-in"
SIGNATURE = "++8vc2lnbmVk"  # base64, with the two characters that the URL-safe alphabet lacks
# What a part can hold; exactly one of them.
KINDS = {"text", "functionCall", "functionResponse", "inlineData", "fileData", "executableCode"}
KINDS |= {"codeExecutionResult", "toolCall", "toolResponse"}
STATUS = {
    400: "INVALID_ARGUMENT",
    402: "RESOURCE_EXHAUSTED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    429: "RESOURCE_EXHAUSTED",
    500: "INTERNAL",
    503: "UNAVAILABLE",
}


# ---------------------------------------------------------------------- replies
@dataclass
class Fault:
    """A reply that is none: another status, other bytes, late, drop by drop, cut, or nothing."""

    status: int = 200
    body: bytes | Json = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)
    delay: float = 0
    drip: float = 0
    cut: int = 0
    drop: bool = False


Reply = Json | Fault


def reply(*parts: Json, finish: str = "STOP", **more: Any) -> Json:
    """A reply of one candidate with these parts; `more` goes into the candidate."""
    content = {"role": "model", "parts": list(parts)}
    return {"candidates": [{"content": content, "finishReason": finish, "index": 0, **more}]}


def text(words: str, **more: Any) -> Json:
    return reply({"text": words}, **more)


def calls(*wanted: tuple[str, Json | None], **more: Any) -> Json:
    """Function calls with their ids, and a signature on the first, as Gemini 3 sends them."""
    parts: list[Json] = []
    for number, (name, args) in enumerate(wanted, 1):
        call: Json = {"id": f"call-{number}-{name}", "name": name}
        parts.append({"functionCall": call if args is None else call | {"args": args}})
    parts[0]["thoughtSignature"] = SIGNATURE
    return reply(*parts, **more)


def failure(code: int, message: str = "As scripted.", *details: Json, **more: Any) -> Fault:
    """An error in the API's format; `more` goes into the Fault."""
    error = {"code": code, "message": message, "status": STATUS.get(code, "UNKNOWN")}
    return Fault(code, {"error": error | ({"details": list(details)} if details else {})}, **more)


def retry_info(delay: str) -> Json:
    return {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": delay}


def quota_failure(quota_id: str) -> Json:
    violations = [{"quotaId": quota_id, "quotaValue": "10"}]
    return {"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": violations}


# ---------------------------------------------------------------------- what the API refuses
def refusal(body: Json, sent: list[Json]) -> str:
    """What is wrong with a request, or "". `sent` are the contents of the replies so far."""
    contents = body.get("contents") or []
    if not contents:
        return "* GenerateContentRequest.contents: contents is not specified"
    for content in contents:
        if problem := wrong_content(content):
            return problem
    if contents[-1]["role"] == "model":
        return "Requests ending with a model turn are not supported."
    for before, content in zip([{}, *contents], contents, strict=False):
        if problem := wrong_turn(before, content, sent):
            return problem
    return wrong_tools(body)


def wrong_content(content: Json) -> str:
    if content.get("role") not in ("user", "model"):
        return (
            f"Role '{content.get('role')}' is not supported. Please use a valid role: USER, MODEL."
        )
    if not content.get("parts"):
        return "contents.parts must not be empty."
    if any(len(KINDS & part.keys()) != 1 for part in content["parts"]):
        return "required oneof field 'data' must have one initialized field"
    return ""


def wrong_turn(before: Json, content: Json, sent: list[Json]) -> str:
    """What is wrong with a turn after the one before: each call is answered, in order, by id."""
    wanted = [part["functionCall"] for part in before.get("parts", []) if "functionCall" in part]
    given = [p["functionResponse"] for p in content["parts"] if "functionResponse" in p]
    if len(wanted) != len(given):
        return "the number of function response parts must equal that of the function call parts"
    for call, response in zip(wanted, given, strict=True):
        if (call["name"], call.get("id")) != (response.get("name"), response.get("id")):
            return f"functionResponse.id does not match functionCall.id: {call.get('id')}"
        if not isinstance(response.get("response"), dict):
            return "Invalid value at 'function_response.response' (google.protobuf.Struct)"
    if content["role"] == "model" and signed_calls(content) not in map(signed_calls, [{}, *sent]):
        return "Function call is missing a thought_signature in functionCall parts."
    return ""


def signed_calls(content: Json) -> list[tuple[object, ...]]:
    """Name, id and signature of each call; base64 may come back in its other alphabet."""
    return [
        (
            part["functionCall"].get("name"),
            part["functionCall"].get("id"),
            str(part.get("thoughtSignature") or "").replace("-", "+").replace("_", "/"),
        )
        for part in dicts(content.get("parts"))
        if isinstance(part.get("functionCall"), dict)
    ]


def dicts(value: Any) -> list[Json]:
    """The dicts in a list; tests also send replies that are broken in any place."""
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def wrong_tools(body: Json) -> str:
    for tool in body.get("tools") or []:
        for declaration in tool["functionDeclarations"]:
            for name, schema in declaration.get("parameters", {}).get("properties", {}).items():
                if schema["type"] == "ARRAY" and not schema.get("items"):
                    return f"{declaration['name']}.properties[{name}].items: missing field."
    return ""


# ---------------------------------------------------------------------- the server
class OfflineGemini:
    """Serves replies: one after the other, or from a function that makes one for a request."""

    def __init__(
        self,
        replies: Iterable[Reply] | Callable[[Json], Reply],
        models: tuple[str, ...] = MODELS,
        key: str = "",
    ) -> None:
        self.replies: Iterator[Reply] = iter(()) if callable(replies) else iter(replies)
        self.player = replies if callable(replies) else self.next_reply
        self.known_models, self.key = models, key
        self.requests: list[Json] = []
        self.models: list[str] = []
        self.times: list[float] = []
        self.refusals: list[str] = []
        self.sent: list[Json] = []
        self.server = Server(("127.0.0.1", 0), type("Bound", (Handler,), {"api": self}))
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"

    def __enter__(self) -> "OfflineGemini":
        threading.Thread(target=self.server.serve_forever, args=(0.005,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.server.shutdown()
        self.server.server_close()

    def next_reply(self, _: Json) -> Reply:
        return next(self.replies, failure(400, "The script of replies has come to its end."))

    def answer(self, model: str, key: str, raw: bytes) -> Reply:
        """The next reply, or the refusal of a request that the API would refuse."""
        self.times.append(time.monotonic())
        self.models.append(model)
        if not key or (self.key and key != self.key):
            return failure(400, "API key not valid.", {"reason": "API_KEY_INVALID"})
        if model not in self.known_models:
            return failure(404, f"models/{model} is not found for API version v1beta.")
        try:
            body = json.loads(raw, parse_constant=no_constant)
            json.dumps(body, ensure_ascii=False).encode()  # fails for half a surrogate pair
        except ValueError as error:
            self.refusals.append(f"Invalid JSON payload received. {error}")
            return failure(400, self.refusals[-1])
        self.requests.append(body)
        if problem := refusal(body, self.sent):
            self.refusals.append(problem)
            return failure(400, problem)
        answer = self.player(body)
        if not isinstance(answer, Fault):
            self.sent += dicts([each.get("content") for each in dicts(answer.get("candidates"))])
            answer = {"usageMetadata": usage(body), "modelVersion": model} | answer
        return answer


def no_constant(name: str) -> None:
    """Python reads NaN and Infinity, which are no JSON."""
    raise ValueError(f"Unexpected token {name}")


def usage(body: Json) -> Json:
    """Token counts as one would guess them: a token for each four characters."""
    size = len(json.dumps(body)) // 4
    return {
        "promptTokenCount": size,
        "candidatesTokenCount": 12,
        "thoughtsTokenCount": 5,
        "totalTokenCount": size + 17,
    }


class Server(ThreadingHTTPServer):
    """Says nothing of clients that leave early."""

    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


class Handler(BaseHTTPRequestHandler):
    """One connection; `api` is the OfflineGemini that answers."""

    api: OfflineGemini
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # the body need not wait until the head has been acknowledged

    def do_POST(self) -> None:
        raw = self.body()
        path = re.fullmatch(r"/v1beta/models/(.+):generateContent", self.path)
        if path is None:
            return self.send(Fault(404, b"<title>Error 404 (Not Found)</title>"))
        answer = self.api.answer(path[1], self.headers.get("x-goog-api-key", ""), raw)
        try:
            self.send(answer if isinstance(answer, Fault) else Fault(200, answer))
        except OSError:
            self.close_connection = True  # the client has gone

    def body(self) -> bytes:
        """The request's body, of a known length or in chunks (RFC 9112, 7.1)."""
        if "Content-Length" in self.headers:
            return self.rfile.read(int(self.headers["Content-Length"]))
        chunks = []
        while size := int(self.rfile.readline().partition(b";")[0], 16):
            chunks.append(self.rfile.read(size))
            self.rfile.readline()
        while self.rfile.readline().strip():
            pass  # what may follow the last chunk
        return b"".join(chunks)

    def send(self, fault: Fault) -> None:
        time.sleep(fault.delay)
        self.close_connection = fault.drop or fault.cut > 0
        if fault.drop:
            return
        data = fault.body if isinstance(fault.body, bytes) else json.dumps(fault.body).encode()
        self.send_response(fault.status)
        for name, value in fault.headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if fault.drip:
            for byte in data:
                time.sleep(fault.drip)
                self.wfile.write(bytes([byte]))
        else:
            self.wfile.write(data[: fault.cut] if fault.cut else data)

    def log_message(self, *_: object) -> None:
        """Say nothing: the screen is the agent's."""


# ---------------------------------------------------------------------- playing the model
LIMITS = "I am a stand-in without a model, and know only the example prompts of the README."


def play(body: Json) -> Reply:
    """What a model might reply: look at the files, do what is asked, word what came of it."""
    prompt = body["contents"][0]["parts"][0]["text"]
    results = [
        "".join(part["functionResponse"]["response"].values())
        for content in body["contents"]
        for part in content["parts"]
        if "functionResponse" in part
    ]
    call = re.fullmatch(r"Call (\w+)(.*)", prompt.strip(), re.DOTALL)
    expression = re.search(r"[\d(][\d\s.()*/+-]*[*/+-][\d\s.()*/+-]*[\d)]", prompt)
    if call:
        return call_by_name(call[1], call[2].strip() or "{}", results)
    if not results:
        return calls(("get_files_info", {"directory": "."}))
    if "operators" in prompt:
        return tell_operators(results)
    if expression and "calculator" in prompt.lower():
        return calculate(prompt, expression[0], results)
    return text(f"{LIMITS} The working directory holds:\n{results[0]}")


def call_by_name(name: str, args: str, results: list[str]) -> Reply:
    if results:
        return text(f"{name} returned:\n{results[0]}")
    try:
        return calls((name, json.loads(args)))
    except ValueError:
        return text(f"What follows {name} is not JSON: {args}")


def tell_operators(results: list[str]) -> Reply:
    if len(results) == 1:
        return calls(("get_file_content", {"file_path": "calculator/pkg/calculator.py"}))
    found = re.findall(r'^ *"(.)": operator\.', results[1], re.MULTILINE)
    if not found:
        return text(f"I found no operators in what I read:\n{results[1]}")
    return text(f"The calculator supports {' '.join(found)}, unary minus and parentheses.")


def calculate(prompt: str, expression: str, results: list[str]) -> Reply:
    if len(results) == 1:
        return calls(("run_python_file", {"file_path": "calculator/main.py", "args": [expression]}))
    try:
        value = json.loads(results[1].partition("STDOUT: ")[2].partition("\nSTDERR:")[0])["result"]
    except (ValueError, KeyError, TypeError):
        return text(f"The calculator gave no result:\n{results[1]}")
    wanted = re.search(r"should equal (\S+?),", prompt)
    if wanted and wanted[1] == str(value):
        return text(
            f"There is nothing to fix: {expression} already gives {value}. I changed no file."
        )
    if wanted:
        return text(f"{expression} gives {value}, not {wanted[1]}. I cannot mend that. {LIMITS}")
    return text(f"The calculator says: {expression} = {value}.")


def main() -> int:
    """Run main.py against this server, with the same arguments; its exit code."""
    print("offline_gemini: a stand-in plays the model; no model is involved", file=sys.stderr)
    if sys.argv[1:] == ["--serve"]:
        return serve()
    program = Path(__file__).resolve().parent.parent / "main.py"
    command = [sys.executable, str(program), *sys.argv[1:]]
    with OfflineGemini(play) as server:
        try:
            return subprocess.run(command, env=environment(server.url), check=False).returncode
        except KeyboardInterrupt:
            return 130


def serve() -> int:
    """Wait for requests until Ctrl-C."""
    with OfflineGemini(play, key=KEY) as server, contextlib.suppress(KeyboardInterrupt):
        print(f"export GEMINI_API_KEY={KEY} GOOGLE_GEMINI_BASE_URL={server.url}", flush=True)
        threading.Event().wait()
    return 0


def environment(url: str) -> dict[str, str]:
    """This process's environment without proxies and settings of Python, with what leads the agent
    to `url`."""
    apart = re.compile(r"PYTHON.*|.*proxy", re.IGNORECASE)
    kept = {name: value for name, value in os.environ.items() if not apart.fullmatch(name)}
    own = {"GEMINI_API_KEY": KEY, "GEMINI_MODEL": MODELS[0], "GOOGLE_GEMINI_BASE_URL": url}
    return kept | own


if __name__ == "__main__":
    sys.exit(main())
