//! The inside of an agent's workspace: where its project's people work, which may be a container in it.

use uuid::Uuid;

use super::Fleet;
use super::error::Error;
use crate::coder::Client;
use crate::coder::exec::{Command, ExecError, Output};
use crate::domain::hosting::Hosting;
use crate::domain::name::name_key;

/// Where commands for an agent go; nobody has to remember the container.
#[derive(Debug)]
pub(in crate::app) struct WorkspaceExec<'a> {
    coder: &'a Client,
    workspace_agent: Uuid,
    container: Option<String>,
}

impl WorkspaceExec<'_> {
    pub(in crate::app) async fn exec(&self, command: Command) -> Result<Output, ExecError> {
        let command = Command { container: self.container.clone(), ..command };
        self.coder.exec(self.workspace_agent, &command).await
    }
}

impl Fleet {
    /// The inside of a workspace of this project.
    pub(in crate::app) fn workspace_exec(&self, workspace_agent: Uuid, project: &str) -> WorkspaceExec<'_> {
        WorkspaceExec { coder: self.coder(), workspace_agent, container: self.container_of(project) }
    }

    /// Runs go where the project's people work. On this machine nothing is in a container, whatever was asked for.
    pub(in crate::app) fn container_of(&self, project: &str) -> Option<String> {
        match self.hosting() {
            Hosting::Deployment => self.container_wanted(project),
            Hosting::Embedded(_) => None,
        }
    }

    /// Work that belongs into a container is not begun where there is none.
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
