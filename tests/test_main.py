"""Checks the loop, the client and the output, on the stand-in: python tests/test_main.py.

What becomes of a failing service is checked in test_failures.py, terminals in test_terminal.py.
"""

import itertools
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from unittest import mock

from offline_gemini import Json, calls, play, reply, text
from support import KEY, PROJECT, WithAgent, run_tests

import main
from call_function import function_map
from prompts import system_prompt

LIST = ("get_files_info", {"directory": "."})
READ = ("get_file_content", {"file_path": "morelorem.txt"})
EXAMPLES = {
    "Calculate 3 + 5 using calculator/main.py": "3 + 5 = 8",
    "What's the result of 2 * 3 - 8 / 2 + 5? Use calculator/main.py to compute it.": "= 7",
    "What operators does the calculator support? Read calculator/pkg/calculator.py to find out.": (
        "+ - * /"
    ),
    "Fix the bug: 3 + 7 * 2 should equal 17, not 20. Use the calculator to verify.": (
        "3 + 7 * 2 already gives 17. I changed no file."
    ),
    "Write me a poem": "know only the example prompts of the README. The working directory holds:",
}


class Loop(WithAgent):
    def test_text_without_calls_is_the_answer(self) -> None:
        run = self.run_agent([text("Eight.")])
        self.assertEqual((run.code, run.stdout, run.stderr), (0, "Final response:\nEight.\n", ""))

    def test_the_prompt_goes_out_as_the_first_user_turn(self) -> None:
        run = self.run_agent([text("ok")], prompt="Déjà vu 😀?")
        wanted = [{"role": "user", "parts": [{"text": "Déjà vu 😀?"}]}]
        self.assertEqual(run.server.requests[0]["contents"], wanted)

    def test_each_request_has_the_system_prompt_and_all_functions(self) -> None:
        run = self.run_agent([calls(LIST), text("ok")])
        for request in run.server.requests:
            self.assertEqual(request["systemInstruction"]["parts"][0]["text"], system_prompt)
            names = [d["name"] for d in request["tools"][0]["functionDeclarations"]]
            self.assertEqual(names, list(function_map))

    def test_calls_are_run_and_their_results_go_back(self) -> None:
        run = self.run_agent([calls(READ), text("read")])
        content = (self.project / "calculator/morelorem.txt").read_text()
        self.assertEqual(run.answers[0]["response"], {"result": content})

    def test_parallel_calls_are_answered_in_one_turn_in_order_with_their_ids(self) -> None:
        run = self.run_agent([calls(LIST, READ, LIST), text("done")])
        ids = ["call-1-get_files_info", "call-2-get_file_content", "call-3-get_files_info"]
        self.assertEqual([answer["id"] for answer in run.answers], ids)
        self.assertEqual(run.server.requests[-1]["contents"][-1]["role"], "user")
        self.assertEqual((run.code, run.server.refusals), (0, []))

    def test_no_id_is_made_up_where_the_model_sent_none(self) -> None:
        call = reply({"functionCall": {"name": "get_files_info", "args": {}}})
        run = self.run_agent([call, text("done")])
        self.assertNotIn("id", run.answers[0])
        self.assertEqual((run.code, run.server.refusals), (0, []))

    def test_the_models_content_goes_back_as_it_came(self) -> None:
        sent = calls(LIST, ("get_file_content", {"file_path": "x", "offset": None}))
        sent["candidates"][0]["content"]["parts"].insert(0, {"text": "plan", "thought": True})
        run = self.run_agent([sent, text("done")])
        parts = run.server.requests[1]["contents"][1]["parts"]
        parts[1]["thoughtSignature"] = parts[1]["thoughtSignature"].replace("--", "++")
        self.assertEqual(parts, sent["candidates"][0]["content"]["parts"])
        self.assertEqual(run.server.refusals, [])

    def test_only_parts_without_a_field_are_dropped(self) -> None:
        sent = reply({}, {"text": ""}, calls(LIST)["candidates"][0]["content"]["parts"][0])
        run = self.run_agent([sent, text("done")])
        parts = run.server.requests[1]["contents"][1]["parts"]
        self.assertEqual([sorted(part)[0] for part in parts], ["text", "functionCall"])

    def test_the_working_directory_is_nowhere_in_the_history(self) -> None:
        run = self.run_agent([calls(LIST, READ), text("done")])
        request = json.dumps([run.server.requests[-1][key] for key in ("contents", "tools")])
        self.assertNotIn("working_directory", request)
        self.assertNotIn(str(self.project), request)

    def test_a_working_directory_from_the_model_is_not_honoured(self) -> None:
        call = ("get_files_info", {"directory": ".", "working_directory": "/etc"})
        run = self.run_agent([calls(call), text("done")])
        self.assertIn("- main.py: ", run.answers[0]["response"]["result"])

    def test_every_call_is_answered_whatever_is_wrong_with_it(self) -> None:
        wrong: list[tuple[str, Json | None]] = [
            ("delete_file", {}),
            ("get_file_content", None),
            ("get_file_content", {"path": "main.py"}),
            ("write_file", {"file_path": "x", "content": None}),
            ("run_python_file", {"file_path": "../main.py"}),
        ]
        run = self.run_agent([calls(*wrong), text("done")])
        kinds = [list(answer["response"]) for answer in run.answers]
        self.assertEqual(kinds, [["error"]] * 3 + [["result"]] * 2)
        self.assertEqual((run.code, run.server.refusals), (0, []))

    def test_a_reply_with_text_and_a_call_goes_on(self) -> None:
        first = calls(LIST)
        first["candidates"][0]["content"]["parts"].insert(0, {"text": "Let me look."})
        run = self.run_agent([first, text("Final.")])
        self.assertEqual(run.stdout, "Final response:\nFinal.\n")

    def test_a_call_goes_on_whatever_the_finish_reason(self) -> None:
        for reason in ("OTHER", "STOP", "SOMETHING_NEW"):
            run = self.run_agent([calls(LIST, finish=reason), text("Final.")])
            self.assertEqual((run.code, run.stderr), (0, ""))

    def test_thoughts_are_never_printed(self) -> None:
        thought = {"text": "SECRET THOUGHT", "thought": True}
        run = self.run_agent(
            [reply(thought, {"text": "An"}, thought, {"text": "swer"})], "--verbose"
        )
        self.assertIn("Final response:\nAnswer\n", run.stdout)
        self.assertNotIn("SECRET", run.stdout + run.stderr)

    def test_after_20_iterations_the_run_fails_with_a_hint(self) -> None:
        run = self.run_agent(itertools.repeat(calls(READ)))
        self.assertEqual(len(run.server.requests), 20)
        self.assertEqual((run.code, run.stdout), (1, ""))
        self.assertIn("Error: no final answer after 20 iterations; ", run.stderr)
        self.assertIn("--verbose", run.stderr)

    def test_an_answer_in_the_20th_reply_is_an_answer(self) -> None:
        run = self.run_agent([*itertools.repeat(calls(READ), 19), text("Just in time.")])
        self.assertEqual((run.code, run.stdout), (0, "Final response:\nJust in time.\n"))

    def test_half_a_surrogate_pair_from_the_model_never_goes_back(self) -> None:
        call = calls(("get_file_content", {"file_path": "a\ud83d", "offset": float("nan")}))
        call["candidates"][0]["content"]["parts"].insert(
            0, {"text": "half \ud83d", "thought": True}
        )
        run = self.run_agent([call, text("done")])
        self.assertEqual(run.code, 0)
        args = run.server.requests[1]["contents"][1]["parts"][1]["functionCall"]["args"]
        self.assertEqual(args, {"file_path": "a\ufffd", "offset": "nan"})


