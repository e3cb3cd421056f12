//! Promise: a program can find out what it was offered: names, types, descriptions, a search.

mod support;

use serde_json::{Value, json};
use support::{Client, structured, text};

fn offered() -> Value {
    json!([
        {"name": "web_search", "description": "Search the web.\nReturns a list of hits.", "parameters": {
            "type": "object", "required": ["query"],
            "properties": {
                "query": {"type": "string", "description": "what to look for"},
                "limit": {"type": "integer", "minimum": 1, "maximum": 50, "default": 10},
                "kind": {"enum": ["news", "all"]},
                "sites": {"type": "array", "items": {"type": "string"}}
            }
        }},
        {"name": "send-mail", "description": "Sends a mail.", "parameters": {
            "type": "object", "required": ["to"],
            "$defs": {"Person": {"type": "object", "required": ["name"], "properties": {
                "name": {"type": "string"},
                "friends": {"type": "array", "items": {"$ref": "#/$defs/Person"}}
            }}},
            "properties": {
                "to": {"$ref": "#/$defs/Person"},
                "options": {"type": "object", "properties": {"html": {"type": "boolean"}, "reply-to": {"type": "string"}}},
                "headers": {"type": "object", "additionalProperties": {"type": "string"}},
                "when": {"type": ["string", "null"], "format": "date-time"}
            }
        }},
        {"name": "ping"}
    ])
}

/// What a program prints that has the tools above.
fn printed(client: &mut Client, code: &str) -> String {
    let result = client.run_with(code, offered(), &mut |_| Some(json!({"result": 1})));
    assert_eq!(result["isError"], false, "{code}: {}", text(&result));
    structured(&result)["output"].as_str().unwrap().to_owned()
}

fn value(client: &mut Client, code: &str) -> Value {
    let result = client.run_with(code, offered(), &mut |_| Some(json!({"result": 1})));
    assert_eq!(result["isError"], false, "{code}: {}", text(&result));
    structured(&result)["return_value"].clone()
}

#[test]
fn the_namespace_lists_the_tools_readably() {
    let mut client = Client::start(&[]);
    assert_eq!(
        printed(&mut client, "print(tools)"),
        "<3 tools>\n\
         web_search(query: str, limit: int = 10, kind: Literal['news', 'all'] = ..., sites: list[str] = ...)\n    Search the web.\n\
         send_mail(to: Person, options: SendMailOptions = ..., headers: dict[str, str] = ..., when: str | None = ...)\n    Sends a mail.\n\
         ping(**arguments)\n"
    );
    assert_eq!(
        value(
            &mut client,
            "[dir(tools), len(tools), [t.__name__ for t in tools], 'ping' in tools, 'send-mail' in tools, 'x' in tools]"
        ),
        json!([
            ["ping", "search", "send_mail", "stubs", "web_search"],
            3,
            ["web_search", "send-mail", "ping"],
            true,
            true,
            false
        ])
    );
    let help = printed(&mut client, "help(tools)");
    assert!(
        help.contains("help(tools.NAME)") && help.contains("Sends a mail."),
        "{help}"
    );
}

#[test]
fn tools_are_called_through_the_namespace() {
    let mut client = Client::start(&[]);
    let code = "[tools.ping(), tools['send-mail'](to={'name': 'a'}), tools.send_mail(to={'name': 'a'}), await tools.ping.aio(), tools.ping is ping]";
    assert_eq!(value(&mut client, code), json!([1, 1, 1, 1, true]));
    let code = "\
found = []\nfor work in (lambda: tools.pong, lambda: tools['pong'], lambda: tools.stubs('pong')):\n    try:\n        work()\n    \
    except (AttributeError, KeyError) as error:\n        found.append([type(error).__name__, 'offered: web_search, ' in str(error)])\nfound";
    assert_eq!(
        value(&mut client, code),
        json!([
            ["AttributeError", true],
            ["KeyError", true],
            ["KeyError", true]
        ])
    );
}

