//! Rich parameters: what a request gives, what applies, and Coder's complaints about values.

use super::answers::{Reply, Validation, bad_json};
use super::spec::ParamSpec;
use serde_json::{Map, Value};

type Values = Vec<(String, String)>;

/// The `rich_parameter_values` of a request.
pub(super) fn given(body: &Map<String, Value>) -> Result<Values, Reply> {
    let rows = body.get("rich_parameter_values").and_then(Value::as_array);
    rows.into_iter().flatten().map(name_value).collect()
}

/// The value of every declared parameter: the first source that has it wins, then the default.
///
/// Names that the template does not declare are dropped without a word, as on a real server.
pub(super) fn resolve(params: &[ParamSpec], sources: &[&Values]) -> Result<Values, Reply> {
    let mut values = Vec::new();
    for param in params {
        let given = sources.iter().find_map(|source| value_of(source, &param.name));
        let Some(value) = given.or(param.default.as_deref()) else {
            return Err(refused(param, "Required parameter not provided; parameter value is null"));
        };
        check(param, value)?;
        values.push((param.name.clone(), value.to_owned()));
    }
    Ok(values)
}

/// Refuses a later build that gives a fixed parameter another value.
pub(super) fn check_fixed(params: &[ParamSpec], before: &Values, given: &Values) -> Result<(), Reply> {
    for param in params.iter().filter(|param| !param.mutable) {
        let (old, new) = (value_of(before, &param.name), value_of(given, &param.name));
        if new.is_some() && new != old {
            let name = &param.name;
            let detail = format!(
                "Immutable parameter changed; Parameter \"{name}\" is not mutable, \
                 so it can't be updated after creating a workspace."
            );
            return Err(refused(param, &detail));
        }
    }
    Ok(())
}

fn name_value(row: &Value) -> Result<(String, String), Reply> {
    let name = row["name"].as_str().unwrap_or_default().to_owned();
    let kind = match &row["value"] {
        Value::String(value) => return Ok((name, value.clone())),
        Value::Number(_) => "number",
        Value::Bool(_) => "bool",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
        Value::Null => return Ok((name, String::new())),
    };
    Err(bad_json(&format!(
        "json: cannot unmarshal {kind} into Go struct field \
         WorkspaceBuildParameter.rich_parameter_values.value of type string"
    )))
}

fn value_of<'a>(values: &'a Values, name: &str) -> Option<&'a str> {
    values.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
}

fn check(param: &ParamSpec, value: &str) -> Result<(), Reply> {
    let mut rule = None;
    if !param.options.is_empty() && !param.options.iter().any(|option| option == value) {
        let detail =
            format!("Value must be a valid option; the value \"{value}\" must be defined as one of options");
        return Err(refused(param, &detail));
    }
    if let Some(pattern) = param.pattern.as_ref().filter(|pattern| !(pattern.accepts)(value)) {
        rule = Some(format!("{} (value \"{value}\" does not match \"{}\")", pattern.error, pattern.regex));
    }
    if let Some((min, max)) = param.range {
        rule = match value.parse::<i64>() {
            Ok(number) if number > max => Some(format!("value {number} is more than the maximum {max}")),
            Ok(number) if number < min => Some(format!("value {number} is less than the minimum {min}")),
            Ok(_) => None,
            Err(_) => Some(format!("value \"{value}\" is not a number")),
        };
    }
    match rule {
        Some(rule) => {
            let detail = format!("Invalid parameter value according to 'validation' block; {rule}");
            Err(refused(param, &detail))
        }
        None => Ok(()),
    }
}

fn refused(param: &ParamSpec, detail: &str) -> Reply {
    Reply::error(400, "Unable to validate parameters").validations(&[Validation::new(&param.name, detail)])
}
