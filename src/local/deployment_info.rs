//! The deployment's fixed data: its ids, its one user and organization, its address and its token.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use chrono::{DateTime, Utc};
use secrecy::SecretString;
use serde::{Deserialize, Serialize};
use url::Url;
use uuid::Uuid;

use super::enclosure::Level;
use super::files;
use super::id::named;
use super::token;
use super::{LocalError, LocalOptions};

/// The Coder release whose behaviour is embedded, marked as not that release itself.
pub(crate) const VERSION: &str = "v2.36.0-fleet-embedded";
pub(crate) const USERNAME: &str = "fleet";
pub(crate) const ORGANIZATION: &str = "coder";
/// The app at which an agent serves AgentAPI.
pub(crate) const APP_SLUG: &str = "ccw";
pub(crate) const AGENT_NAME: &str = "main";
const AGENTS: &str = "coder/agents";

#[derive(Debug)]
pub(crate) struct DeploymentInfo {
    pub(crate) deployment_id: Uuid,
    pub(crate) user_id: Uuid,
    pub(crate) organization_id: Uuid,
    pub(crate) created_at: DateTime<Utc>,
    pub(crate) url: Url,
    pub(crate) token: SecretString,
    pub(crate) token_hash: String,
}

/// The record of the deployment beside its workspaces; the file of an earlier version has further fields.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct DeploymentRecord {
    pub(crate) deployment_id: Uuid,
    pub(crate) created_at: DateTime<Utc>,
    /// Saved, since agents that outlive a killed server keep reporting to this port.
    pub(crate) port: Option<u16>,
    /// The best level ever reached. Agents are not started with less: an agent may have exhausted the needed
    /// resource.
    #[serde(default)]
    pub(crate) isolation: Level,
}

/// The paths of one data directory.
#[derive(Debug, Clone)]
pub(crate) struct Layout {
    root: PathBuf,
}

impl Layout {
    /// Makes missing directories; an unwritable one is refused here.
    pub(crate) fn make(root: &Path) -> Result<Self, LocalError> {
        let layout = Self { root: root.to_owned() };
        files::private_directory(root)?;
        files::private_directory(&layout.states())?;
        files::private_directory(&layout.agents())?;
        files::private_directory(&layout.workspaces())?;
        Ok(layout)
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    pub(crate) fn deployment_file(&self) -> PathBuf {
        self.root.join("coder/deployment.json")
    }

    pub(crate) fn states(&self) -> PathBuf {
        self.root.join("coder/workspaces")
    }

    pub(crate) fn state_file(&self, workspace: Uuid) -> PathBuf {
        self.states().join(format!("{workspace}.json"))
    }

    /// Server state of agents, out of reach of all agents.
    pub(crate) fn agents(&self) -> PathBuf {
        self.root.join(AGENTS)
    }

    pub(crate) fn workspaces(&self) -> PathBuf {
        self.root.join("workspaces")
    }

    pub(crate) fn workspace(&self, name: &str) -> PathBuf {
        self.workspaces().join(name)
    }

    fn token_file(&self) -> PathBuf {
        self.root.join("coder.token")
    }

    fn address_file(&self) -> PathBuf {
        self.root.join("coder.json")
    }

    /// Publishes the address of this Coder for other programs.
    pub(crate) fn announce(&self, url: &Url) -> Result<(), LocalError> {
        let address = serde_json::json!({ "url": url, "pid": std::process::id() });
        files::private_file(&self.address_file(), &address.to_string())
    }

    pub(crate) fn withdraw(&self) {
        if let Err(error) = std::fs::remove_file(self.address_file())
            && error.kind() != std::io::ErrorKind::NotFound
        {
            tracing::warn!(%error, "coder.json could not be removed");
        }
    }

    /// The token of an earlier start, or a new one.
    fn token(&self) -> Result<String, LocalError> {
        let path = self.token_file();
        match std::fs::read_to_string(&path) {
            Ok(text) if token::malformed(text.trim()).is_none() => Ok(text.trim().to_owned()),
            Ok(_) => Err(LocalError::StateFile { path, problem: "it contains no token".into() }),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                let token = token::generate();
                files::private_file(&path, &token)?;
                Ok(token)
            }
            Err(source) => Err(LocalError::Directory { path, source }),
        }
    }
}

impl DeploymentRecord {
    pub(crate) fn read(layout: &Layout) -> Result<Self, LocalError> {
        let known = files::read(&layout.deployment_file())?;
        Ok(known.unwrap_or_else(|| Self {
            deployment_id: Uuid::new_v4(),
            created_at: Utc::now(),
            port: None,
            isolation: Level::None,
        }))
    }
}

impl DeploymentInfo {
    pub(crate) fn new(
        layout: &Layout,
        record: &DeploymentRecord,
        bound: SocketAddr,
    ) -> Result<Self, LocalError> {
        let token = layout.token()?;
        let url = Url::parse(&format!("http://{bound}")).map_err(|error| LocalError::StateFile {
            path: layout.address_file(),
            problem: error.to_string(),
        })?;
        Ok(Self {
            deployment_id: record.deployment_id,
            user_id: named(record.deployment_id, "user"),
            organization_id: named(record.deployment_id, "organization"),
            created_at: record.created_at,
            url,
            token_hash: token::hash(&token),
            token: SecretString::from(token),
        })
    }

    pub(crate) fn port(&self) -> u16 {
        self.url.port_or_known_default().unwrap_or_default()
    }

    /// Coder accepts `me`, the name and the id.
    pub(crate) fn is_user(&self, text: &str) -> bool {
        text == "me" || text.eq_ignore_ascii_case(USERNAME) || text == self.user_id.to_string()
    }

    pub(crate) fn is_organization(&self, text: &str) -> bool {
        text.eq_ignore_ascii_case(ORGANIZATION) || text == self.organization_id.to_string()
    }
}

/// Whether no agent can replace this socket; agents of an earlier layout could. Compares the last part of the path
/// only, since the data directory may have had another name before.
pub(crate) fn is_out_of_reach(socket: &Path) -> bool {
    socket.ancestors().nth(2).is_some_and(|agents| agents.ends_with(AGENTS))
}

/// The ports to try: the requested one, else the previous one, else any.
pub(crate) fn ports(options: &LocalOptions, record: &DeploymentRecord) -> Vec<u16> {
    match options.port {
        0 => record.port.into_iter().chain([0]).collect(),
        port => vec![port],
    }
}
