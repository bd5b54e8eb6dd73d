"""Checks that the README says what is so: python tests/test_readme.py."""

import ast
import inspect
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

from offline_gemini import LIMITS, calls, play, text
from support import PROJECT, WithAgent, run_tests

import main
from call_function import function_map

README = (PROJECT / "README.md").read_text(encoding="utf-8")
AGENTS = (PROJECT / "AGENTS.md").read_text(encoding="utf-8")


def section(title: str) -> str:
    """The part of the README below a heading, up to the next of its rank or a higher one."""
    found = re.search(rf"^(#+) {title}\n(.*?)(?=^#{{1,2}} |\Z)", README, re.MULTILINE | re.DOTALL)
    assert found, title
    return found[2]


def blocks(part: str, language: str = "") -> list[str]:
    """The fenced blocks of a part, in order."""
    found = re.findall(r"^```(\w*)\n(.*?)^```$", part, re.MULTILINE | re.DOTALL)
    return [content for named, content in found if named == language]


def imports_of(node: ast.AST) -> list[str]:
    """The modules that one statement imports, by their full names."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom) and node.module:
        return [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
    return []


class Readme(WithAgent):
    def test_it_is_no_longer_than_a_reader_takes(self) -> None:
        self.assertLessEqual(len(README), 15_000)

    def test_the_run_that_it_shows_is_the_run_that_the_stand_in_gives(self) -> None:
        self.copy_program()
        _, command, shown = blocks(section("Try it without a key"))
        done = subprocess.run(
            command.splitlines()[1].replace("python", f'"{sys.executable}" -B', 1),
            shell=True,
            cwd=self.project,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=True,
        )

        def without_measures(screen: str) -> str:
            """Token counts and the size of a directory differ from machine to machine."""
            screen = re.sub(r"(?<=prompt )\d+ \(\d+ in total\)", "N", screen)
            return re.sub(r"(- pkg: file_size=)\d+", r"\1N", screen)

        self.assertEqual(without_measures(done.stdout), without_measures(shown))

    def test_its_example_prompts_are_answered_by_the_stand_in(self) -> None:
        prompts = re.findall(r'^(?:python main\.py|echo) "(.*?)"(?! >)', README, re.MULTILINE)
        self.assertEqual(len(prompts), 6)
        for prompt in prompts:
            with self.subTest(prompt):
                run = self.run_agent(play, prompt=prompt)
                self.assertEqual((run.code, run.server.refusals), (0, []))
                self.assertNotIn(LIMITS, run.stdout)

    def test_its_exit_codes_and_variables_are_those_of_the_help(self) -> None:
        codes, variables = str(main.__doc__).split("environment variables")
        part = section("Use it with Gemini")
        told = re.findall(r"(?:Exit codes:|;) (\d+) ", part)
        self.assertEqual(told, re.findall(r"^  (\d+) ", codes, re.MULTILINE))
        told = re.findall(r"^\| `([A-Z_]+)` \|", part, re.MULTILINE)
        self.assertEqual(told, re.findall(r"^  ([A-Z_]+) ", variables, re.MULTILINE))

    def test_its_table_of_functions_has_their_signatures(self) -> None:
        told = re.findall(r"^\| `(\w+)\((.*?)\)` \|", section("How it works"), re.MULTILINE)
        for name, function in function_map.items():
            parameters = list(inspect.signature(function).parameters.values())[1:]
            bare = [p.replace(annotation=inspect.Parameter.empty) for p in parameters]
            signature = str(inspect.Signature(bare)).strip("()").replace("'", '"')
            if name in dict(told):
                self.assertIn((name, signature), told)
        self.assertLessEqual(set(dict(told)), set(function_map))
        self.assertEqual(len(told), 4)

    def test_the_files_that_it_names_are_there(self) -> None:
        for name in re.findall(r"\b(?:tests|functions|calculator)/[\w/]+\.\w+", README):
            if "count_lines" not in name:
                self.assertTrue((PROJECT / name).exists(), name)

    def test_each_row_of_the_sandbox_names_tests_that_are_there(self) -> None:
        rows = re.findall(
            r"^\| (?:has|is|reads|writes|makes|starts),? .*\| (.*) \|$", README, re.MULTILINE
        )
        self.assertEqual(len(rows), 10)
        code = (PROJECT / "tests/test_confine.py").read_text()
        code += (PROJECT / "tests/test_run_python_file.py").read_text()
        for name in re.findall(r"`(\w+)`", " ".join(rows)):
            self.assertIn(f"class {name}(", code)

    def test_its_versions_are_those_of_pyproject(self) -> None:
        wanted = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]["dependencies"]
        told = re.findall(r"^\| `([\w-]+)` \| ([\d.]+)", section("Dependencies"), re.MULTILINE)
        self.assertEqual(told, [tuple(re.split("==|>=", each)) for each in wanted])

    def test_the_messages_of_its_troubleshooting_are_in_the_code(self) -> None:
        code = "".join(path.read_text() for path in PROJECT.glob("*.py"))
        code += "".join(path.read_text() for path in (PROJECT / "functions").glob("*.py"))
        for message in (
            "Gemini API key not set",
            "run: pip install -r requirements.txt",
            "Gemini rejected the API key",
            ".env is not UTF-8 text",
            "there is no such model; GEMINI_MODEL chooses another",
            "Python 3.12 or later is needed",
            "the quota or credit is used up",
            "Unknown function: ",
            "Warning: this system cannot confine scripts",
        ):
            self.assertIn(message, section("Troubleshooting"))
            self.assertIn(message, code)

    def test_functions_are_as_short_as_agents_says(self) -> None:
        for path in [*PROJECT.glob("*.py"), *(PROJECT / "functions").glob("*.py")]:
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.FunctionDef):
                    most = 30 if node.name.startswith("get_schema") else 25
                    length = (node.end_lineno or 0) - node.lineno + 1
                    self.assertLessEqual(length, most, f"{path.name}: {node.name}")

    def test_agents_names_only_what_there_is(self) -> None:
        sources = [*PROJECT.glob("*.py"), *(PROJECT / "functions").glob("*.py")]
        code = "".join(path.read_text() for path in [*sources, *(PROJECT / "tests").glob("*.py")])
        for name in re.findall(r"`([A-Za-z_]+)`", AGENTS):
            self.assertTrue(name in code, name)

    def test_agents_names_every_test(self) -> None:
        named = set(re.findall(r"`(test_\w+\.py)`", AGENTS)) - {"test_NAME.py"}
        named |= {f"test_{name}.py" for name in function_map}
        there = {path.name for path in (PROJECT / "tests").glob("test_*.py")}
        self.assertEqual(named, there)

    def test_imports_run_one_way_as_the_map_of_agents_has_it(self) -> None:
        rows = re.findall(r"^\| `([\w/]+)\.py` \|", AGENTS, re.MULTILINE)
        order = [row.replace("/", ".") for row in rows if not row.startswith("tests")]
        at = order.index("functions.NAME")
        order[at : at + 1] = [f"functions.{name}" for name in function_map]
        for number, name in enumerate(order):
            source = (PROJECT / f"{name.replace('.', '/')}.py").read_text()
            for node in ast.walk(ast.parse(source)):
                for imported in imports_of(node):
                    if imported in order:
                        self.assertIn(imported, order[number + 1 :], f"{name} imports {imported}")
        modules = {f"functions.{path.stem}" for path in (PROJECT / "functions").glob("[a-z]*.py")}
        modules |= {path.stem for path in PROJECT.glob("*.py")}
        self.assertEqual(modules, set(order))


class AddingAFunction(WithAgent):
    def setUp(self) -> None:
        super().setUp()
        if len(function_map) != 4:
            self.skipTest("a function has been added here")
        self.copy_program()

    def follow_the_steps(self) -> None:
        """Do in the copy of the program what the section says, to the letter."""
        part = section("Adding a function")
        names = re.findall(r"^\*\*\d\.\*\* Write `(.*?)`", part, re.MULTILINE)
        for name, content in zip(names, blocks(part, "python"), strict=True):
            (self.project / name).write_text(content)
        target = self.project / "call_function.py"
        for hunk in blocks(part, "diff")[0].split("...\n"):
            lines = hunk.splitlines(keepends=True)
            old = "".join(line[1:] for line in lines if line[0] == " ")
            new = "".join(line[1:] for line in lines)
            before = target.read_text()
            self.assertEqual(before.count(old), 1, old)
            target.write_text(before.replace(old, new))

    def test_following_its_steps_gives_a_function_that_the_model_can_call(self) -> None:
        self.follow_the_steps()
        call = calls(("count_lines", {"file_path": "tests.py"}))
        lines = len((self.project / "calculator/tests.py").read_text().splitlines())
        run = self.run_process([call, text("done")], "How long is tests.py?", copy=False)
        self.assertEqual((run.code, run.server.refusals), (0, []), run.stderr)
        self.assertEqual(run.answers[0]["response"], {"result": f"{lines} lines"})
        declared = run.server.requests[0]["tools"][0]["functionDeclarations"]
        self.assertIn("count_lines", [declaration["name"] for declaration in declared])

    def test_its_commands_work_in_the_copy(self) -> None:
        self.follow_the_steps()
        shown = ""
        for command in blocks(section("Adding a function"))[-1].splitlines():
            done = subprocess.run(
                re.sub(r"^python|(?<=&& )python", f'"{sys.executable}"', command),
                shell=True,
                cwd=self.project,
                capture_output=True,
                text=True,
                check=False,
            )
            self.assertEqual(done.returncode, 0, done.stderr)
            shown = done.stdout
        self.assertRegex(shown, r"-> \d+ lines\n")

    def test_the_projects_own_checks_still_pass_in_the_copy(self) -> None:
        self.follow_the_steps()
        for name in ("README.md", "AGENTS.md", "requirements.txt", ".python-version", "LICENSE"):
            shutil.copy(PROJECT / name, self.project)
        shutil.copytree(PROJECT / ".ci", self.project / ".ci")
        shutil.copy(PROJECT / ".env.example", self.project)
        tests = [sys.executable, "tests/test_readme.py"]
        done = subprocess.run(tests, cwd=self.project, capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_its_code_is_clean(self) -> None:
        ruff = Path(sys.executable).with_name("ruff")
        if not ruff.exists():
            self.skipTest("ruff is not installed here")
        self.follow_the_steps()
        for command in ([str(ruff), "check"], [str(ruff), "format", "--check"]):
            done = subprocess.run(
                command, cwd=self.project, capture_output=True, text=True, check=False
            )
            self.assertEqual(done.returncode, 0, done.stdout)


if __name__ == "__main__":
    run_tests()
