//! Rich parameters of a build: which value applies, and Coder's validation errors.

use super::template::{Parameter, Rule, WEB_ADDRESS};
use crate::coder::wire::ParameterValue;

/// A refused value, and why in Coder's words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct InvalidParameter {
    pub(crate) parameter: &'static str,
    pub(crate) detail: String,
}

/// The value of every declared parameter: the first source that has it wins, then the default.
///
/// Undeclared names are silently ignored, as on a real server.
pub(crate) fn resolve(
    parameters: &[Parameter],
    sources: &[&[ParameterValue]],
) -> Result<Vec<ParameterValue>, InvalidParameter> {
    let mut values = Vec::new();
    for parameter in parameters {
        let given = sources.iter().find_map(|source| value_of(source, parameter.name));
        let Some(value) = given.or(parameter.default.as_deref()) else {
            return Err(invalid(parameter, "Required parameter not provided; parameter value is null"));
        };
        values.push(ParameterValue { name: parameter.name.to_owned(), value: value.to_owned() });
    }
    Ok(values)
}

/// Refuses a later build that changes an immutable parameter.
pub(crate) fn check_fixed(
    parameters: &[Parameter],
    before: &[ParameterValue],
    given: &[ParameterValue],
) -> Result<(), InvalidParameter> {
    for parameter in parameters.iter().filter(|parameter| !parameter.is_mutable) {
        let (old, new) = (value_of(before, parameter.name), value_of(given, parameter.name));
        if new.is_some() && new != old {
            let detail = format!(
                "Immutable parameter changed; Parameter \"{}\" is not mutable, \
                 so it can't be updated after creating a workspace.",
                parameter.name
            );
            return Err(invalid(parameter, &detail));
        }
    }
    Ok(())
}

/// Refuses values that the template does not allow. Values of earlier builds stay valid: a role whose file was
/// removed must not keep its agents from starting.
pub(crate) fn check_rules(
    parameters: &[Parameter],
    given: &[ParameterValue],
) -> Result<(), InvalidParameter> {
    let values = parameters.iter().filter_map(|known| Some((known, value_of(given, known.name)?)));
    values.into_iter().try_for_each(|(parameter, value)| check(parameter, value))
}

pub(crate) fn value_of<'a>(values: &'a [ParameterValue], name: &str) -> Option<&'a str> {
    values.iter().find(|value| value.name == name).map(|value| value.value.as_str())
}

fn check(parameter: &Parameter, value: &str) -> Result<(), InvalidParameter> {
    match &parameter.rule {
        Rule::OneOf(options) if options.iter().all(|option| option != value) => {
            let detail = format!(
                "Value must be a valid option; the value \"{value}\" must be defined as one of options"
            );
            Err(invalid(parameter, &detail))
        }
        Rule::WebAddress if !is_web_address(value) => {
            let detail = format!(
                "Invalid parameter value according to 'validation' block; {name} must match {WEB_ADDRESS} \
                 (value \"{value}\" does not match \"{WEB_ADDRESS}\")",
                name = parameter.name
            );
            Err(invalid(parameter, &detail))
        }
        Rule::Any | Rule::OneOf(_) | Rule::WebAddress => Ok(()),
    }
}

fn is_web_address(value: &str) -> bool {
    let rest = value.strip_prefix("https://").or_else(|| value.strip_prefix("http://"));
    value.is_empty() || rest.is_some_and(|rest| !rest.is_empty() && !rest.contains(' '))
}

fn invalid(parameter: &Parameter, detail: &str) -> InvalidParameter {
    InvalidParameter { parameter: parameter.name, detail: detail.to_owned() }
}
