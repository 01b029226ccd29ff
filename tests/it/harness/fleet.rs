//! A running fleet on a Coder stub: what most tests of use cases start from.

use std::num::{NonZeroU32, NonZeroUsize};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use chrono::TimeDelta;
use fleet_mcp::app::agents::{ChangeAgent, CreateAgent, DeleteAgent, ListAgents, Mutation, UnpushedWork};
use fleet_mcp::app::caller::{Caller, Surface};
use fleet_mcp::app::catalog::{Catalog, CatalogDirs};
use fleet_mcp::app::doctor::Inspection;
use fleet_mcp::app::engines::EngineOptions;
use fleet_mcp::app::error::Error;
use fleet_mcp::app::snapshot::AgentState;
use fleet_mcp::app::squads::SquadOptions;
use fleet_mcp::app::{Fleet, FleetOptions};
use fleet_mcp::coder::exec::ExecLimits;
use fleet_mcp::coder::{Client, ClientOptions, RetryPolicy, TokenOrigin};
use fleet_mcp::domain::access::{AllowedProjects, Principal};
use fleet_mcp::domain::agent::AgentStatus;
use fleet_mcp::domain::budget::Budget;
use fleet_mcp::domain::hosting::{Hosting, Isolation};
use fleet_mcp::domain::limits::Limits;
use fleet_mcp::domain::name::AgentName;
use fleet_mcp::domain::page::PageRequest;
use fleet_mcp::domain::role::RoleKind;
use fleet_mcp::domain::spec::Spec;
use fleet_mcp::domain::squad::StateMode;
use fleet_mcp::domain::task::TaskState;
use fleet_mcp::engine::EngineWord;
use fleet_mcp::engine::commands::CommandEngines;
use fleet_mcp::engine::template::Values;
use fleet_mcp::store::{Store, StoreOptions};
use secrecy::SecretString;
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::{CoderStub, Pace, ParamSpec, TemplateSpec, eventually};

/// A fleet that runs until it is dropped or stopped; its store outlives a stop.
pub(crate) struct RunningFleet {
    pub(crate) fleet: Fleet,
    pub(crate) store: Store,
    pub(crate) directory: Arc<TempDir>,
    pub(crate) stop: CancellationToken,
    pub(crate) tasks: TaskTracker,
}

/// A stub with the two usual projects and a fleet that has seen it.
pub(crate) struct Scene {
    pub(crate) coder: CoderStub,
    pub(crate) running: RunningFleet,
}

impl Scene {
    pub(crate) async fn new(pace: Pace) -> Self {
        let coder = stub(pace).await;
        let running = RunningFleet::start(coder.url(), &coder.token()).await.seen().await;
        Self { coder, running }
    }
}

/// A stub that serves the templates of the projects `setup` and `dataone`.
pub(crate) async fn stub(pace: Pace) -> CoderStub {
    let coder = CoderStub::start(pace).await;
    coder.template_add(template("setup"));
    coder.template_add(template("dataone"));
    coder
}

/// A template that declares what an agent's template usually does.
pub(crate) fn template(name: &str) -> TemplateSpec {
    TemplateSpec::new(name)
        .param(ParamSpec::text("AI Prompt").default(""))
        .param(ParamSpec::text("system_prompt").default(""))
        .param(ParamSpec::text("fleet_mcp_agent_name").default(""))
        .param(ParamSpec::text("fleet_mcp_role").default(""))
        .preset("coder", &[])
        .preset("reviewer", &[("system_prompt", "Review strictly.")])
}

impl RunningFleet {
    /// On a fresh store.
    pub(crate) async fn start(coder_url: &str, token: &str) -> Self {
        let directory = Arc::new(tempfile::tempdir().unwrap());
        Self::start_in(directory, coder_url, token).await
    }

    /// On the store of an earlier one, as after a restart.
    pub(crate) async fn start_in(directory: Arc<TempDir>, coder_url: &str, token: &str) -> Self {
        Self::start_with(directory, client(coder_url, token), fleet_options()).await
    }

    /// On a fresh store, with project files of its own.
    pub(crate) async fn start_with_projects(
        at: (&str, &str),
        projects: PathBuf,
        options: FleetOptions,
    ) -> Self {
        let files = CatalogDirs { projects: vec![projects], ..CatalogDirs::default() };
        Self::start_with_files(at, files, options).await
    }

    /// On a fresh store, with files of its own.
    pub(crate) async fn start_with_files(
        (coder_url, token): (&str, &str),
        files: CatalogDirs,
        options: FleetOptions,
    ) -> Self {
        let directory = Arc::new(tempfile::tempdir().unwrap());
        Self::open(directory, client(coder_url, token), options, Catalog::open(files)).await
    }

