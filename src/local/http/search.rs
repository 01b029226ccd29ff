//! Coder's search language for lists of workspaces, with its error messages.

use chrono::{DateTime, Utc};
use http::StatusCode;

use super::answer::{Refusal, Validation};
use crate::local::Deployment;
use crate::local::deployment_info::USERNAME;
use crate::local::record::{Connection, Workspace};

const STATUSES: [&str; 10] = [
    "pending",
    "starting",
    "running",
    "stopping",
    "stopped",
    "failed",
    "canceling",
    "canceled",
    "deleted",
    "deleting",
];
const AGENT_STATUSES: [&str; 4] = ["connecting", "connected", "disconnected", "timeout"];

/// A parsed search.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Search {
    terms: Vec<Term>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Term {
    Owner(String),
    Template(String),
    Name(String),
    Status(String),
    Id(Vec<String>),
    Parameter { name: String, value: Option<String> },
    HasAgent(String),
    Healthy(bool),
    Outdated(bool),
    Dormant(bool),
    HasAiTask(bool),
    UsedBefore(DateTime<Utc>),
    UsedAfter(DateTime<Utc>),
    Metadata(Vec<String>),
}

impl Search {
    /// Case-insensitive, as on a real server.
    pub(super) fn parse(text: &str) -> Result<Self, Refusal> {
        let words = words(&text.to_lowercase());
        let pairs: Vec<(String, String)> = words.iter().flat_map(|word| pairs(word)).collect();
        for (key, _) in &pairs {
            check_single(&pairs, key)?;
        }
        let terms = pairs.iter().map(|(key, value)| term(key, value)).collect::<Result<_, _>>()?;
        Ok(Self { terms })
    }

    pub(super) fn finds(&self, state: &Deployment, workspace: &Workspace) -> bool {
        let wants_deleted = self.terms.contains(&Term::Status("deleted".to_owned()));
        workspace.is_deleted == wants_deleted && self.terms.iter().all(|term| term.fits(state, workspace))
    }

    pub(super) fn wants_metadata(&self, key: &str) -> bool {
        let key = key.to_lowercase();
        self.terms.iter().any(|term| matches!(term, Term::Metadata(keys) if keys.contains(&key)))
    }
}

impl Term {
    fn fits(&self, state: &Deployment, workspace: &Workspace) -> bool {
        let latest = workspace.latest();
        let connection = workspace.agent().map(|agent| agent.connection);
        match self {
            Self::Owner(user) => state.info.is_user(user) || user == USERNAME,
            Self::Template(name) => workspace.template.name.to_lowercase() == *name,
            Self::Name(part) => workspace.name.to_lowercase().contains(part),
            Self::Status(word) => latest.is_some_and(|latest| latest.status() == word),
            Self::Id(ids) => ids.contains(&workspace.id.to_string()),
            Self::Parameter { name, value } => latest.is_some_and(|latest| {
                let known = latest.values.iter().find(|known| known.name.to_lowercase() == *name);
                let is_wanted =
                    |known: &str| value.as_ref().is_none_or(|wanted| known.to_lowercase() == *wanted);
                known.is_some_and(|known| is_wanted(&known.value))
            }),
            Self::HasAgent(word) => connection.is_some_and(|connection| connection.word() == word),
            // A real server considers only the connection here.
            Self::Healthy(wanted) => {
                connection.is_none_or(|connection| connection == Connection::Connected) == *wanted
            }
            Self::Outdated(wanted) => state.is_outdated(workspace) == *wanted,
            Self::Dormant(wanted) | Self::HasAiTask(wanted) => !wanted,
            Self::UsedBefore(time) => workspace.created_at < *time,
            Self::UsedAfter(time) => workspace.created_at > *time,
            Self::Metadata(_) => true,
        }
    }
}

/// Splits at spaces outside of quotes and removes the quotes.
fn words(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    let (mut word, mut is_quoted) = (String::new(), false);
    for letter in text.chars() {
        match letter {
            '"' => is_quoted = !is_quoted,
            ' ' if !is_quoted => words.push(std::mem::take(&mut word)),
            other => word.push(other),
        }
    }
    words.push(word);
    words.retain(|word| !word.is_empty());
    words
}

