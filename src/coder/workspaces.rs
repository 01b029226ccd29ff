//! Calls about workspaces: create, list and read.

use serde::Deserialize;
use serde_json::Value;
use uuid::Uuid;

use super::operation::{WORKSPACE, WORKSPACE_BY_NAME, WORKSPACE_CREATE, WORKSPACES};
use super::request::Request;
use super::wire::{CreateWorkspace, Workspace};
use super::{Client, CoderError};

/// A query for workspaces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkspaceQuery {
    /// Coder's own filter language, such as `owner:me status:running`.
    pub q: String,
    pub limit: u32,
    pub offset: u32,
    /// Agent metadata to include; unknown keys are silently absent.
    pub metadata_keys: Vec<String>,
}

/// A part of a list. A limit of zero means everything to Coder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Page {
    pub limit: u32,
    pub offset: u32,
}

/// One page of workspaces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkspacePage {
    pub workspaces: Vec<Workspace>,
    pub undecodable: Vec<Undecodable>,
    /// All matches, including those that the token may not read: never use it to end paging.
    pub count: u64,
}

/// A workspace that could not be decoded; the rest of its page stays usable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Undecodable {
    pub id: Option<Uuid>,
    pub name: Option<String>,
    pub error: String,
}

/// Whether deleted workspaces are included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Deleted {
    Include,
    Exclude,
}

impl Client {
    /// Creates a workspace for the token's user. Coder has no idempotency key: after an unclear outcome look the
    /// name up before a retry.
    pub async fn workspace_create(
        &self,
        organization: Uuid,
        workspace: &CreateWorkspace,
    ) -> Result<Workspace, CoderError> {
        self.call(Request::new(&WORKSPACE_CREATE, &[&organization]).json(workspace)?).await
    }

    pub async fn workspaces(&self, query: &WorkspaceQuery) -> Result<WorkspacePage, CoderError> {
        let page = Page { limit: query.limit, offset: query.offset };
        let request = page.apply_to(Request::new(&WORKSPACES, &[]).query("q", query.terms()));
        let page: WirePage = self.call(request).await?;
        Ok(page.decoded())
    }

    pub async fn workspace(&self, workspace: Uuid, deleted: Deleted) -> Result<Workspace, CoderError> {
        self.call(deleted.apply_to(Request::new(&WORKSPACE, &[&workspace]))).await
    }

    /// `owner` is a user name or `me`; the workspace's name is case-insensitive.
    pub async fn workspace_by_name(
        &self,
        owner: &str,
        name: &str,
        deleted: Deleted,
    ) -> Result<Workspace, CoderError> {
        self.call(deleted.apply_to(Request::new(&WORKSPACE_BY_NAME, &[&owner, &name]))).await
    }
}

impl WorkspaceQuery {
    /// The filter with one term for all requested metadata keys.
    fn terms(&self) -> String {
        let keys = (!self.metadata_keys.is_empty())
            .then(|| format!("include_agent_metadata:{}", self.metadata_keys.join(",")));
        let given = (!self.q.is_empty()).then(|| self.q.clone());
        given.into_iter().chain(keys).collect::<Vec<_>>().join(" ")
    }
}

impl Page {
    pub(super) fn apply_to(self, request: Request) -> Request {
        request.query("limit", self.limit).query("offset", self.offset)
    }
}

impl Deleted {
    fn apply_to(self, request: Request) -> Request {
        match self {
            Self::Include => request.query("include_deleted", "true"),
            Self::Exclude => request,
        }
    }
}

/// A page before its workspaces are decoded one by one.
#[derive(Debug, Deserialize)]
struct WirePage {
    workspaces: Option<Vec<Value>>,
    #[serde(default)]
    count: u64,
}

impl WirePage {
    fn decoded(self) -> WorkspacePage {
        let mut page = WorkspacePage { workspaces: Vec::new(), undecodable: Vec::new(), count: self.count };
        for value in self.workspaces.unwrap_or_default() {
            match serde_path_to_error::deserialize(&value) {
                Ok(workspace) => page.workspaces.push(workspace),
                Err(error) => page.undecodable.push(Undecodable::new(&value, &error.to_string())),
            }
        }
        page
    }
}

impl Undecodable {
    fn new(value: &Value, error: &str) -> Self {
        let text = |key| value.get(key).and_then(Value::as_str);
        Self {
            id: text("id").and_then(|id| id.parse().ok()),
            name: text("name").map(str::to_owned),
            error: error.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::WorkspaceQuery;

    fn terms(q: &str, keys: &[&str]) -> String {
        let metadata_keys = keys.iter().map(|&key| key.to_owned()).collect();
        WorkspaceQuery { q: q.to_owned(), limit: 0, offset: 0, metadata_keys }.terms()
    }

    #[test]
    fn metadata_keys_become_a_term_of_the_filter() {
        assert_eq!(terms("", &[]), "");
        assert_eq!(terms("owner:me", &[]), "owner:me");
        assert_eq!(terms("", &["a"]), "include_agent_metadata:a");
        assert_eq!(terms("owner:me", &["a", "b"]), "owner:me include_agent_metadata:a,b");
    }
}