    /// On the embedded Coder as `up` runs it, with project files of its own.
    pub(crate) async fn start_embedded(
        directory: Arc<TempDir>,
        (coder_url, token): (&str, &str),
        projects: PathBuf,
    ) -> Self {
        let catalog = Catalog::open(CatalogDirs { projects: vec![projects], ..CatalogDirs::default() });
        let options = FleetOptions { hosting: Hosting::Embedded(Isolation::Enforced), ..fleet_options() };
        Self::open(directory, client(coder_url, token), options, catalog).await
    }

    pub(crate) async fn start_with(directory: Arc<TempDir>, coder: Client, options: FleetOptions) -> Self {
        Self::open(directory, coder, options, Catalog::open(CatalogDirs::default())).await
    }

    pub(crate) async fn open(
        directory: Arc<TempDir>,
        coder: Client,
        options: FleetOptions,
        catalog: Catalog,
    ) -> Self {
        let paths = StoreOptions {
            path: directory.path().join("fleet.db"),
            backups: directory.path().join("backups"),
        };
        let store = Store::open(&paths).await.unwrap();
        let options = FleetOptions { rescue_dir: directory.path().join("rescued"), ..options };
        let fleet = Fleet::open(store.clone(), coder, catalog, options).await.unwrap();
        let (stop, tasks) = (fleet.stop_token(), TaskTracker::new());
        fleet.start(&tasks);
        Self { fleet, store, directory, stop, tasks }
    }

    /// Waits until the fleet has seen Coder once.
    pub(crate) async fn seen(self) -> Self {
        eventually("the fleet has seen Coder", async || self.fleet.board().now().observed_at.is_some()).await;
        self
    }

    /// Stops as a clean shutdown does; the directory can be started again.
    pub(crate) async fn stop(self) -> Arc<TempDir> {
        self.stop.cancel();
        self.tasks.close();
        self.tasks.wait().await;
        self.store.close().await;
        self.directory
    }

    pub(crate) async fn create(&self, name: &str) -> Result<Mutation, Error> {
        self.fleet.agent_create(&operator(), create_command(name)).await
    }

    pub(crate) async fn start_agent(&self, name: &str) -> Result<Mutation, Error> {
        self.fleet.agent_start(&operator(), change_command(name)).await
    }

    pub(crate) async fn stop_agent(&self, name: &str) -> Result<Mutation, Error> {
        self.fleet.agent_stop(&operator(), change_command(name)).await
    }

    pub(crate) async fn restart_agent(&self, name: &str) -> Result<Mutation, Error> {
        self.fleet.agent_restart(&operator(), change_command(name)).await
    }

    pub(crate) async fn delete(&self, name: &str) -> Result<(), Error> {
        let request = DeleteAgent {
            name: name.to_owned(),
            work: UnpushedWork::Keep,
            request: None,
            wait: Duration::ZERO,
        };
        self.fleet.agent_delete(&operator(), request).await.map(drop)
    }

    pub(crate) async fn show(&self, name: &str) -> Result<Arc<AgentState>, Error> {
        self.fleet.agent_show(&operator(), name).await
    }

    pub(crate) fn status(&self, name: &str) -> Option<AgentStatus> {
        self.fleet.board().now().by_name(name).map(|state| state.agent.sighting.status)
    }

    pub(crate) async fn becomes(&self, name: &str, status: AgentStatus) {
        let mut changes = self.fleet.board().changes();
        let wanted = async {
            while self.status(name) != Some(status) {
                changes.changed().await.unwrap();
            }
        };
        let found = tokio::time::timeout(Duration::from_secs(30), wanted).await;
        assert!(found.is_ok(), "agent {name} is {:?}, not {status}", self.status(name));
    }

    /// Waits until the agent is idle and has nothing left to do.
    pub(crate) async fn rests(&self, name: &str) {
        eventually("the agent rests", async || {
            let snapshot = self.fleet.board().now();
            let state = snapshot.by_name(name);
            state.is_some_and(|s| s.agent.sighting.status == AgentStatus::Idle && s.tasks.open.is_none())
        })
        .await;
    }

    /// Waits until the agent has taken its task.
    pub(crate) async fn works(&self, name: &str) {
        eventually("the agent works", async || {
            let snapshot = self.fleet.board().now();
            let task = snapshot.by_name(name).and_then(|state| state.tasks.open.clone());
            task.is_some_and(|task| task.state() == TaskState::Working)
        })
        .await;
    }

    pub(crate) async fn is_gone(&self, name: &str) {
        eventually("the agent is gone", async || self.status(name).is_none()).await;
    }
}