#[test]
fn help_shows_description_types_and_limits() {
    let mut client = Client::start(&[]);
    let help = printed(&mut client, "help(web_search)");
    for part in [
        "Search the web.",
        "Returns a list of hits.",
        "query (str, required): what to look for",
        "limit (int, at least 1, at most 50, default 10)",
        "kind (Literal['news', 'all'], optional)",
        "sites (list[str], optional)",
    ] {
        assert!(help.contains(part), "{help}");
    }
    let help = printed(&mut client, "help(send_mail)");
    assert!(
        help.contains("to (Person, required)") && help.contains("class Person(TypedDict):"),
        "{help}"
    );
    assert!(
        help.contains("when (str | None, date-time, optional)"),
        "{help}"
    );
}

#[test]
fn stubs_are_python_with_types() {
    let mut client = Client::start(&[]);
    let stubs = printed(&mut client, "print(tools.stubs())");
    for part in [
        "from typing import Any, Literal, NotRequired, TypedDict",
        "def web_search(query: str, limit: int = 10, kind: Literal['news', 'all'] = ..., sites: list[str] = ...):\n    \"\"\"Search the web.",
        "class Person(TypedDict):\n    name: str\n    friends: NotRequired[list['Person']]",
        "SendMailOptions = TypedDict('SendMailOptions', {'html': NotRequired[bool], 'reply-to': NotRequired[str]})",
        "def send_mail(to: Person, ",
        "def ping(**arguments): ...",
    ] {
        assert!(stubs.contains(part), "{part}\n---\n{stubs}");
    }
    let code = "\
spoilt = dict(globals())\nexec(tools.stubs(), spoilt)\nimport inspect\n\
one = tools.stubs('ping')\n[str(inspect.signature(spoilt['send_mail'])), spoilt['Person'].__annotations__['name'].__name__, one.count('def ')]";
    let checked = value(&mut client, code);
    assert!(
        checked[0].as_str().unwrap().starts_with("(to: "),
        "{checked}"
    );
    assert_eq!((&checked[1], &checked[2]), (&json!("str"), &json!(1)));
}

#[test]
fn annotations_can_be_read_by_programs() {
    let mut client = Client::start(&[]);
    let code = "\
import inspect, typing\nhints = typing.get_type_hints(web_search)\n\
[hints['sites'] == list[str], typing.get_args(hints['kind']), inspect.signature(web_search).parameters['limit'].default]";
    assert_eq!(value(&mut client, code), json!([true, ["news", "all"], 10]));
}

/// Tools of an organisation: a thousand, of which one sends mail and two translate.
fn thousand() -> Value {
    let mut tools: Vec<Value> = (0..997)
        .map(|number| {
            json!({
                "name": format!("get_report_{number}"),
                "description": format!("Returns the sales report number {number} of the archive as rows of numbers and texts."),
                "parameters": {"type": "object", "properties": {"year": {"type": "integer", "description": "the year of the report"}}}
            })
        })
        .collect();
    tools.insert(
        500,
        json!({"name": "sendMail", "description": "Delivers a message to somebody's inbox.",
        "parameters": {"type": "object", "properties": {"recipient": {"type": "string"}}}}),
    );
    tools.insert(700, json!({"name": "translate_text", "description": "Turns a text from one language into another."}));
    tools.insert(20, json!({"name": "convert", "description": "Converts amounts between currencies, and translates their names.",
        "parameters": {"type": "object", "properties": {"currency": {"type": "string"}}}}));
    Value::Array(tools)
}

#[test]
fn a_search_ranks_names_descriptions_and_parameters_of_a_thousand_tools() {
    let mut client = Client::start(&[]);
    let code = "\
names = lambda text, **more: [tool.__name__ for tool in search_tools(text, **more)]\n\
[names('send a mail')[0], names('mails')[0], names('who is the recipient')[0], names('inbox messages')[0],\n \
names('translating')[:2], names('currencies')[0], names('report 77')[0], len(names('report')), len(names('report', limit=3)),\n \
names('zebra'), names(''), repr(search_tools('zebra')), len(tools)]";
    let result = client.run_with(code, thousand(), &mut |_| None);
    assert_eq!(
        structured(&result)["return_value"],
        json!([
            "sendMail",
            "sendMail",
            "sendMail",
            "sendMail",
            ["translate_text", "convert"],
            "convert",
            "get_report_77",
            10,
            3,
            [],
            [],
            "<no tool fits>",
            1000
        ]),
        "{}",
        text(&result)
    );
    let result = client.run_with(
        "print(search_tools('mail'))\nprint(tools)\nsearch_tools('mail')",
        thousand(),
        &mut |_| None,
    );
    let output = structured(&result)["output"].as_str().unwrap();
    assert!(
        output.starts_with(
            "sendMail(recipient: str = ...)\n    Delivers a message to somebody's inbox.\n"
        ),
        "{output}"
    );
    assert!(output.contains("… and 900 more: search_tools(\"text\") finds them"));
    assert_eq!(
        structured(&result)["return_value"],
        json!(["<tool sendMail(recipient: str = ...): Delivers a message to somebody's inbox.>"])
    );
}