class Models(WithAgent):
    def test_the_default_model_has_temperature_0_and_no_thinking_level(self) -> None:
        run = self.run_agent([text("ok")])
        self.assertEqual(run.server.models, ["gemini-2.5-flash"])
        self.assertEqual(run.server.requests[0]["generationConfig"], {"temperature": 0})

    def test_so_has_every_other_gemini_2(self) -> None:
        for name in ("gemini-2.0-flash", "models/gemini-2.5-pro"):
            chosen, known = {"GEMINI_MODEL": name}, (name.removeprefix("models/"),)
            run = self.run_agent([text("ok")], env=chosen, models=known)
            self.assertEqual((run.code, run.server.models), (0, [*known]))
            self.assertEqual(run.server.requests[0]["generationConfig"], {"temperature": 0})

    def test_where_it_is_gone_its_replacement_is_used_for_the_rest_of_the_run(self) -> None:
        run = self.run_agent([calls(LIST), text("ok")], models=("gemini-3.5-flash-lite",))
        old, new = "gemini-2.5-flash", "gemini-3.5-flash-lite"
        self.assertEqual(run.server.models, [old, new, new])
        self.assertEqual(run.stderr, f"{old} is not available; going on with {new}\n")

    def test_the_replacement_has_thinking_level_medium_and_no_temperature(self) -> None:
        run = self.run_agent([text("ok")], models=("gemini-3.5-flash-lite",))
        config = run.server.requests[0]["generationConfig"]
        self.assertEqual(list(config), ["thinkingConfig"])
        self.assertEqual(list(config["thinkingConfig"].values()), ["MEDIUM"])

    def test_if_that_is_gone_too_the_run_ends(self) -> None:
        said = [None, None, None]  # and no more: of the sandbox, the first model and the second
        with mock.patch.object(main, "warn", side_effect=said) as warn:
            run = self.run_agent([text("no")], models=())
        old, new = "gemini-2.5-flash", "gemini-3.5-flash-lite"
        self.assertEqual((run.code, run.server.models), (1, [old, new]))
        self.assertIn("there is no such model", warn.call_args.args[0])

    def test_the_first_404_does_not_count_towards_the_20(self) -> None:
        run = self.run_agent(itertools.repeat(calls(READ)), models=("gemini-3.5-flash-lite",))
        self.assertEqual(len(run.server.requests), 20)

    def test_gemini_model_chooses_another_without_parameters_of_its_own(self) -> None:
        chosen = {"GEMINI_MODEL": " gemini-4-flash "}
        run = self.run_agent([text("ok")], env=chosen, models=("gemini-4-flash",))
        self.assertEqual(run.server.models, ["gemini-4-flash"])
        self.assertEqual(run.server.requests[0].get("generationConfig", {}), {})
        chosen = {"GEMINI_MODEL": "gemini-3.5-flash"}
        run = self.run_agent([text("ok")], env=chosen, models=("gemini-3.5-flash",))
        self.assertEqual(run.server.requests[0].get("generationConfig", {}), {})

    def test_a_chosen_model_that_is_gone_has_no_second_choice(self) -> None:
        run = self.run_agent([text("ok")], env={"GEMINI_MODEL": "gemini-2.0-flash"})
        self.assertEqual((run.code, run.server.models), (1, ["gemini-2.0-flash"]))
        for part in ("gemini-2.0-flash", "GEMINI_MODEL", "is not found for API version v1beta"):
            self.assertIn(part, run.stderr)


