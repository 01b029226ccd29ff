//! Templates: conversion to arguments, refusals, and unchanged values.

use super::*;

fn values(pairs: &[(&str, &str)]) -> Values {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

fn rendered(text: &str, pairs: &[(&str, &str)]) -> Result<Vec<String>, TemplateError> {
    let Rendered { program, arguments } = Template::parse(text)?.render(&values(pairs))?;
    Ok([vec![program], arguments].concat())
}

#[test]
fn each_line_is_one_argument_and_the_first_one_the_program() {
    let text =
        "# how to run it\n\n  agent\r\n--cwd=<% cwd %>\n  # not this\n<%= prompt %>\n--a<%a%>b<%=a%>c\n";
    let made = rendered(text, &[("cwd", "/w s"), ("prompt", "two\nlines"), ("a", "")]);
    assert_eq!(made.unwrap(), ["agent", "--cwd=/w s", "two\nlines", "--abc"]);
}

#[test]
fn values_arrive_byte_for_byte_and_are_never_read_again() {
    let awkward = "\"'$HOME `id` \\ \n\t<% cwd %> <%= cwd %> # %> é \u{1b}";
    let made = rendered("agent\n<% prompt %>\n<% cwd %>", &[("prompt", awkward), ("cwd", "# not a comment")]);
    assert_eq!(made.unwrap(), ["agent", awkward, "# not a comment"]);
}

#[test]
fn an_empty_value_is_an_empty_argument_in_its_place() {
    let made = rendered("agent\n<% chatId %>\nlast", &[("chatId", "")]);
    assert_eq!(made.unwrap(), ["agent", "", "last"]);
}

#[test]
fn conditions_leave_lines_out_also_one_inside_another() {
    let text = "agent\n<% if chatId %>\n--resume\n<% chatId %>\n<% if model %>\n-m<% model %>\n<% end %>\n<%end%>\nlast";
    let made = |chat: &str, model: &str| rendered(text, &[("chatId", chat), ("model", model)]).unwrap();
    assert_eq!(made("c", "m"), ["agent", "--resume", "c", "-mm", "last"]);
    assert_eq!(made("c", ""), ["agent", "--resume", "c", "last"]);
    assert_eq!(made("", "m"), ["agent", "last"]);
}

#[test]
fn invalid_templates_are_refused_with_their_line() {
    let refused = |text: &str| rendered(text, &[("a", "x"), ("b", "y")]).unwrap_err().to_string();
    let messages = [
        "",
        "# nothing\n<% if a %>\n<% end %>",
        "agent\n<% a",
        "agent\n\n<% a b %>",
        "agent\n<% %>",
        "agent\n--x=<% if a %>",
        "agent\n<% end %>",
        "agent\n<% if a %>\nmore",
        "agent\n<% c %>",
        "agent\n<% if c %>\n<% end %>",
    ]
    .map(refused);
    insta::assert_snapshot!(messages.join("\n"));
}

#[test]
fn an_argument_is_as_long_as_linux_takes_and_holds_no_zero_byte() {
    let made = |value: &str| rendered("agent\n<% a %>", &[("a", value)]);
    assert_eq!(made(&"x".repeat(MAX_ARGUMENT)).unwrap()[1].len(), MAX_ARGUMENT);
    let n_bytes = MAX_ARGUMENT + 1;
    assert_eq!(made(&"x".repeat(n_bytes)), Err(TemplateError::TooLong { line: 2, n_bytes }));
    assert_eq!(made("a\0b"), Err(TemplateError::ZeroByte { line: 2 }));
}

#[test]
fn a_template_is_checked_before_it_is_used() {
    let template = Template::parse("agent\n<% if chatId %>\n<% prompt %>\n<% end %>").unwrap();
    assert_eq!(template.check(&["chatId", "prompt"]), Ok(()));
    let known = "chatId".to_owned();
    let unknown = TemplateError::Unknown { line: 3, name: "prompt".to_owned(), known };
    assert_eq!(template.check(&["chatId"]), Err(unknown));
    assert_eq!([template.inserts("prompt"), template.inserts("chatId")], [true, false]);
}
