//! JSON schemas of arguments and results in the plain form that every MCP client understands.

use std::sync::Arc;

use rmcp::model::JsonObject;
use schemars::generate::{Contract, SchemaSettings};
use schemars::transform::{RecursiveTransform, ReplaceBoolSchemas};
use schemars::{JsonSchema, Schema};
use serde_json::{Value, json};

/// The schema of a tool's arguments.
pub(super) fn input<T: JsonSchema>() -> JsonObject {
    plain::<T>(Contract::Deserialize)
}

/// The schema of a tool's results.
pub(super) fn output<T: JsonSchema>() -> Arc<JsonObject> {
    Arc::new(plain::<T>(Contract::Serialize))
}

/// No references, no boolean schemas, no number formats: each of them breaks some client.
fn plain<T: JsonSchema>(contract: Contract) -> JsonObject {
    let mut settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.meta_schema = None;
        settings.inline_subschemas = true;
        settings.contract = contract;
    });
    let mut without_booleans = ReplaceBoolSchemas::default();
    without_booleans.skip_additional_properties = true;
    settings.transforms.push(Box::new(without_booleans));
    settings.transforms.push(Box::new(RecursiveTransform(without_number_format)));
    let schema = settings.into_generator().into_root_schema_for::<T>();
    let mut object = match schema.to_value() {
        Value::Object(object) => object,
        other => JsonObject::from_iter([("const".to_owned(), other)]),
    };
    object.remove("title");
    object.remove("description");
    object.entry("properties").or_insert_with(|| json!({}));
    object
}

/// The same schema without this property.
pub(super) fn without(property: &str, schema: &JsonObject) -> JsonObject {
    let mut schema = Value::Object(schema.clone());
    forget(property, &mut schema);
    match schema {
        Value::Object(object) => object,
        _ => JsonObject::new(),
    }
}

fn forget(property: &str, schema: &mut Value) {
    match schema {
        Value::Object(object) => {
            if let Some(Value::Object(properties)) = object.get_mut("properties") {
                properties.remove(property);
            }
            object.values_mut().for_each(|inner| forget(property, inner));
        }
        Value::Array(items) => items.iter_mut().for_each(|inner| forget(property, inner)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// `int64` and the like are no JSON Schema formats, and strict clients warn about them.
fn without_number_format(schema: &mut Schema) {
    let is_number = schema.get("format").and_then(Value::as_str).is_some_and(|format| {
        format.starts_with("int") || format.starts_with("uint") || matches!(format, "float" | "double")
    });
    if is_number {
        schema.remove("format");
    }
}
