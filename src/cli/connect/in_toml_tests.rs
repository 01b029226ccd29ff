//! TOML files before and after.

use super::*;
use crate::cli::connect::entry::text;

const SECTION: &str = "mcp_servers";

fn put(before: &str) -> Result<String, Refusal> {
    let args = Field::List(vec!["stdio".to_owned()]);
    let fields =
        vec![("command", text("/bin/fleet-mcp")), ("args", args), ("tool_timeout_sec", Field::Number(600))];
    with(before, SECTION, &Entry { fields, obsolete: &["url", "http_headers"] })
}

const OURS: &str =
    "[mcp_servers.fleet]\ncommand = \"/bin/fleet-mcp\"\nargs = [\"stdio\"]\ntool_timeout_sec = 600\n";

#[test]
fn nothing_becomes_a_file_with_our_table_alone() {
    assert_eq!(put("").unwrap(), OURS);
    assert_eq!(put(OURS).unwrap(), OURS);
    assert_eq!(without(OURS, SECTION).unwrap(), "");
}

#[test]
fn comments_order_and_other_tables_stay() {
    let before =
        "# mine\nmodel = \"m\"   # the good one\n\n[mcp_servers.other]\ncommand = \"x\"\n\n[z]\na = 1_000\n";
    let after = put(before).unwrap();
    assert_eq!(
        after,
        "# mine\nmodel = \"m\"   # the good one\n\n[mcp_servers.other]\ncommand = \"x\"\n\n[mcp_servers.fleet]\n\
         command = \"/bin/fleet-mcp\"\nargs = [\"stdio\"]\ntool_timeout_sec = 600\n\n[z]\na = 1_000\n"
    );
    assert_eq!(put(&after).unwrap(), after);
    assert_eq!(without(&after, SECTION).unwrap(), before);
    assert_eq!(without(before, SECTION).unwrap(), before);
}

#[test]
fn lines_keep_their_ending() {
    let before = "# mine\r\nmodel = \"m\"\r\n";
    let after = put(before).unwrap();
    assert_eq!(after.replace("\r\n", "\n"), put(&before.replace("\r\n", "\n")).unwrap());
    assert_eq!(after.matches('\n').count(), after.matches("\r\n").count());
    assert_eq!(without(&after, SECTION).unwrap(), before);
}

#[test]
fn a_table_of_before_is_brought_up_to_date_and_keeps_what_the_user_added() {
    let before = "[mcp_servers.fleet]\nurl = \"http://x/mcp\"\nenabled = false # for now\ntool_timeout_sec = 600 # long\n";
    let after = put(before).unwrap();
    assert_eq!(
        after,
        "[mcp_servers.fleet]\nenabled = false # for now\ntool_timeout_sec = 600 # long\ncommand = \"/bin/fleet-mcp\"\nargs = [\"stdio\"]\n"
    );
    let inline = "mcp_servers = { other = { command = \"x\" } }\n";
    let added = put(inline).unwrap();
    assert_eq!(put(&added).unwrap(), added);
    assert_eq!(without(&added, SECTION).unwrap(), inline);
}

#[test]
fn what_cannot_be_understood_is_refused_with_its_line() {
    let cases = [
        ("a = 1\nb = \n", 2),
        ("a = 1\na = 2\n", 2),
        ("x = 1\nmcp_servers = 3\n", 2),
        ("[mcp_servers]\nfleet = 1\n", 2),
    ];
    for (before, line) in cases {
        assert_eq!(put(before).unwrap_err().line, line, "{before}");
    }
}
