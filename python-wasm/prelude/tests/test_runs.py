"""A run from its start frame to its finish frame."""

import unittest

from tests.fake_host import run


class RunTest(unittest.TestCase):
    def test_the_value_of_a_last_expression_is_the_return_value(self):
        result = run("print(1 + 1)\n40 + 2")
        self.assertEqual((result.status, result.value, result.output), ("success", 42, "2\n"))
        self.assertIsNone(result.error)
        self.assertIsNone(result.exit_code)

    def test_a_source_without_a_last_expression_returns_null(self):
        self.assertIsNone(run("x = 1").value)

    def test_an_empty_source_succeeds(self):
        self.assertEqual(run("").status, "success")

    def test_a_lone_string_is_a_value_and_not_a_docstring(self):
        self.assertEqual(run("'hello'").value, "hello")

    def test_nothing_but_the_programs_names_is_in_its_namespace(self):
        names = set(run("sorted(globals())").value)
        dunders = {name for name in names if name.startswith("__")}
        own = {"call_tool", "call_tool_async", "call_mcp_tool", "ToolCallError", "tools", "search_tools", "mcp"}
        self.assertEqual(names - dunders, own)

    def test_the_module_is_main(self):
        source = "import __main__, sys\nx = 7\n[__name__, __main__.x, __file__, sys.argv]"
        self.assertEqual(run(source).value, ["__main__", 7, "main.py", ["main.py"]])

    def test_a_dataclass_of_the_program_can_be_pickled(self):
        source = (
            "import pickle\nfrom dataclasses import dataclass\n"
            "@dataclass\nclass Point:\n    x: int\n"
            "pickle.loads(pickle.dumps(Point(3)))"
        )
        self.assertEqual(run(source).value, {"x": 3})

    def test_inspect_finds_the_source(self):
        source = "import inspect\ndef f():\n    return 1\ninspect.getsource(f)"
        self.assertEqual(run(source).value, "def f():\n    return 1\n")

    def test_windows_line_ends_and_a_byte_order_mark_are_accepted(self):
        self.assertEqual(run("\ufeffx = 1\r\nif x:\r\n    x = 2\r\nx").value, 2)

    def test_futures_of_the_source_hold_for_its_last_expression_too(self):
        source = "from __future__ import annotations\n(lambda: 0) or 1\ndef f(x: y): pass\nf.__annotations__"
        self.assertEqual(run(source).value, {"x": "y"})

    def test_the_preludes_own_futures_do_not_leak_into_the_source(self):
        self.assertEqual(run("def f(x: int): pass\nf.__annotations__['x'] is int").value, True)

    def test_global_variables_are_bound(self):
        self.assertEqual(run("a + b['c']", variables={"a": 1, "b": {"c": 2}}).value, 3)

    def test_global_variables_do_not_shadow_keywords_or_the_modules_own_names(self):
        variables = {"None": 1, "__name__": "x", "__builtins__": {}}
        result = run("[None, __name__, len([1])]", variables=variables)
        self.assertEqual(result.value, [None, "__main__", 1])

    def test_random_numbers_differ_from_run_to_run(self):
        source = "import random\nrandom.random()"
        self.assertNotEqual(run(source).value, run(source).value)

    def test_lone_surrogates_do_not_stop_a_print(self):
        self.assertEqual(run("print('\\ud800'.encode('utf-8', 'backslashreplace'))").status, "success")

    def test_a_value_that_is_too_large_is_an_output_limit(self):
        result = run("'x' * 100", limits={"result_bytes": 50})
        self.assertEqual(result.status, "run-error")
        self.assertEqual(result.error["kind"], "output_limit")
        self.assertEqual(result.error["type"], "ResultTooLarge")
        self.assertIn("50", result.error["message"])
        self.assertIsNone(result.error["traceback"])

    def test_a_value_exactly_at_the_limit_is_returned(self):
        self.assertEqual(run("'x' * 48", limits={"result_bytes": 50}).value, "x" * 48)
        message = run("'é' * 48", limits={"result_bytes": 97}).error["message"]
        self.assertIn("is 98 bytes of JSON; the limit is 97 (--max-result)", message)


class ExitTest(unittest.TestCase):
    def test_exit_with_nothing_or_zero_is_success(self):
        for code in ("", "None", "0", "False"):
            result = run(f"import sys\nprint('x')\nsys.exit({code})")
            self.assertEqual((result.status, result.value, result.exit_code), ("success", None, 0))
            self.assertEqual(result.output, "x\n")

    def test_exit_with_a_number_is_a_run_error(self):
        result = run("raise SystemExit(3)")
        self.assertEqual((result.status, result.exit_code), ("run-error", 3))
        self.assertEqual((result.error["type"], result.error["message"]), ("SystemExit", "3"))
        self.assertTrue(result.error["traceback"].endswith("SystemExit: 3\n"))

    def test_exit_with_a_text_prints_it_to_standard_error(self):
        result = run("import sys\nsys.exit('good bye')")
        self.assertEqual((result.exit_code, result.errors), (1, "good bye\n"))

    def test_exit_with_a_huge_number_fits_the_frame(self):
        self.assertEqual(run("raise SystemExit(2 ** 100)").exit_code, -1)

    def test_exit_inside_a_coroutine_ends_the_run(self):
        self.assertEqual(run("import asyncio, sys\nawait asyncio.sleep(0)\nsys.exit(4)").exit_code, 4)


class CompileErrorTest(unittest.TestCase):
    def error(self, source):
        result = run(source)
        self.assertEqual(result.status, "run-error")
        return result.error

    def test_a_syntax_error_shows_the_place(self):
        error = self.error("x = 1\ny = = 2\n")
        self.assertEqual((error["kind"], error["type"]), ("syntax", "SyntaxError"))
        self.assertEqual(
            error["traceback"],
            '  File "main.py", line 2\n    y = = 2\n        ^\nSyntaxError: invalid syntax\n',
        )

    def test_an_error_found_after_parsing_shows_its_line_as_well(self):
        error = self.error("x = 1\nreturn x\n")
        self.assertEqual(error["kind"], "syntax")
        self.assertIn('  File "main.py", line 2\n    return x\n', error["traceback"])

    def test_indentation_errors_are_syntax_errors(self):
        error = self.error("if x:\nprint(1)")
        self.assertEqual((error["kind"], error["type"]), ("syntax", "IndentationError"))

    def test_nothing_runs_before_a_syntax_error(self):
        self.assertEqual(run("print(1)\nx =").output, "")

    def test_a_null_byte_is_a_syntax_problem(self):
        self.assertEqual(self.error("x = '\0'")["kind"], "syntax")

    def test_a_lone_surrogate_is_a_syntax_problem(self):
        self.assertEqual(self.error("x = '\ud800'")["kind"], "syntax")

    def test_too_deep_nesting_is_an_error_like_any_other(self):
        self.assertIn(self.error("(" * 5000 + ")" * 5000)["kind"], ("syntax", "memory_limit"))
        self.assertIn(self.error("-" * 50000 + "1")["kind"], ("exception", "memory_limit", "syntax"))

    def test_a_syntax_error_while_running_is_an_exception(self):
        error = self.error("eval('x =')")
        self.assertEqual((error["kind"], error["type"]), ("exception", "SyntaxError"))
        self.assertIn('File "<string>", line 1', error["traceback"])
