//! Compares JSON by keys and types, for bodies whose values differ from run to run.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::harness::{Reply, fixture};

/// Same status and shape as the recording.
pub(crate) fn assert_recorded(prefix: &str, ours: &Reply) {
    let recorded = fixture(prefix);
    assert_eq!(ours.status, recorded.status(), "status of {prefix}: {}", ours.body);
    assert_same_shape(prefix, recorded.body(), &ours.body);
}

/// Same status and the very same body as the recording.
pub(crate) fn assert_same(prefix: &str, ours: &Reply) {
    let recorded = fixture(prefix);
    assert_eq!((ours.status, &ours.body), (recorded.status(), recorded.body()), "{prefix}");
}

/// Fails unless both values have the same keys with the same JSON types.
///
/// A `null` fits any type, and an empty list any rows, since neither tells what could be there.
pub(crate) fn assert_same_shape(what: &str, recorded: &Value, ours: &Value) {
    let (recorded, ours) = (shape(recorded), shape(ours));
    let mut differences = missing(&recorded, &ours, "only recorded");
    differences.extend(missing(&ours, &recorded, "only ours"));
    for (path, types) in &recorded {
        if let Some(our_types) = ours.get(path)
            && types.is_disjoint(our_types)
            && !types.contains("null")
            && !our_types.contains("null")
        {
            differences.push(format!("{path}: recorded {types:?}, ours {our_types:?}"));
        }
    }
    assert_eq!(differences, Vec::<String>::new(), "{what}");
}

type Shape = BTreeMap<String, BTreeSet<&'static str>>;

fn shape(value: &Value) -> Shape {
    let mut found = Shape::new();
    collect("$", value, &mut found);
    found
}

fn collect(path: &str, value: &Value, found: &mut Shape) {
    let kind = match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(rows) => {
            rows.iter().for_each(|row| collect(&format!("{path}[]"), row, found));
            "array"
        }
        Value::Object(fields) => {
            fields.iter().for_each(|(key, field)| collect(&format!("{path}.{key}"), field, found));
            "object"
        }
    };
    found.entry(path.to_owned()).or_default().insert(kind);
}

fn missing(here: &Shape, there: &Shape, label: &str) -> Vec<String> {
    let absent = |path: &&String| !there.contains_key(*path) && !is_open(path, there);
    here.keys().filter(absent).map(|path| format!("{label}: {path}")).collect()
}

/// Whether a `null` or an empty list stands above the path on the other side.
fn is_open(path: &str, there: &Shape) -> bool {
    let ends = path.char_indices().filter(|(_, letter)| matches!(letter, '.' | '[')).map(|(end, _)| end);
    ends.filter_map(|end| Some((end, there.get(&path[..end])?))).any(|(end, types)| {
        let rows = format!("{}[]", &path[..end]);
        types.contains("null") || (types.contains("array") && !there.contains_key(&rows))
    })
}

#[test]
fn shapes_differ_by_key_and_by_type() {
    use serde_json::json;
    let differs = |ours: Value| {
        let recorded = json!({ "id": "x", "rows": [{ "n": 1 }], "none": null });
        std::panic::catch_unwind(|| assert_same_shape("test", &recorded, &ours)).is_err()
    };
    assert!(!differs(json!({ "id": "y", "rows": [], "none": { "a": 1 } })));
    assert!(differs(json!({ "id": "y", "rows": [{ "n": 1 }] })));
    assert!(differs(json!({ "id": "y", "rows": [{ "n": 1, "m": 2 }], "none": null })));
    assert!(differs(json!({ "id": 7, "rows": [{ "n": 1 }], "none": null })));
}