class KeyAndEnvironment(WithAgent):
    def dotenv(self, content: bytes) -> None:
        (self.project / ".env").write_bytes(content)

    def test_without_a_key_nothing_is_sent_and_the_way_to_set_it_is_told(self) -> None:
        for key in ("", "  "):
            run = self.run_agent([text("no")], env={"GEMINI_API_KEY": key, "GOOGLE_API_KEY": "x"})
            self.assertEqual((run.code, run.server.times), (1, []))
            self.assertIn("RuntimeError: Gemini API key not set", run.stderr)
            self.assertEqual(len(run.stderr.splitlines()), 1)

    def test_a_key_in_dotenv_is_read_in_every_usual_form(self) -> None:
        for line in (
            b"GEMINI_API_KEY=from-dotenv\n",
            b"\xef\xbb\xbfGEMINI_API_KEY='from-dotenv'\r\n",
            b'# a comment\r\nexport GEMINI_API_KEY="from-dotenv"\r\n',
        ):
            self.dotenv(line)
            run = self.run_agent([text("ok")], env={"GEMINI_API_KEY": ""}, key="from-dotenv")
            self.assertEqual(run.code, 0, run.stderr)

    def test_an_exported_key_goes_before_dotenv_and_before_google_api_key(self) -> None:
        self.dotenv(b"GEMINI_API_KEY=from-dotenv\n")
        run = self.run_agent([text("ok")], env={"GOOGLE_API_KEY": "another"}, key=KEY)
        self.assertEqual((run.code, run.stderr), (0, ""))

    def test_variables_of_googles_cloud_change_nothing(self) -> None:
        cloud = {"GOOGLE_GENAI_USE_VERTEXAI": "true", "GOOGLE_CLOUD_PROJECT": "x"}
        run = self.run_agent([text("ok")], env=cloud | {"GOOGLE_GENAI_API_VERSION": "v9"}, key=KEY)
        self.assertEqual((run.code, run.stderr), (0, ""))

    def test_model_and_address_are_read_from_dotenv_too(self) -> None:
        self.dotenv(b"GEMINI_MODEL=gemini-9\nGOOGLE_GEMINI_BASE_URL=http://127.0.0.1:1\n")
        run = self.run_agent([text("ok")], models=("gemini-9",))
        self.assertEqual((run.code, run.server.models), (0, ["gemini-9"]))

    def test_a_dotenv_planted_in_the_working_directory_is_not_found(self) -> None:
        (self.project / "calculator/.env").write_text("GEMINI_API_KEY=planted")
        run = self.run_agent([text("no")], env={"GEMINI_API_KEY": ""})
        self.assertEqual((run.code, run.server.times), (1, []))

    def test_a_dotenv_that_is_not_utf_8_is_said_to_be_none(self) -> None:
        line = "GEMINI_API_KEY=x\n"
        for content in (line.encode("utf-16"), line.encode("utf-16-le"), b"A=a\0b\n", b"A=\xe9\n"):
            self.dotenv(content)
            run = self.run_agent([text("no")])
            self.assertEqual(run.stderr, "Error: .env is not UTF-8 text; save it as such\n")

    def test_a_dotenv_that_cannot_be_read_is_named(self) -> None:
        refused = PermissionError(13, "Permission denied", str(self.project / ".env"))
        with mock.patch("dotenv.main.DotEnv.dict", side_effect=refused):
            run = self.run_agent([text("no")])
        self.assertEqual(run.stderr, f"Error: {self.project / '.env'}: Permission denied\n")

    def test_of_a_line_that_is_none_in_dotenv_nothing_is_shown(self) -> None:
        self.dotenv(b"this is no assignment\nGEMINI_API_KEY=from-dotenv\n")
        run = self.run_process([text("ok")], "Do it", env={"GEMINI_API_KEY": ""})
        self.assertEqual((run.code, run.stderr), (0, ""))

    def test_a_key_with_impossible_characters_is_refused_and_not_shown(self) -> None:
        for key in ("bad\nkey-1234", "clé-1234"):
            run = self.run_agent([text("no")], env={"GEMINI_API_KEY": key})
            self.assertEqual((run.code, run.server.times), (1, []))
            self.assertNotIn("1234", run.stderr)

    def test_the_environment_example_names_what_the_help_names(self) -> None:
        named = re.findall(r"^  ([A-Z_]{5,}) ", str(main.__doc__), re.MULTILINE)
        self.assertEqual(len(named), 3)
        example = (PROJECT / ".env.example").read_text()
        self.assertEqual(re.findall(r"^#? ?([A-Z_]+)=", example, re.MULTILINE), named)


