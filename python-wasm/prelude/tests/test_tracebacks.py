"""What the user reads when the code raised."""

import unittest

from tests.fake_host import run


def traceback(source, **options):
    return run(source, **options).error["traceback"]


class TracebackTest(unittest.TestCase):
    def test_the_example_of_the_specification_is_met_byte_for_byte(self):
        self.assertEqual(
            traceback("print(unknown)"),
            "Traceback (most recent call last):\n"
            '  File "main.py", line 1, in <module>\n'
            "    print(unknown)\n"
            "          ^^^^^^^\n"
            "NameError: name 'unknown' is not defined\n",
        )

    def test_library_frames_are_left_out(self):
        text = traceback("import json\njson.loads('x')")
        self.assertEqual(text.count("File "), 1)
        self.assertIn('File "main.py", line 2, in <module>', text)
        self.assertTrue(text.endswith("json.decoder.JSONDecodeError: Expecting value: line 1 column 1 (char 0)\n"))

    def test_the_preludes_frames_are_left_out(self):
        text = traceback("bad(x=1)", tools=["bad"], call={"ok": False, "message": "no"})
        self.assertEqual(text.count("File "), 1)
        self.assertTrue(text.endswith("\nToolCallError: Tool call 'bad' failed: no\n"))

    def test_frames_of_executed_text_stay(self):
        self.assertIn('File "<string>", line 1, in <module>', traceback("exec('1/0')"))

    def test_causes_and_contexts_are_trimmed_as_well(self):
        text = traceback(
            "import json\ntry:\n    json.loads('x')\nexcept ValueError as e:\n    raise KeyError('k') from e"
        )
        self.assertEqual(text.count("File "), 2)
        self.assertIn("The above exception was the direct cause", text)

    def test_exception_groups_are_trimmed_as_well(self):
        text = traceback(
            "import json\ntry:\n    json.loads('x')\nexcept ValueError as e:\n    raise ExceptionGroup('g', [e])"
        )
        self.assertIn("Exception Group Traceback", text)
        self.assertNotIn("decoder.py", text)

    def test_an_exception_in_a_coroutine_shows_where(self):
        text = traceback("import asyncio\nasync def f():\n    await asyncio.sleep(0)\n    1/0\nawait f()")
        self.assertIn('line 5, in <module>', text)
        self.assertIn('line 4, in f', text)
        self.assertEqual(text.count("File "), 2)

    def test_repeated_frames_are_folded(self):
        text = traceback("def f(): f()\nf()")
        self.assertIn("[Previous line repeated", text)
        self.assertIn("RecursionError: maximum recursion depth exceeded", text)

    def test_of_very_many_frames_the_ends_are_kept(self):
        source = (
            "import sys\nsys.setrecursionlimit(20000)\n"
            "def f(n):\n    return f(n - 1) if n else 1/0\nf(3000)"
        )
        text = traceback(source)
        self.assertIn("<2002 frames left out>", text)
        self.assertIn('line 5, in <module>', text)
        self.assertTrue(text.endswith("ZeroDivisionError: division by zero\n"))

    def test_a_long_chain_is_cut(self):
        source = (
            "error = None\nfor i in range(5000):\n    try:\n        raise ValueError(i) from error\n"
            "    except ValueError as e:\n        error = e\nraise error"
        )
        text = traceback(source)
        self.assertLessEqual(len(text), 64 * 1024)
        self.assertTrue(text.endswith("ValueError: 4999\n"))

    def test_chains_that_meet_themselves_end(self):
        source = "a, b = ValueError('a'), ValueError('b')\na.__cause__ = b\nb.__cause__ = a\nraise a"
        self.assertTrue(traceback(source).endswith("ValueError: a\n"))

    def test_long_texts_are_cut_in_the_middle(self):
        result = run("raise ValueError('x' * 1000000)")
        self.assertLessEqual(len(result.error["traceback"].encode()), 64 * 1024)
        self.assertIn("left out", result.error["traceback"])
        self.assertTrue(result.error["traceback"].startswith("Traceback"))
        self.assertLess(len(result.error["message"]), 17 * 1024)
        self.assertIn("more bytes", result.error["message"])

    def test_an_exception_whose_str_raises_is_described(self):
        for what in ("ValueError", "SystemExit", "KeyboardInterrupt", "MemoryError"):
            error = run(f"class E(Exception):\n    def __str__(self): raise {what}\nraise E").error
            self.assertEqual((error["type"], error["message"]), ("E", "<exception str() failed>"))
            self.assertTrue(error["traceback"].endswith("\nE: <exception str() failed>\n"))

    def test_an_exception_whose_str_never_ends_is_described(self):
        error = run("class E(Exception):\n    def __str__(self): return str(self)\nraise E").error
        self.assertEqual(error["message"], "<exception str() failed>")

    def test_a_lone_surrogate_in_a_message_becomes_a_replacement_character(self):
        error = run("raise ValueError('a\\ud800b')").error
        self.assertEqual(error["message"], "a\ufffdb")
        self.assertIn("ValueError: a\ufffdb", error["traceback"])

    def test_a_str_subclass_as_message_cannot_interfere(self):
        source = (
            "class S(str):\n    def encode(self, *a): raise OSError\n    def __len__(self): raise OSError\n"
            "class E(Exception):\n    def __str__(self): return S('text')\nraise E"
        )
        self.assertEqual(run(source).error["message"], "text")

    def test_memory_errors_have_their_own_kind(self):
        error = run("raise MemoryError('all of it')").error
        self.assertEqual((error["kind"], error["type"]), ("memory_limit", "MemoryError"))

    def test_other_base_exceptions_are_plain_errors(self):
        for name in ("KeyboardInterrupt", "GeneratorExit"):
            error = run(f"raise {name}").error
            self.assertEqual((error["kind"], error["type"]), ("exception", name))

    def test_warnings_show_the_source_line(self):
        self.assertIn("x is 1", run("x = 1\nprint(x is 1)").errors)
