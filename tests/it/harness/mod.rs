//! What tests share: a stateful Coder stub, a fault proxy, recorded replies and ways to wait.
//!
//! ```ignore
//! let coder = CoderStub::start(Pace::Instant).await;
//! let proxy = FaultProxy::start(coder.url()).await;
//! proxy.fault(Rule { matches: Matches::call("POST", "/**"), when: When::Nth(1), kind: ProxyFault::CutAfter });
//! ```

mod api;
mod capture;
mod clis;
mod coder_stub;
mod crew;
mod eventually;
mod fault_proxy;
mod fixtures;
mod fleet;
mod live;
mod local;
mod long;
mod model;
mod path;
mod process;
mod rule;
mod script;
mod skipped;
mod up;
mod user;
mod watched;

pub(crate) use api::{Api, CREATE, Reply, read};
pub(crate) use capture::Capture;
pub(crate) use clis::{RealCli, real_cli};
pub(crate) use coder_stub::{
    AgentScript, AppRequest, Behaviour, CoderStub, Fault, Pace, ParamSpec, TemplateSpec, WorkspaceSummary,
};
pub(crate) use crew::{Crew, taken_in};
pub(crate) use eventually::{eventually, eventually_within};
pub(crate) use fault_proxy::{FalseAnswer, FaultProxy, ProxyCounts, ProxyFault};
pub(crate) use fixtures::fixture;
pub(crate) use fleet::{
    RunningFleet, Scene, caller, change_command, client, create_command, fleet_options,
    frozen_runner_options, hurried_options, list_all, operator, patient_options, stub, template,
};
pub(crate) use live::{Live, live};
pub(crate) use local::{
    LocalSite, RunningLocal, TEMPLATE, all_processes_under, is_over, is_ready, kill, parent, processes_under,
    project, runners_under, trusted_directory,
};
pub(crate) use long::{moments, rounds};
pub(crate) use model::{ModelEndpoint, Turn, json_in};
#[cfg(feature = "test-hooks")]
pub(crate) use process::ServerProcess;
pub(crate) use process::{Program, TENTH, exit_code, send, server_file, tenth};
pub(crate) use rule::{Matches, Rule, When, scatter};
pub(crate) use script::script;
pub(crate) use skipped::skipped;
pub(crate) use up::{Up, error_of, mcp_answer, mcp_request};
pub(crate) use user::{User, as_each_user};
pub(crate) use watched::watched;