class Output(WithAgent):
    def test_without_verbose_stdout_holds_the_answer_alone(self) -> None:
        run = self.run_agent([calls(LIST), text("Line 1\nLine 2")])
        self.assertEqual(run.stdout, "Final response:\nLine 1\nLine 2\n")

    def test_verbose_shows_prompt_calls_results_and_tokens(self) -> None:
        counts = {"promptTokenCount": 100, "candidatesTokenCount": 7, "thoughtsTokenCount": 3}
        replies = [calls(READ), text("Done.")]
        run = self.run_agent([r | {"usageMetadata": counts} for r in replies], "--verbose")
        lines = run.stdout.splitlines()
        self.assertEqual(lines[0], "User prompt: Do it")
        self.assertTrue(lines[1].startswith("[1/20] gemini-2.5-flash. Tokens: prompt 100 (100 in"))
        self.assertEqual(
            lines[2:5],
            [
                " - Calling function: get_file_content",
                '{"file_path": "morelorem.txt"}',
                f"-> {(self.project / 'calculator/morelorem.txt').read_text().rstrip()}",
            ],
        )
        self.assertIn(
            "Tokens: prompt 100 (200 in total), response 7 (14 in total), thinking 3 (6 in total)",
            run.stdout,
        )
        self.assertEqual(lines[-3:], ["", "Final response:", "Done."])

    def test_missing_token_counts_are_counted_as_none(self) -> None:
        run = self.run_agent([text("ok") | {"usageMetadata": None}], "--verbose")
        self.assertIn("Tokens: prompt 0 (0 in total)", run.stdout)

    def test_help_tells_exit_codes_and_variables_without_importing_the_sdk(self) -> None:
        for variable in ("-h", "--help"):
            done = subprocess.run(
                [sys.executable, "-X", "importtime", "main.py", variable],
                cwd=PROJECT,
                capture_output=True,
                text=True,
                check=True,
            )
            for word in ("130", "wrong usage", "GEMINI_API_KEY", "GOOGLE_GEMINI_BASE_URL"):
                self.assertIn(word, done.stdout)
            self.assertNotIn("google", done.stderr)

    def test_no_prompt_or_an_empty_one_is_wrong_usage(self) -> None:
        for prompt in ("", "   ", "\n"):
            self.assertEqual(self.run_agent([text("no")], prompt=prompt).code, 2)
        self.assertEqual(self.run_process([text("no")]).code, 2)

    def test_a_prompt_without_quotes_is_wrong_usage_with_a_hint(self) -> None:
        run = self.run_agent([text("no")], "3", "+", "5", prompt="Calculate")
        self.assertEqual((run.code, run.server.times), (2, []))
        self.assertIn("unrecognized arguments: 3 + 5; is the prompt in quotes?", run.stderr)

    def test_a_dash_reads_the_prompt_from_standard_input(self) -> None:
        run = self.run_process([text("ok")], "-", stdin="\ufeffGrüße\n".encode())
        self.assertEqual(run.code, 0)
        self.assertEqual(run.server.requests[0]["contents"][0]["parts"][0]["text"], "Grüße\n")
        self.assertEqual(self.run_process([text("no")], "-").code, 2)


