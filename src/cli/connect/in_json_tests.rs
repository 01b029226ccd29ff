//! JSON files before and after, byte by byte; and the meaning of arbitrary files.

use proptest::prelude::*;

use super::*;
use crate::cli::connect::entry::text;

const SECTION: &str = "mcpServers";

fn entry() -> Entry {
    let args = Field::List(vec!["stdio".to_owned(), "--data-dir".to_owned()]);
    Entry { fields: vec![("command", text("/bin/fleet-mcp")), ("args", args)], obsolete: &["url", "headers"] }
}

fn put(before: &str) -> Result<String, Refusal> {
    with(before, Comments::Kept, SECTION, &entry())
}

fn refused(before: &str, comments: Comments) -> (usize, String) {
    let Refusal { line, problem } = with(before, comments, SECTION, &entry()).unwrap_err();
    assert_eq!(without(before, comments, SECTION).unwrap_err().line, line);
    (line, problem)
}

#[test]
fn nothing_becomes_a_file_with_our_entry_alone() {
    let file = "{\n  \"mcpServers\": {\n    \"fleet\": {\n      \"command\": \"/bin/fleet-mcp\",\n      \
        \"args\": [\"stdio\", \"--data-dir\"]\n    }\n  }\n}\n";
    assert_eq!(put("").unwrap(), file);
    assert_eq!(put(" \n").unwrap(), file);
    assert_eq!(put(file).unwrap(), file);
    assert_eq!(without(file, Comments::Kept, SECTION).unwrap(), "{\n  \"mcpServers\": {}\n}\n");
}

#[test]
fn order_numbers_comments_and_odd_spacing_stay() {
    let before = r#"// mine
{
    "z": 1.50e3,   /* as I like it */
    "mcpServers": {
        // the other one
        "other": { "command": "x" }, // keep
    },
    "a": [1,2 ,3],
}
"#;
    let after = r#"// mine
{
    "z": 1.50e3,   /* as I like it */
    "mcpServers": {
        // the other one
        "other": { "command": "x" }, // keep
        "fleet": {
            "command": "/bin/fleet-mcp",
            "args": ["stdio", "--data-dir"]
        },
    },
    "a": [1,2 ,3],
}
"#;
    assert_eq!(put(before).unwrap(), after);
    assert_eq!(put(after).unwrap(), after);
    assert_eq!(without(after, Comments::Kept, SECTION).unwrap(), before);
}

#[test]
fn an_entry_of_before_is_brought_up_to_date_and_keeps_what_the_user_added() {
    let before =
        r#"{"mcpServers": {"fleet": {"url": "http://x/mcp", "env": {"A": "1"}, "command": "/old"}}}"#;
    let after = r#"{"mcpServers": {"fleet": {
      "env": {"A": "1"},
      "command": "/bin/fleet-mcp",
      "args": ["stdio", "--data-dir"]
    }}}"#;
    assert_eq!(put(before).unwrap(), after);
    assert_eq!(found(after, Comments::Kept, SECTION).unwrap().unwrap(), &after[25..after.len() - 2]);
    assert_eq!(without(after, Comments::Kept, SECTION).unwrap(), r#"{"mcpServers": {}}"#);
}

#[test]
fn lines_end_as_they_did() {
    let unix = "{\n\t\"mcpServers\": {\n\t\t\"a\": {}\n\t}\n}\n";
    let windows = unix.replace('\n', "\r\n");
    let after = put(unix).unwrap();
    assert_eq!(put(&windows).unwrap(), after.replace('\n', "\r\n"));
    assert_eq!(without(&put(&windows).unwrap(), Comments::Kept, SECTION).unwrap(), windows);
    assert_eq!(after.lines().nth(4), Some("\t\t\t\"command\": \"/bin/fleet-mcp\","));
}

#[test]
fn what_cannot_be_understood_is_refused_with_its_line() {
    let cases = [
        ("{\n  \"a\": 1\n  \"b\": 2\n}", (2, "Expected comma")),
        ("{\n  \"a\": 1,\n", (1, "Unterminated object")),
        ("[1]", (1, "the file is not an object in braces")),
        ("{\n\"mcpServers\": []}", (2, "mcpServers is not an object in braces")),
        ("{\n/* never closed }", (2, "Unterminated comment block")),
        ("nonsense", (1, "Unexpected word")),
    ];
    for (before, (line, problem)) in cases {
        assert_eq!(refused(before, Comments::Kept), (line, problem.to_owned()), "{before}");
    }
    let strict = [("{\n  // note\n  \"a\": 1\n}", 2), ("{\n  \"a\": 1,\n}", 3)];
    for (before, line) in strict {
        assert_eq!(refused(before, Comments::Refused).0, line, "{before}");
    }
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        "[ -~é\"\\\\/*{},]{0,12}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::btree_map("[a-c/\"*,]{0,3}", inner, 0..4)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

fn any_file() -> impl Strategy<Value = Value> {
    let servers = proptest::collection::btree_map("[a-c]{1,3}|fleet", any_object(), 0..4);
    (proptest::collection::btree_map("[a-z]{1,3}", any_json(), 0..4), proptest::option::of(servers)).prop_map(
        |(others, servers)| {
            let mut file: serde_json::Map<String, Value> = others.into_iter().collect();
            file.extend(servers.map(|servers| (SECTION.to_owned(), servers.into_iter().collect())));
            Value::Object(file)
        },
    )
}

fn any_object() -> impl Strategy<Value = Value> {
    proptest::collection::btree_map("[a-c]{1,3}|url", any_json(), 0..3)
        .prop_map(|map| Value::Object(map.into_iter().collect()))
}

/// The expected content of the file with our entry.
fn expected_entry(file: &Value) -> Value {
    let mut file = file.clone();
    let ours = &mut file[SECTION]["fleet"];
    if let Some(fields) = ours.as_object_mut() {
        fields.remove("url");
        fields.remove("headers");
    }
    ours["command"] = json!("/bin/fleet-mcp");
    ours["args"] = json!(["stdio", "--data-dir"]);
    file
}

proptest! {
    #[test]
    fn any_file_means_the_same_as_before_and_our_entry(file in any_file(), is_pretty: bool) {
        let before = if is_pretty { format!("{file:#}") } else { file.to_string() };
        let after = with(&before, Comments::Refused, SECTION, &entry()).unwrap();
        prop_assert_eq!(serde_json::from_str::<Value>(&after).unwrap(), expected_entry(&file));
        prop_assert_eq!(&with(&after, Comments::Kept, SECTION, &entry()).unwrap(), &after);
        let taken = without(&after, Comments::Kept, SECTION).unwrap();
        let mut expected = expected_entry(&file);
        expected[SECTION].as_object_mut().unwrap().remove("fleet");
        prop_assert_eq!(serde_json::from_str::<Value>(&taken).unwrap(), expected);
    }
}