pub(crate) fn client(url: &str, token: &str) -> Client {
    Client::new(ClientOptions {
        url: url.parse().unwrap(),
        token: SecretString::from(token.to_owned()),
        token_origin: TokenOrigin::Environment,
        timeout: Duration::from_secs(10),
        requests_per_minute: NonZeroU32::new(60_000).unwrap(),
        retry: RetryPolicy {
            attempts: NonZeroU32::new(3).unwrap(),
            base_delay: Duration::from_millis(10),
            max_delay: Duration::from_millis(50),
        },
        // Processes that ignore TERM are killed soon.
        exec: ExecLimits { terminate: Duration::from_secs(1), ..ExecLimits::NORMAL },
    })
    .unwrap()
}

pub(crate) fn fleet_options() -> FleetOptions {
    FleetOptions {
        poll_interval: Duration::from_millis(100),
        parallel_builds: NonZeroUsize::new(8).unwrap(),
        stuck_after: TimeDelta::minutes(30),
        limits: Limits::NORMAL,
        build_timeout: Duration::from_secs(60),
        public_url: None,
        callback_url: None,
        budget: Budget::default(),
        rescue_dir: PathBuf::new(),
        hosting: Hosting::Deployment,
        engine: EngineOptions {
            word: EngineWord::Auto,
            own_program: PathBuf::from(env!("CARGO_BIN_EXE_fleet-mcp")),
            path: std::env::var_os("PATH").unwrap_or_default(),
            commands: CommandEngines::new(None, &Values::new()).unwrap(),
        },
        squads: squad_options(),
        inspection: Inspection::default(),
    }
}

/// For tests of what happens when a duration is over: they are a tenth as long.
pub(crate) fn hurried_options() -> FleetOptions {
    let limits = Limits {
        // Commands in a workspace take as long as the machine needs.
        workspace_command: Limits::NORMAL.workspace_command,
        workspace_answer: Limits::NORMAL.workspace_answer,
        evidence_command: Limits::NORMAL.evidence_command,
        evidence_answer: Limits::NORMAL.evidence_answer,
        evidence: Limits::NORMAL.evidence,
        ..Limits::NORMAL.divided_by(10)
    };
    FleetOptions { limits, ..fleet_options() }
}

/// For tests of the steps that end a task: no loaded machine needs as long for any of them.
pub(crate) fn patient_options() -> FleetOptions {
    let limits = Limits {
        silence: TimeDelta::minutes(10),
        interrupt: TimeDelta::minutes(2),
        signal: TimeDelta::minutes(2),
        signal_command: Duration::from_secs(60),
        cancel_answer: Duration::from_secs(300),
        rest: Duration::from_secs(60),
        evidence_command: Duration::from_secs(60),
        evidence_answer: Duration::from_secs(60),
        ..Limits::NORMAL
    };
    FleetOptions { limits, ..fleet_options() }
}

/// The same for a runner that is frozen: the signals follow soon, since no interruption can reach it.
pub(crate) fn frozen_runner_options() -> FleetOptions {
    let mut options = patient_options();
    options.limits.interrupt = TimeDelta::seconds(1);
    options.limits.app_interrupt = Duration::from_secs(1);
    options.limits.app_request = Duration::from_secs(1);
    options
}

/// One at a time is up to a test; nothing is configured.
fn squad_options() -> SquadOptions {
    SquadOptions {
        state_mode: StateMode::Stateless,
        execution_mode: None,
        delay: Duration::ZERO,
        timeout: Duration::from_secs(60),
        model: None,
        runs_project: Some("setup".to_owned()),
        longest_wait: None,
    }
}

pub(crate) fn operator() -> Caller {
    caller(RoleKind::Operator, "operator")
}

pub(crate) fn caller(kind: RoleKind, name: &str) -> Caller {
    let principal = Principal {
        kind,
        name: name.to_owned(),
        role: None,
        token_id: None,
        agent: None,
        projects: AllowedProjects::All,
    };
    Caller { principal, surface: Surface::Rest, directory: None }
}

pub(crate) fn create_command(name: &str) -> CreateAgent {
    CreateAgent {
        project: "setup".to_owned(),
        spec: Spec::parse("## Objective\nFix the login bug").unwrap(),
        name: Some(AgentName::parse(name).unwrap()),
        role: None,
        pull_request_url: None,
        request: None,
        wait: Duration::ZERO,
    }
}

pub(crate) fn change_command(name: &str) -> ChangeAgent {
    ChangeAgent { name: name.to_owned(), request: None, wait: Duration::ZERO }
}

pub(crate) fn list_all() -> ListAgents {
    ListAgents {
        statuses: None,
        project: None,
        role: None,
        page: PageRequest::parse(1, 100).unwrap(),
        include_runs: false,
    }
}
