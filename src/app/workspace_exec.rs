//! Runs commands in an agent's workspace, inside the project's container if there is one.

use std::time::Duration;

use tokio::time::timeout;
use uuid::Uuid;

use super::Fleet;
use super::error::Error;
use crate::coder::Client;
use crate::coder::exec::{Command, ExecError, Output};
use crate::domain::hosting::Hosting;
use crate::domain::limits::Limits;
use crate::domain::name::name_key;

/// Runs commands of one agent, in the right container.
#[derive(Debug)]
pub(in crate::app) struct WorkspaceExec<'a> {
    coder: &'a Client,
    workspace_agent: Uuid,
    container: Option<String>,
    pub(in crate::app) limits: &'a Limits,
}

/// Why there is no result of a command.
#[derive(Debug, thiserror::Error)]
pub(in crate::app) enum WorkspaceExecError {
    #[error("no response in time")]
    Late,
    #[error(transparent)]
    Exec(#[from] ExecError),
}

impl WorkspaceExec<'_> {
    /// Runs the command and returns its result within the limit, which includes the connection to a workspace that
    /// may not respond.
    pub(in crate::app) async fn exec(
        &self,
        command: Command,
        limit: Duration,
    ) -> Result<Output, WorkspaceExecError> {
        let command = Command { container: self.container.clone(), ..command };
        let result = timeout(limit, self.coder.exec(self.workspace_agent, &command)).await;
        Ok(result.map_err(|_| WorkspaceExecError::Late)??)
    }
}

impl Fleet {
    /// Commands in a workspace of this project.
    pub(in crate::app) fn workspace_exec(&self, workspace_agent: Uuid, project: &str) -> WorkspaceExec<'_> {
        WorkspaceExec {
            coder: self.coder(),
            workspace_agent,
            container: self.container_of(project),
            limits: self.limits(),
        }
    }

    /// The project's container; none in embedded workspaces, which have no containers.
    pub(in crate::app) fn container_of(&self, project: &str) -> Option<String> {
        match self.hosting() {
            Hosting::Deployment => self.container_wanted(project),
            Hosting::Embedded(_) => None,
        }
    }

    /// Refuses work that needs a container where there is none.
    pub(in crate::app) fn check_container(&self, project: &str) -> Result<(), Error> {
        match (self.hosting(), self.container_wanted(project)) {
            (Hosting::Embedded(_), Some(container)) => Err(Error::invalid(
                "project",
                format!(
                    "project '{project}' uses container '{container}', but the embedded Coder has no \
                    containers: remove 'container' from the project file, or use a Coder deployment"
                ),
            )),
            (Hosting::Deployment | Hosting::Embedded(_), _) => Ok(()),
        }
    }

    fn container_wanted(&self, project: &str) -> Option<String> {
        self.0.catalog.files().projects.get(&name_key(project))?.container.clone()
    }
}
