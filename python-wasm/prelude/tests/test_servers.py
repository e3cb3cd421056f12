"""The servers that a program may call: `mcp`, `call_mcp_tool`, `search_tools`."""

import unittest

from tests import fake_host

GITHUB = {
    "name": "github",
    "problem": None,
    "tools": [
        {
            "name": "search-issues",
            "serverName": "github",
            "description": "Finds issues.",
            "parameters": {"type": "object", "properties": {"q": {"type": "string"}}, "required": ["q"]},
        },
        {"name": "whoami", "serverName": "github"},
    ],
}
DOWN = {"name": "down", "problem": "the server `down` is down: it ended", "tools": []}


def listings(request):
    known = {"github": GITHUB, "down": DOWN}
    wanted = [known[request["server"]]] if request["server"] else list(known.values())
    return {"ok": True, "servers": wanted}


def run(source, call=None, **more):
    call = call or {"ok": True, "value": "answer"}
    return fake_host.run(source, operator_servers=["github", "down"], servers=listings, call=call, **more)


class TestServers(unittest.TestCase):
    def test_a_tool_is_called_by_its_attribute_and_by_its_own_name(self):
        result = run("[mcp.github.search_issues('x'), mcp.github['search-issues'](q='y'), mcp['github'].whoami()]")
        self.assertEqual(result.value, ["answer"] * 3, result.error)
        calls = [(call["server"], call["tool"], call["arguments"]) for call in fake_host.sent("call")]
        self.assertEqual(calls[0], ("github", "search-issues", {"q": "x"}))
        self.assertEqual(calls[1], ("github", "search-issues", {"q": "y"}))
        self.assertEqual(calls[2], ("github", "whoami", {}))

    def test_nothing_is_asked_of_servers_before_they_are_needed(self):
        result = run("call_mcp_tool('github', 'whoami')\n[s.__name__ for s in mcp]")
        self.assertEqual(result.value, ["github", "down"], result.error)
        self.assertEqual(fake_host.sent("servers"), [])

    def test_a_server_is_asked_once(self):
        run("for _ in range(5):\n    mcp.github.whoami()")
        self.assertEqual(len(fake_host.sent("servers")), 1)

    def test_a_server_that_is_down_raises_and_is_asked_again(self):
        source = "for _ in range(2):\n    try:\n        mcp.down.call()\n    except ToolCallError as error:\n        print(error)"
        result = run(source)
        self.assertEqual(result.output, "Tool call 'call' failed: the server `down` is down: it ended\n" * 2)
        self.assertEqual(len(fake_host.sent("servers")), 2)

    def test_a_tool_or_server_that_is_not_there_names_what_is(self):
        self.assertIn("it has: whoami, search_issues", run("mcp.github.nothing").error["message"])
        self.assertIn("servers: github, down", run("mcp.gitlab").error["message"])
        self.assertIn("servers: github, down", run("mcp['gitlab']").error["message"])

    def test_search_covers_servers_and_tells_of_those_that_are_down(self):
        result = run("print(search_tools('issues'))", tools=["local"])
        self.assertEqual(
            result.output,
            "mcp.github.search_issues(q: str)\n    Finds issues.\nthe server `down` is down: it ended\n",
        )

    def test_servers_show_what_they_have(self):
        result = run("print(mcp)\nprint(mcp.github.whoami)")
        self.assertIn("<MCP server github: 2 tools>\nmcp.github.search_issues(q: str)\n    Finds issues.", result.output)
        self.assertIn("<MCP server down: not available: the server `down` is down: it ended>", result.output)
        self.assertIn("<tool mcp.github.whoami(**arguments)>", result.output)

    def test_offered_tools_with_a_server_are_found_there_too(self):
        tools = [{"name": "read", "serverName": "files"}]
        result = fake_host.run("mcp.files.read()", tools=tools, call={"ok": True, "value": 1})
        self.assertEqual(result.value, 1, result.error)
        self.assertEqual(fake_host.sent("call")[0]["server"], "files")

    def test_found_tools_are_shown_as_they_are_written(self):
        self.assertEqual(run("search_tools('issues')").value, ["<tool mcp.github.search_issues(q: str): Finds issues.>"])

    def test_listings_are_whole_as_values_and_one_line_inside_others(self):
        result = run("print([mcp, mcp.github, tools])\n[mcp.github, tools]")
        self.assertEqual(result.output, "[<MCP servers: github, down>, <MCP server github: 2 tools>, <no tools were offered>]\n")
        self.assertEqual(result.value, [
            "<MCP server github: 2 tools>\nmcp.github.search_issues(q: str)\n    Finds issues.\nmcp.github.whoami(**arguments)",
            "<no tools were offered>\nprint(mcp) lists the tools of servers",
        ])
        self.assertIn("has no JSON form", run("call_tool('a', x=mcp)").error["message"])

    def test_help_shows_a_tool_as_it_does_those_of_the_client(self):
        text = run("help(mcp.github.search_issues)").output
        for part in ("<tool mcp.github.search_issues(q: str): Finds issues.>", "    Finds issues.", "q (str, required)"):
            self.assertIn(part, text)
        for text in (text, run("help(mcp.github.whoami)").output):
            self.assertNotIn("Methods", text)
            self.assertNotIn("__call__", text)

    def test_help_lists_what_a_server_has_once_and_whole(self):
        tools = [{"name": f"tool_{number}", "serverName": "files", "description": "d" * 80} for number in range(9)]
        text = fake_host.run("help(mcp.files)", tools=tools).output
        for number in range(9):
            self.assertEqual(text.count(f"mcp.files.tool_{number}(**arguments)\n"), 1, text)
        self.assertNotIn("...", text)
        self.assertIn("the server `down` is down: it ended", run("help(mcp.down)").output)
        self.assertEqual(run("help(mcp)").output.count("mcp.github.whoami"), 1)

    def test_without_servers_mcp_says_so_and_gives_way(self):
        result = fake_host.run("print(mcp)\n[len(mcp), list(mcp), dir(mcp)]", tools=["a"])
        self.assertEqual((result.output, result.value), ("<no MCP servers>\n", [0, [], []]))
        self.assertEqual(fake_host.sent("servers"), [])
        error = fake_host.run("mcp.github").error
        self.assertEqual(error["message"], "there is no server 'github'; no servers were given")
        self.assertEqual(fake_host.run("mcp", variables={"mcp": 5}).value, 5)
        result = fake_host.run("mcp()", tools=["mcp"], call={"ok": True, "value": "tool"})
        self.assertEqual(result.value, "tool")


