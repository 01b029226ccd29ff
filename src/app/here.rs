//! The directory of the project `here`: the caller's, else the one in which the server was started.

use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use super::Fleet;
use super::caller::Caller;
use super::discovery::ProjectInfo;
use super::error::Error;
use crate::coder::wire::RichParameter;
use crate::domain::hosting::Hosting;
use crate::domain::name::name_key;
use crate::store::RequestKey;

/// The parameter with the directory for the embedded Coder; its default is the server's directory.
pub(super) const DIRECTORY: &str = "fleet_mcp_directory";

impl Caller {
    /// The caller's directory, if the caller may set one.
    fn supplied_directory(&self) -> Option<&Path> {
        self.directory.as_deref().filter(|_| self.principal.may_bring_directory())
    }

    /// The directory is part of a request's key, since the same arguments in another directory are another request.
    pub(super) fn key_in_directory(&self, key: RequestKey) -> RequestKey {
        let Some(result) = self.supplied_directory() else { return key };
        let result = result.as_os_str().as_encoded_bytes();
        let both = Sha256::new().chain_update(key.fingerprint).chain_update(result);
        RequestKey { fingerprint: both.finalize().into(), ..key }
    }
}

impl Fleet {
    /// The directory of a new agent; none if the project determines it.
    pub(super) async fn directory_for(
        &self,
        caller: &Caller,
        info: &ProjectInfo,
    ) -> Result<Option<String>, Error> {
        let Some(parameter) = self.directory_parameter(info) else { return Ok(None) };
        match caller.supplied_directory() {
            Some(result) => canonical(result).await.map(Some),
            None => Ok(self.directory_of(caller).or_else(|| default_of(parameter))),
        }
    }

    /// The directory for callers that send none.
    pub(super) fn default_directory(&self, info: &ProjectInfo) -> Option<String> {
        self.directory_parameter(info).and_then(default_of)
    }

    /// The directory parameter. A deployment's machines do not have the server's directories, and an operator's
    /// configured value takes precedence.
    fn directory_parameter<'a>(&self, info: &'a ProjectInfo) -> Option<&'a RichParameter> {
        if !self.has_directories() {
            return None;
        }
        let is_configured = info.project.parameters.keys().any(|key| name_key(key) == DIRECTORY);
        info.declared.parameters.iter().find(|parameter| parameter.name == DIRECTORY && !is_configured)
    }

    pub(super) fn has_directories(&self) -> bool {
        match self.hosting() {
            Hosting::Embedded(_) => true,
            Hosting::Deployment => false,
        }
    }

    /// An agent's new agents work on the same repository as the agent itself.
    fn directory_of(&self, caller: &Caller) -> Option<String> {
        self.board().now().by_id(caller.principal.agent?)?.agent.directory.clone()
    }
}

/// An agent gets a clone, so that a repository is required; whether it has a commit is left to git.
pub(super) async fn check_repository(directory: &str) -> Result<(), Error> {
    let path = PathBuf::from(directory);
    let looked = tokio::task::spawn_blocking(move || path.ancestors().any(is_repository)).await;
    if looked.unwrap_or(false) { Ok(()) } else { Err(Error::NoRepository(directory.to_owned())) }
}

/// Whether the folder is a repository: bare, with a `.git` directory, or with the `.git` file of a worktree.
fn is_repository(folder: &Path) -> bool {
    let is_data = |path: &Path| path.join("HEAD").exists() && path.join("objects").exists();
    let beside = folder.join(".git");
    beside.is_file() || is_data(&beside) || is_data(folder)
}

fn default_of(parameter: &RichParameter) -> Option<String> {
    Some(parameter.default_value.clone()).filter(|directory| !directory.is_empty())
}

/// The canonical path, so that one directory has one name.
async fn canonical(path: &Path) -> Result<String, Error> {
    let refusal = || Error::NoDirectory(path.display().to_string());
    if !path.is_absolute() {
        return Err(refusal());
    }
    let found = tokio::fs::canonicalize(path).await.map_err(|_| refusal())?;
    let is_directory = tokio::fs::metadata(&found).await.is_ok_and(|known| known.is_dir());
    let text = found.into_os_string().into_string().ok().filter(|_| is_directory);
    text.ok_or_else(refusal)
}
