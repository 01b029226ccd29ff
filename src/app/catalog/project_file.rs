//! Reads a project file: TOML with the keys of the contract.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::{CatalogError, stem};
use crate::domain::project::{Forge, ForgeKind, Project};
use crate::domain::role::DEFAULT_ROLE;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ProjectFile {
    name: Option<String>,
    display_name: Option<String>,
    #[serde(default)]
    description: String,
    template: Option<String>,
    organization: Option<String>,
    app_slug: Option<String>,
    default_role: Option<String>,
    repo: Option<String>,
    branch: Option<String>,
    engine: Option<String>,
    container: Option<String>,
    #[serde(default)]
    agentless: bool,
    #[serde(default)]
    parameters: BTreeMap<String, Parameter>,
    forge: Option<ForgeTable>,
}

/// Coder accepts strings only; numbers and booleans become text.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Parameter {
    Text(String),
    Integer(i64),
    Flag(bool),
    Number(f64),
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ForgeTable {
    kind: String,
    api_url: Option<String>,
    repo: Option<String>,
}

pub(super) fn parse(path: &str, text: &str) -> Result<Project, CatalogError> {
    let problem = |problem: String| CatalogError::Content { path: path.to_owned(), problem };
    let file: ProjectFile =
        toml::from_str(text).map_err(|error| problem(error.to_string().trim_end().to_owned()))?;
    let name = file.name.unwrap_or_else(|| stem(path));
    if name.trim().is_empty() {
        return Err(problem("name is blank".into()));
    }
    let forge = file.forge.map(forge_of).transpose().map_err(problem)?;
    Ok(Project {
        display_name: file.display_name.unwrap_or_else(|| name.clone()),
        description: file.description,
        template: file.template.unwrap_or_else(|| name.clone()),
        organization: file.organization,
        app_slug: file.app_slug,
        default_role: file.default_role.unwrap_or_else(|| DEFAULT_ROLE.to_owned()),
        repo: file.repo,
        branch: file.branch,
        engine: file.engine,
        container: file.container,
        agentless: file.agentless,
        parameters: file.parameters.into_iter().map(|(key, value)| (key, text_of(value))).collect(),
        forge,
        name,
    })
}

fn text_of(value: Parameter) -> String {
    match value {
        Parameter::Text(text) => text,
        Parameter::Integer(number) => number.to_string(),
        Parameter::Flag(flag) => flag.to_string(),
        Parameter::Number(number) => number.to_string(),
    }
}

fn forge_of(table: ForgeTable) -> Result<Forge, String> {
    let kind = ForgeKind::parse(&table.kind)
        .ok_or_else(|| format!("forge.kind '{}' is not github or gitlab", table.kind))?;
    Ok(Forge { kind, api_url: table.api_url, repo: table.repo })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_file_takes_its_defaults_from_its_name() {
        let expected = Project {
            name: "alpha".into(),
            display_name: "alpha".into(),
            description: String::new(),
            template: "alpha".into(),
            organization: None,
            app_slug: None,
            default_role: "coder".into(),
            repo: None,
            branch: None,
            engine: None,
            container: None,
            agentless: false,
            parameters: BTreeMap::new(),
            forge: None,
        };
        assert_eq!(parse("projects/alpha.toml", "").unwrap(), expected);
    }

    #[test]
    fn parameters_become_text_and_the_forge_is_typed() {
        let text = "template = 't'\ncontainer = 'dev'\n[parameters]\ncpu = 4\ngpu = false\nregion = 'eu'\n[forge]\nkind = 'GitHub'\nrepo = 'a/b'\n";
        let project = parse("p.toml", text).unwrap();
        let parameters: Vec<(&str, &str)> =
            project.parameters.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
        assert_eq!(parameters, [("cpu", "4"), ("gpu", "false"), ("region", "eu")]);
        let forge = Forge { kind: ForgeKind::GitHub, api_url: None, repo: Some("a/b".into()) };
        assert_eq!((project.forge, project.container.as_deref()), (Some(forge), Some("dev")));
    }

    #[test]
    fn unknown_keys_and_forges_are_refused_with_the_file() {
        let unknown = parse("p.toml", "colour = 'red'").unwrap_err().to_string();
        assert!(unknown.starts_with("p.toml: ") && unknown.contains("colour"), "{unknown}");
        let forge = parse("p.toml", "[forge]\nkind = 'cvs'").unwrap_err().to_string();
        assert_eq!(forge, "p.toml: forge.kind 'cvs' is not github or gitlab");
    }
}
