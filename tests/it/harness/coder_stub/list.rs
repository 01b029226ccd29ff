//! `GET /workspaces`: the search query, its errors, paging and metadata inside the list.

use super::answers::{Answer, Reply, Validation};
use super::routes::Call;
use super::shapes;
use super::spec::Pace;
use super::state::{State, Workspace};
use serde_json::{Value, json};

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

/// Filters of a real server that would need more memory than the stub has.
const UNMODELLED: [&str; 5] = ["outdated", "dormant", "has-ai-task", "last_used_after", "last_used_before"];

pub(super) fn list(state: &mut State, call: &Call) -> Answer {
    let terms = parse(call.query("q").unwrap_or_default())?;
    let limit = page_number(call, "limit")?.filter(|limit| *limit > 0);
    let offset = page_number(call, "offset")?.unwrap_or_default();
    if state.pace == Pace::PerRead {
        state.workspaces.iter_mut().for_each(|workspace| _ = workspace.advance());
    }
    let mut found: Vec<&Workspace> =
        state.workspaces.iter().filter(|workspace| accepts(state, &terms, workspace)).collect();
    found.sort_by_cached_key(|workspace| {
        let running = workspace.latest().status == "running";
        (!running, workspace.owner.username.clone(), workspace.name.to_lowercase())
    });
    let keys = metadata_keys(&terms);
    let page = found.iter().skip(offset).take(limit.unwrap_or(usize::MAX));
    let rows: Vec<Value> = page.map(|workspace| row(state, workspace, &keys)).collect();
    Ok(Reply::json(200, json!({ "workspaces": rows, "count": found.len() })))
}

/// A `key:value` of the query, lower-cased as Coder does before it looks.
struct Term {
    key: String,
    value: String,
}

fn parse(query: &str) -> Result<Vec<Term>, Reply> {
    let mut terms = Vec::new();
    for word in words(&query.to_lowercase()) {
        let (key, value) = match word.split_once(':') {
            Some((key, value)) => (key.to_owned(), value.to_owned()),
            None => bare_word(&mut terms, &word),
        };
        terms.push(Term { key, value });
    }
    check(&terms)?;
    Ok(terms)
}

/// Splits at spaces outside of quotes, and drops the quotes.
fn words(query: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut quoted = false;
    for letter in query.chars() {
        match letter {
            '"' => quoted = !quoted,
            ' ' if !quoted => words.push(String::new()),
            other => words.last_mut().expect("there is always a last word").push(other),
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

/// `name`, or `owner/name`, which also adds an owner.
fn bare_word(terms: &mut Vec<Term>, word: &str) -> (String, String) {
    let Some((owner, name)) = word.split_once('/') else { return ("name".to_owned(), word.to_owned()) };
    terms.push(Term { key: "owner".to_owned(), value: owner.to_owned() });
    ("name".to_owned(), name.to_owned())
}

fn check(terms: &[Term]) -> Result<(), Reply> {
    for Term { key, value } in terms {
        if UNMODELLED.contains(&key.as_str()) {
            return Err(Reply::error(501, &format!("the stub does not know the filter {key}")));
        }
        let problem = match key.as_str() {
            "status" if !STATUSES.contains(&value.as_str()) => {
                format!("Query param \"status\" has invalid value: \"{value}\" is not a valid value")
            }
            "name" | "owner" | "template" | "status" => repeated(terms, key).unwrap_or_default(),
            "id" | "param" | "has-agent" | "healthy" | "include_agent_metadata" => String::new(),
            other => format!("\"{other}\" is not a valid query param"),
        };
        if !problem.is_empty() {
            let rows = [Validation::new(key, &problem)];
            return Err(Reply::error(400, "Invalid workspace search query.").validations(&rows));
        }
    }
    Ok(())
}

fn repeated(terms: &[Term], key: &str) -> Option<String> {
    let count = terms.iter().filter(|term| term.key == key).count();
    (count > 1).then(|| {
        format!(
            "Query param \"{key}\" provided more than once, found {count} times. \
             Only provide 1 instance of this query param."
        )
    })
}

fn accepts(state: &State, terms: &[Term], workspace: &Workspace) -> bool {
    let wants_deleted = terms.iter().any(|term| term.key == "status" && term.value == "deleted");
    workspace.deleted == wants_deleted && terms.iter().all(|term| fits(state, term, workspace))
}

fn fits(state: &State, term: &Term, workspace: &Workspace) -> bool {
    let value = term.value.as_str();
    let latest = workspace.latest();
    let agent = latest.agent.as_ref();
    match term.key.as_str() {
        "owner" => state.user(value).is_some_and(|user| user.id == workspace.owner.id),
        "template" => state.template(workspace.template_id).is_some_and(|template| template.name == value),
        "name" => workspace.name.to_lowercase().contains(value),
        "status" => latest.status == value,
        "id" => value.split(',').any(|id| id == workspace.id.to_string()),
        "param" => fits_param(value, &latest.values),
        "has-agent" => agent.is_some_and(|agent| agent.status == value),
        // A real server looks at the connection alone here, not at a failed startup script.
        "healthy" => {
            let connected = agent.is_none_or(|agent| agent.status == "connected");
            connected == (value == "true")
        }
        _ => true,
    }
}

fn fits_param(wanted: &str, values: &[(String, String)]) -> bool {
    let (wanted_name, wanted_value) = wanted.split_once('=').unwrap_or((wanted, ""));
    values.iter().any(|(name, value)| {
        name.to_lowercase() == wanted_name
            && (wanted_value.is_empty() || value.to_lowercase() == wanted_value)
    })
}

fn metadata_keys(terms: &[Term]) -> Vec<&str> {
    terms
        .iter()
        .filter(|term| term.key == "include_agent_metadata")
        .flat_map(|term| term.value.split(','))
        .collect()
}

fn row(state: &State, workspace: &Workspace, keys: &[&str]) -> Value {
    let mut row = shapes::workspace(state, workspace);
    let items: Vec<Value> = workspace
        .metadata
        .iter()
        .filter(|item| keys.contains(&item.key.to_lowercase().as_str()))
        .map(|item| shapes::agent_item(item, ""))
        .collect();
    if let Some(agent) = row.pointer_mut("/latest_build/resources/0/agents/0")
        && !items.is_empty()
    {
        agent["metadata"] = json!(items);
    }
    row
}

fn page_number(call: &Call, name: &str) -> Result<Option<usize>, Reply> {
    let Some(text) = call.query(name) else { return Ok(None) };
    let problem = match text.parse::<i64>() {
        Ok(number) => match usize::try_from(number) {
            Ok(number) => return Ok(Some(number)),
            Err(_) => "value is negative".to_owned(),
        },
        Err(_) => format!("strconv.ParseInt: parsing \"{text}\": invalid syntax"),
    };
    let detail = format!("Query param \"{name}\" must be a valid 32-bit positive integer: {problem}");
    Err(Reply::error(400, "Query parameters have invalid values.")
        .validations(&[Validation::new(name, &detail)]))
}