/// `key:value`, a bare word for a name, or `owner/name`.
fn pairs(word: &str) -> Vec<(String, String)> {
    let pair = |key: &str, value: &str| (key.to_owned(), value.to_owned());
    match (word.split_once(':'), word.split_once('/')) {
        (Some((key, value)), _) => vec![pair(key, value)],
        (None, Some((owner, name))) => vec![pair("owner", owner), pair("name", name)],
        (None, None) => vec![pair("name", word)],
    }
}

fn check_single(pairs: &[(String, String)], key: &str) -> Result<(), Refusal> {
    let count = pairs.iter().filter(|(known, _)| known == key).count();
    if count < 2 || matches!(key, "param" | "include_agent_metadata") {
        return Ok(());
    }
    let detail = format!(
        "Query param \"{key}\" provided more than once, found {count} times. \
         Only provide 1 instance of this query param."
    );
    Err(refused(key, &detail))
}

fn term(key: &str, value: &str) -> Result<Term, Refusal> {
    let list = || value.split(',').map(str::to_owned).collect();
    Ok(match key {
        "owner" => Term::Owner(value.to_owned()),
        "template" => Term::Template(value.to_owned()),
        "name" => Term::Name(value.to_owned()),
        "status" => Term::Status(one_of(key, value, &STATUSES)?),
        "id" => Term::Id(list()),
        "param" => parameter(value),
        "has-agent" => Term::HasAgent(one_of(key, value, &AGENT_STATUSES)?),
        "healthy" => Term::Healthy(flag(key, value)?),
        "outdated" => Term::Outdated(flag(key, value)?),
        "dormant" => Term::Dormant(flag(key, value)?),
        "has-ai-task" => Term::HasAiTask(flag(key, value)?),
        "last_used_before" => Term::UsedBefore(time(key, value)?),
        "last_used_after" => Term::UsedAfter(time(key, value)?),
        "include_agent_metadata" => Term::Metadata(list()),
        other => return Err(refused(other, &format!("\"{other}\" is not a valid query param"))),
    })
}

fn parameter(value: &str) -> Term {
    match value.split_once('=') {
        Some((name, value)) => Term::Parameter { name: name.to_owned(), value: Some(value.to_owned()) },
        None => Term::Parameter { name: value.to_owned(), value: None },
    }
}

fn one_of(key: &str, value: &str, known: &[&str]) -> Result<String, Refusal> {
    if known.contains(&value) {
        return Ok(value.to_owned());
    }
    Err(refused(key, &format!("Query param \"{key}\" has invalid value: \"{value}\" is not a valid value")))
}

fn flag(key: &str, value: &str) -> Result<bool, Refusal> {
    let detail = || {
        format!(
            "Query param \"{key}\" must be a valid boolean: strconv.ParseBool: parsing \"{value}\": invalid syntax"
        )
    };
    match value {
        "true" | "t" | "1" => Ok(true),
        "false" | "f" | "0" => Ok(false),
        _ => Err(refused(key, &detail())),
    }
}

fn time(key: &str, value: &str) -> Result<DateTime<Utc>, Refusal> {
    let parsed = DateTime::parse_from_rfc3339(&value.to_uppercase());
    let detail = |error| {
        format!(
            "Query param \"{key}\" must be a valid date format (2006-01-02T15:04:05.999999999Z07:00): {error}"
        )
    };
    parsed.map(Into::into).map_err(|error| refused(key, &detail(error)))
}

fn refused(field: &str, detail: &str) -> Refusal {
    Refusal::new(StatusCode::BAD_REQUEST, "Invalid workspace search query.")
        .validations(&[Validation::new(field, detail)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_search_is_read_word_by_word_without_case() {
        let text = "fleet/Agent STATUS:running param:\"AI Prompt=Fix it\" include_agent_metadata:a,B";
        let terms = Search::parse(text).unwrap().terms;
        assert_eq!(
            terms,
            [
                Term::Owner("fleet".into()),
                Term::Name("agent".into()),
                Term::Status("running".into()),
                Term::Parameter { name: "ai prompt".into(), value: Some("fix it".into()) },
                Term::Metadata(vec!["a".into(), "b".into()]),
            ]
        );
    }
}