class TestContentBlocks(unittest.TestCase):
    def value(self, value, expression):
        return fake_host.run(f"r = a()\n{expression}", tools=["a"], call={"ok": True, "value": value})

    def test_images_and_resources_are_usable_and_still_json(self):
        image = {"type": "image", "data": "iVBORw==", "mimeType": "image/png"}
        blob = {"type": "resource", "resource": {"uri": "file:///x", "mimeType": "text/plain", "text": "hi"}}
        link = {"type": "resource_link", "uri": "file:///y", "name": "y"}
        result = self.value([image, blob, link], "[r[0].bytes.hex(), r[0].mime_type, r[1].text, r[1].uri, r[1].bytes == b'hi', r[2].uri]")
        self.assertEqual(result.value, ["89504e47", "image/png", "hi", "file:///x", True, "file:///y"], result.error)
        self.assertEqual(self.value([image], "r").value, [image])
        self.assertEqual(self.value([image], "print(r)").output, "[<image image/png 4 bytes>]\n")

    def test_lists_that_only_look_alike_stay_as_they_are(self):
        for value in ([], [{"type": "image"}], [{"type": "text", "text": 5}], [1], [{"type": "image", "data": "x", "mimeType": "y"}, 1]):
            self.assertEqual(self.value(value, "[type(x).__name__ for x in r]").value, [type(x).__name__ for x in value])


class TestPatience(unittest.TestCase):
    """The host is told when a wait's end would only be a timeout of the program's own."""

    def patience(self, source):
        answers = fake_host.Parallel({"a": 1})
        fake_host.run(source, tools=["a"], **answers.script())
        return [wait["patient"] for wait in fake_host.sent("wait") if wait["timeout_ms"]]

    def test_timeouts_are_patient(self):
        self.assertEqual(self.patience("import asyncio\nawait asyncio.wait_for(a.aio(), 5)"), [True])
        self.assertEqual(self.patience("import asyncio\nawait asyncio.wait([asyncio.create_task(a.aio())], timeout=5)"), [True])

    def test_what_has_something_to_do_later_is_not(self):
        source = "import asyncio\nawait asyncio.wait_for(asyncio.gather(a.aio(), asyncio.sleep(0.01)), 5)"
        self.assertEqual(self.patience(source)[0], False)


if __name__ == "__main__":
    unittest.main()
