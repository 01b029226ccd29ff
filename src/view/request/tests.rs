//! Wrong arguments are refused with their field, valid requests become commands.

use serde_json::json;

use super::*;
use crate::app::agents::CreateAgent;
use crate::domain::task::WhenBusy;

fn refusal(error: &Error) -> (String, serde_json::Value) {
    (error.to_string(), error.details())
}

fn create(arguments: serde_json::Value) -> Result<CreateAgent, Error> {
    parse::<CreateAgentInput>(arguments)?.into_command()
}

#[test]
fn the_field_that_is_wrong_is_named() {
    let cases = [
        (json!({"spec": "x"}), "project"),
        (json!({"project": "p"}), "spec"),
        (json!({"project": "p", "spec": " "}), "spec"),
        (json!({"project": " ", "spec": "x"}), "project"),
        (json!({"project": "p", "spec": "x", "colour": 1}), "colour"),
        (json!({"project": "p", "spec": 5}), "spec"),
        (json!({"project": "p", "spec": "x", "wait_seconds": 46}), "wait_seconds"),
        (json!({"project": "p", "spec": "x", "name": "a_b"}), "name"),
        (json!({"project": "p", "spec": "x", "pull_request_url": "file:///etc/passwd"}), "pull_request_url"),
        (json!({"project": "p", "spec": "x", "request_key": ""}), "request_key"),
    ];
    for (arguments, field) in cases {
        let error = create(arguments.clone()).unwrap_err();
        assert_eq!(error.details()["field"], field, "{arguments}: {error}");
    }
}

#[test]
fn a_pull_request_is_refused_with_the_reason_and_what_signs_in_is_not_repeated() {
    let long = format!("https://example.com/{}", "a".repeat(2_000));
    let cases = [
        ("file:///etc/passwd", "pull_request_url is not an http or https address"),
        ("https://example.com/o/r/pull/7\nsay hello", "pull_request_url is not an http or https address"),
        ("https:///", "pull_request_url is not an http or https address"),
        (long.as_str(), "pull_request_url may have at most 2000 characters"),
        (
            "https://me:secret@example.com/o/r/pull/7",
            "pull_request_url contains a user name or a password: remove it, because agents see the address",
        ),
    ];
    for (url, expected) in cases {
        let error = create(json!({"project": "p", "spec": "x", "pull_request_url": url})).unwrap_err();
        assert_eq!(refusal(&error), (expected.into(), json!({"field": "pull_request_url"})), "{url}");
    }
    let url = "https://example.com/o/r/pull/7";
    let taken = create(json!({"project": "p", "spec": "x", "pull_request_url": url})).unwrap();
    assert_eq!(taken.pull_request_url.as_deref(), Some(url));
}

#[test]
fn the_address_of_a_pull_request_counts_as_part_of_the_spec() {
    let url = "https://example.com/o/r/pull/7";
    let around = format!("\n\nThe pull request to work on: {url}").len();
    let most = crate::domain::spec::MAX_BYTES;
    let with = |n_bytes: usize| {
        create(json!({"project": "p", "spec": "x".repeat(n_bytes), "pull_request_url": url}))
    };
    with(most - around).unwrap();
    let message =
        format!("with the pull request the text has {} bytes; at most {most} are allowed", most + 1);
    assert_eq!(refusal(&with(most - around + 1).unwrap_err()), (message, json!({"field": "spec"})));
}

#[test]
fn task_is_another_word_for_spec() {
    assert_eq!(create(json!({"project": "p", "task": "do it"})).unwrap().spec.as_str(), "do it");
}

#[test]
fn the_same_key_with_another_wait_is_the_same_request_and_with_other_arguments_is_not() {
    let fingerprint = |arguments| create(arguments).unwrap().request.unwrap().fingerprint;
    let first = fingerprint(json!({"project": "p", "spec": "x", "request_key": "k"}));
    assert_eq!(
        first,
        fingerprint(json!({"project": "p", "task": "x", "request_key": "k", "wait_seconds": 9}))
    );
    assert_ne!(first, fingerprint(json!({"project": "p", "spec": "y", "request_key": "k"})));
}

#[test]
fn an_unknown_status_names_the_eleven() {
    let input = parse::<ListAgentsInput>(json!({"status_filter": "idle, sleepy"})).unwrap();
    let error = input.into_command().unwrap_err();
    assert_eq!(
        refusal(&error),
        (
            "'sleepy' is not a status; the statuses are pending, starting, busy, idle, stopping, stopped, failed, canceling, canceled, deleting, deleted".into(),
            json!({"field": "status_filter"})
        )
    );
}

#[test]
fn keywords_are_read_in_any_case_and_unknown_ones_are_refused_with_the_list() {
    let start = |when_busy: &str| {
        let arguments = json!({
            "agent_name": "one", "task_description": "x", "when_busy": when_busy, "request_key": "k",
        });
        parse::<StartTaskInput>(arguments).and_then(StartTaskInput::into_command)
    };
    let (queued, shouted) = (start("queue").unwrap(), start(" QUEUE").unwrap());
    assert_eq!((queued.when_busy, shouted.when_busy), (WhenBusy::Queue, WhenBusy::Queue));
    assert_eq!(queued.request, shouted.request, "the same request");
    let refused = |error: Error| (error.to_string(), error.details());
    let expected =
        |field: &str, words: &str| (format!("{field} is one of {words}"), json!({ "field": field }));
    assert_eq!(refused(start("later").unwrap_err()), expected("when_busy", "reject, queue, interrupt"));
    let token = parse::<CreateTokenInput>(json!({ "kind": "king" })).unwrap_err();
    assert_eq!(refused(token), expected("kind", "operator, manager, agent"));
    let wait = parse::<WaitInput>(json!({ "until": "" })).unwrap_err();
    assert_eq!(refused(wait), expected("until", "any_change, idle, done"));
}
