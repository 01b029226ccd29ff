//! Checks of the running server, each with a finding and a remedy.

mod host;
mod invariants;
mod secrets;

use std::sync::Arc;

use super::Fleet;
use super::caller::{AuditedCall, Caller};
use super::error::Error;
use super::snapshot::AgentState;
use crate::domain::access::{Action, Target};
use crate::domain::hosting::{Hosting, Isolation};
use crate::domain::provision::Callback;
use crate::git;

pub use host::{HostInspection, Inspection};

/// The result of a check; a remedy means that the check failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Check {
    pub name: &'static str,
    pub finding: String,
    pub remedy: Option<String>,
}

impl Fleet {
    pub async fn doctor(&self, caller: &Caller) -> Result<Vec<Check>, Error> {
        let call = AuditedCall { caller, action: Action::Doctor, target: None };
        self.permit(&call, Target::Fleet).await?;
        let mut checks = vec![
            self.check_store().await,
            self.check_coder(),
            self.check_catalog(),
            self.check_operations().await,
            self.check_identities(),
        ];
        checks.extend(git_check(self.hosting()).await);
        checks.extend(isolation(self.hosting()));
        checks.extend(self.check_invariants().await);
        Ok(checks)
    }

    async fn check_store(&self) -> Check {
        let answers = self.store().ping().await.and_then(|()| self.store().room_for_new_work());
        let (finding, remedy) = match answers {
            Ok(()) => ("the database responds".to_owned(), None),
            Err(error) => {
                (error.to_string(), Some("Free disk space and check the data directory's permissions."))
            }
        };
        Check { name: "store", finding, remedy: remedy.map(str::to_owned) }
    }

    fn check_coder(&self) -> Check {
        let health = self.health().now();
        let version = health.version.unwrap_or_else(|| "of unknown version".into());
        if let Some(refused) = health.refused {
            let remedy = Some(refused.remedy().to_owned());
            return Check { name: "coder", finding: refused.to_string(), remedy };
        }
        let (finding, remedy) = match health.error {
            None if health.last_ok_at.is_some() => (format!("Coder {version} responds"), None),
            None => ("Coder has not been polled yet".to_owned(), Some("Wait a second and run doctor again.")),
            Some(error) => (error, Some("Check that CODER_URL is correct and that Coder is running.")),
        };
        Check { name: "coder", finding, remedy: remedy.map(str::to_owned) }
    }

    fn check_catalog(&self) -> Check {
        let files = self.0.catalog.files();
        match files.problems().next() {
            None => {
                let finding = format!("{} roles, {} project files", files.roles.len(), files.projects.len());
                Check { name: "files", finding, remedy: None }
            }
            Some(problem) => {
                let remedy =
                    Some("Correct the file; the server reads it again within 30 seconds.".to_owned());
                Check { name: "files", finding: problem.clone(), remedy }
            }
        }
    }

    /// Whether the running agents can call the fleet.
    fn check_identities(&self) -> Check {
        let snapshot = self.board().now();
        let running = snapshot.agents.values().filter(|state| state.agent.sighting.status.is_ready());
        let running: Vec<_> = running.filter(|state| !state.has_no_workspace_agent()).collect();
        let n_direct = running.iter().filter(|state| state.callback() == Some(Callback::Direct)).count();
        let named =
            |state: &Arc<AgentState>| Some(format!("{}: {}", state.agent.name, state.callback_reason()?));
        let troubled: Vec<String> = running.iter().copied().filter_map(named).collect();
        let Some(first) = troubled.first() else {
            let finding = format!("{n_direct} of {} running agents can call the fleet", running.len());
            return Check { name: "callbacks", finding, remedy: None };
        };
        let finding =
            format!("{} of {} running agents cannot call the fleet; {first}", troubled.len(), running.len());
        let remedy = "Correct the cause named there; the server retries by itself, and at once when the agent \
            is restarted.";
        Check { name: "callbacks", finding, remedy: Some(remedy.to_owned()) }
    }

    async fn check_operations(&self) -> Check {
        match self.store().operations_open().await {
            Ok(open) => {
                Check { name: "operations", finding: format!("{} in progress", open.len()), remedy: None }
            }
            Err(error) => {
                let remedy = Some("Check the data directory's disk.".to_owned());
                Check { name: "operations", finding: error.to_string(), remedy }
            }
        }
    }
}

/// Embedded workspaces are created with the git on the server's PATH, not on the client's.
async fn git_check(hosting: &Hosting) -> Option<Check> {
    match hosting {
        Hosting::Deployment => return None,
        Hosting::Embedded(_) => {}
    }
    let (finding, remedy) = match git::version().await {
        Some(version) => (version, None),
        None => (
            "the server found no working git".to_owned(),
            Some(
                "Install git in a directory on the server's PATH, or restart the server with another PATH."
                    .to_owned(),
            ),
        ),
    };
    Some(Check { name: "git", finding, remedy })
}

/// Embedded agents run as the server's user: the operator must know what they can reach.
fn isolation(hosting: &Hosting) -> Option<Check> {
    let (finding, remedy) = match hosting {
        Hosting::Deployment => return None,
        Hosting::Embedded(Isolation::Enforced) => {
            ("agents can reach your files, but not the fleet's data or each other's work".to_owned(), None)
        }
        Hosting::Embedded(Isolation::SharedProcesses { reason }) => (
            format!(
                "agents cannot reach the fleet's data, but they can signal this server and each other, and \
                a detached process can survive a stop: {reason}"
            ),
            Some("Allow PID namespaces with a /proc of their own for this program.".to_owned()),
        ),
        Hosting::Embedded(Isolation::Absent { reason }) => (
            format!("agents are not isolated and can act as you, including in your repositories: {reason}"),
            Some("Allow user namespaces for this program, or run agents on a Coder deployment.".to_owned()),
        ),
        Hosting::Embedded(Isolation::Withheld { reason }) => (
            format!(
                "agents were isolated before, but the server could not isolate them at this start, so \
                it starts no agent: {reason}"
            ),
            Some(
                "Allow namespaces for this program again, or set FLEET_ALLOW_LESS_ISOLATION=true and \
                restart the server to start agents with less isolation."
                    .to_owned(),
            ),
        ),
    };
    Some(Check { name: "isolation", finding, remedy })
}
