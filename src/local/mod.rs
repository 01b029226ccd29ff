//! The embedded Coder: a Coder server on loopback whose workspaces are directories and processes of this machine.

mod agent_files;
mod build;
mod cleanup;
mod collect;
mod deployment;
mod deployment_info;
pub mod enclosure;
mod environment;
mod error;
mod files;
mod follow;
mod http;
mod id;
mod inspect;
mod limits;
mod memory;
mod parameters;
mod probe;
pub mod proxy;
mod prune;
pub mod pty;
mod publish;
mod record;
mod recover;
mod shape;
mod shutdown;
mod socket;
mod template;
mod template_catalog;
mod token;
mod writer;

use std::net::{Ipv4Addr, SocketAddr};
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use axum::serve::ListenerExt;
use secrecy::SecretString;
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use url::Url;

use deployment::{Deployment, Parts};
use deployment_info::{DeploymentInfo, DeploymentRecord, Layout};
use enclosure::{Enclosure, Level};
pub use error::LocalError;
pub use inspect::Inspector;
pub use limits::LocalLimits;
use memory::Memory;
pub use template_catalog::{TemplateFiles, TemplateSources};
use writer::Writer;

use crate::domain::hosting::Isolation;
use crate::serve::{self, ConnectionLimits};

/// Options of an embedded Coder.
#[derive(Debug, Clone)]
pub struct LocalOptions {
    pub data_dir: PathBuf,
    /// 0 takes the previous port if it is free, else any.
    pub port: u16,
    /// How many builds run at a time.
    pub slots: NonZeroUsize,
    pub files: Arc<dyn TemplateFiles>,
    /// The directory of the project `here`.
    pub here: Option<PathBuf>,
    /// The engine of agents whose project names none.
    pub engine: String,
    /// Files that every agent gets in addition to its own.
    pub agent_files: Vec<AgentFile>,
    pub runner: RunnerCommand,
    /// Our own program, which encloses processes of workspaces.
    pub encloser: PathBuf,
    /// Directories that no workspace may see, in addition to the data directory.
    pub hidden: Vec<PathBuf>,
    /// The operator permits starting agents with less isolation than before.
    pub allows_less_isolation: bool,
    pub build_deadline: Duration,
    pub limits: LocalLimits,
}

/// A file that every agent gets as a copy, since its source may be hidden from agents.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentFile {
    pub name: &'static str,
    /// The variable that tells the agent's process the file's path.
    pub variable: &'static str,
    pub text: String,
}

/// The command that starts the agent process of a workspace.
#[derive(Debug, Clone)]
pub struct RunnerCommand {
    pub program: PathBuf,
    pub arguments: Vec<String>,
}

/// A running embedded Coder. It owns the data directory until it has stopped.
#[derive(Debug)]
pub struct LocalCoder {
    deployment: Arc<Deployment>,
    serving: TaskTracker,
    writing: TaskTracker,
    writer_closing: CancellationToken,
}

impl LocalCoder {
    /// Starts serving, finds processes that still run, and restarts what the last clean stop had stopped.
    pub async fn start(options: LocalOptions) -> Result<Self, LocalError> {
        let layout = Layout::make(&options.data_dir)?;
        let record = DeploymentRecord::read(&layout)?;
        let workspaces = files::read_all(&layout.states())?;
        build::adopt(&layout, &workspaces)?;
        build::sweep(&layout)?;
        let (listener, bound) = listen(&options, &record).await?;
        let info = DeploymentInfo::new(&layout, &record, bound)?;
        let writer_closing = CancellationToken::new();
        let (writer, writing_work) = Writer::new(writer_closing.clone());
        let writing = TaskTracker::new();
        writing.spawn(writing_work);
        let mut hidden = vec![layout.root().to_owned()];
        hidden.extend(options.hidden.iter().cloned());
        let floor = if options.allows_less_isolation { Level::None } else { record.isolation };
        let enclosure = Enclosure::probe(&options.encloser, hidden, floor).await;
        let memory = Memory::new(record, workspaces);
        let deployment = Deployment::new(Parts { options, layout, info, enclosure, memory, writer });
        let coder = Self { deployment, serving: TaskTracker::new(), writing, writer_closing };
        coder.serve(listener, bound).await?;
        Ok(coder)
    }

    pub fn url(&self) -> &Url {
        &self.deployment.info.url
    }

    pub fn token(&self) -> SecretString {
        self.deployment.info.token.clone()
    }

    /// How agents are kept from acting as this user.
    pub fn isolation(&self) -> &Isolation {
        &self.deployment.enclosure.isolation
    }

    /// Stops every running workspace, remembers them for the next start, and stops serving.
    pub async fn stop(self) {
        let deployment = &self.deployment;
        shutdown::shut_down(deployment).await;
        deployment.stop.cancel();
        deployment.ptys.close().await;
        deployment.apps.close().await;
        for tracker in [&self.serving, &deployment.tasks] {
            tracker.close();
            if tokio::time::timeout(deployment.options.limits.closing, tracker.wait()).await.is_err() {
                tracing::warn!("some requests to the embedded Coder did not end in time");
            }
        }
        // A request that was accepted before the stop may have launched a build since.
        deployment.builds.wait().await;
        self.writer_closing.cancel();
        self.writing.close();
        self.writing.wait().await;
        deployment.layout.withdraw();
    }

    async fn serve(&self, listener: TcpListener, bound: SocketAddr) -> Result<(), LocalError> {
        let deployment = &self.deployment;
        let saving = deployment.change_record(|record| {
            record.port = Some(bound.port());
            record.isolation = record.isolation.max(deployment.enclosure.level);
        });
        saving.done().await?;
        let router = http::router(Arc::clone(deployment));
        let listener = listener.tap_io(send_at_once);
        let stop = deployment.stop.clone();
        self.serving.spawn(serve::serve(listener, router, ConnectionLimits::of_process(), stop));
        recover::recover(deployment).await;
        prune::forget_deleted(deployment).await;
        deployment.tasks.spawn(collect::collect(Arc::clone(deployment)));
        deployment.tasks.spawn(publish::follow(Arc::clone(deployment)));
        deployment.tasks.spawn(template_catalog::follow(Arc::clone(deployment)));
        deployment.layout.announce(self.url())
    }
}

/// A terminal sends many small messages; batching would delay each by forty milliseconds.
fn send_at_once(connection: &mut TcpStream) {
    if let Err(error) = connection.set_nodelay(true) {
        tracing::debug!(%error, "a connection keeps its small packets delayed");
    }
}

async fn listen(
    options: &LocalOptions,
    record: &DeploymentRecord,
) -> Result<(TcpListener, SocketAddr), LocalError> {
    let mut refused = None;
    for port in deployment_info::ports(options, record) {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let bound = TcpListener::bind(address).await.and_then(|listener| {
            let bound = listener.local_addr()?;
            Ok((listener, bound))
        });
        match bound {
            Ok(bound) => return Ok(bound),
            Err(source) => refused = Some(LocalError::Listen { address, source }),
        }
    }
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, options.port));
    let source = std::io::Error::other("no port to try");
    Err(refused.unwrap_or(LocalError::Listen { address, source }))
}