class WholeProgram(WithAgent):
    def test_it_works_from_any_current_directory(self) -> None:
        os.chdir("/")
        run = self.run_process([calls(LIST), text("ok")], "Do it")
        self.assertEqual(run.code, 0, run.stderr)
        self.assertIn("- main.py: ", run.answers[0]["response"]["result"])

    def test_missing_packages_are_one_line_that_says_what_to_install(self) -> None:
        self.copy_program()
        command = [sys.executable, "-I", "-S", "-c"]
        code = f"import runpy, sys; sys.path.insert(0, {str(self.project)!r}); sys.argv[1:] = ['x']"
        code += f"; runpy.run_path({str(self.project / 'main.py')!r}, run_name='__main__')"
        done = subprocess.run([*command, code], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 1)
        self.assertRegex(
            done.stderr, r"^ModuleNotFoundError: .*pip install -r requirements\.txt\n$"
        )

    def test_a_mistake_in_a_function_of_ones_own_is_not_told_as_the_services(self) -> None:
        self.copy_program()
        with (self.project / "call_function.py").open("a") as file:
            file.write("import functions.not_written\n")
        run = self.run_process([text("no")], "Do it", copy=False)
        self.assertEqual((run.code, run.server.times), (1, []))
        self.assertIn("ModuleNotFoundError: No module named 'functions.not_written'", run.stderr)

    def test_an_older_python_is_told_which_one_is_needed(self) -> None:
        self.copy_program()
        versions = Path(sys.base_prefix).parent
        older = [each for minor in (8, 9, 10, 11) for each in versions.glob(f"3.{minor}.*")]
        for each in older:
            command = [str(each / "bin/python"), "main.py", "Do it"]
            done = subprocess.run(command, cwd=self.project, capture_output=True, check=False)
            self.assertEqual((done.returncode, done.stdout), (1, b""))
            wanted = f"Python 3.12 or later is needed; this is {each.name}\n"
            self.assertEqual(done.stderr.decode(), wanted)
        if not older:
            self.skipTest("no older Python is installed beside this one")

    def test_each_example_prompt_is_answered_by_the_stand_in(self) -> None:
        for prompt, answer in EXAMPLES.items():
            with self.subTest(prompt):
                run = self.run_agent(play, prompt=prompt)
                self.assertEqual((run.code, run.server.refusals), (0, []))
                self.assertIn(answer, run.stdout)

    def test_what_scripts_plant_does_not_reach_the_agents_next_launch(self) -> None:
        shout = "import sys\nsys.stderr.write('PLANTED')\n"
        for name in ("json", "sitecustomize", "functions/__init__", "dotenv", "call_function"):
            path = self.project / f"calculator/{name}.py"
            path.parent.mkdir(exist_ok=True)
            path.write_text(shout)
        os.chdir(self.project / "calculator")
        run = self.run_process([calls(LIST), text("ok")], "Do it")
        self.assertEqual((run.code, run.stderr), (0, ""))


if __name__ == "__main__":
    run_tests()