#[test]
fn without_tools_the_names_say_so_and_give_way() {
    let mut client = Client::start(&[]);
    let result = client.run("print(tools, search_tools('mail'), mcp)");
    assert_eq!(
        structured(&result)["output"],
        "<no tools were offered> <no tool fits>\nno tools were offered <no MCP servers>\n"
    );
    let result = client.call(
        json!({"python_code": "[tools, search_tools, mcp]",
            "global_variables": {"tools": 5, "search_tools": 6, "mcp": 7}}),
        &mut |_| None,
    );
    assert_eq!(structured(&result)["return_value"], json!([5, 6, 7]));
}

#[test]
fn names_that_the_client_uses_are_the_clients() {
    let mut client = Client::start(&[]);
    let names = ["find", "search", "stubs", "_bound", "search_tools"];
    let offer: Vec<Value> = names.iter().map(|name| json!({"name": name})).collect();
    let code = "[tools.find(a=1), tools.search(a=2), tools.stubs(a=3), tools._bound(a=4), search_tools(a=5), tools['search'](a=6)]";
    let result = client.call(
        json!({"python_code": code, "available_tools": offer}),
        &mut |call| Some(json!({"result": [call["toolName"], call["arguments"]["a"]]})),
    );
    assert_eq!(
        structured(&result)["return_value"],
        json!([
            ["find", 1],
            ["search", 2],
            ["stubs", 3],
            ["_bound", 4],
            ["search_tools", 5],
            ["search", 6]
        ]),
        "{}",
        text(&result)
    );
    let result = client.call(
        json!({"python_code": "[tools, search_tools, ping()]", "available_tools": [{"name": "ping"}],
            "global_variables": {"tools": ["hammer"], "search_tools": 5}}),
        &mut |_| Some(json!({"result": 1})),
    );
    assert_eq!(
        structured(&result)["return_value"],
        json!([["hammer"], 5, 1])
    );
}

#[test]
fn strange_schemas_are_shown_somehow() {
    let mut client = Client::start(&[]);
    let deep = (0..40).fold(
        json!({"type": "string"}),
        |inner, _| json!({"type": "object", "properties": {"inner": inner}}),
    );
    let schemas = [
        json!({"properties": {"x": {"$ref": "#/properties/x"}}}),
        json!({"properties": {"x": deep}}),
        json!({"properties": {"x": {"type": "object", "title": "str", "properties": {"class": {"type": "string"}}}}}),
        json!({"properties": {"x": {"anyOf": [{"$ref": "#"}, {"type": "null"}]}}}),
        json!({"properties": {"x": {"title": "A", "properties": {"b": {"type": "string"}}}, "y": {"title": "A", "properties": {"b": {"type": "integer"}}}}}),
        json!({"properties": {"\"\"\"": {"description": "\"\"\" \\ \u{1}", "default": "\"\"\""}}}),
        json!({"type": "object", "properties": {"x": {"enum": [[1], {"a": 2}, 2.5]}}}),
        json!({"properties": {"\u{fb01}": {}, "fi": {}}}),
    ];
    for schema in schemas {
        let offer = json!([{"name": "odd", "description": "\"\"\"odd\\", "parameters": schema}]);
        let code = "exec(tools.stubs(), {})\nprint(tools, repr(odd), search_tools('odd'))\nhelp(odd)\nlen(tools.stubs())";
        let result = client.run_with(code, offer.clone(), &mut |_| None);
        assert_eq!(result["isError"], false, "{offer}: {}", text(&result));
    }
}
