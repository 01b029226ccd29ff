//! Moves a workspace through the states of a build, one step at a time.

use super::spec::Behaviour;
use super::state::{Agent, AppStatus, Build, LogLine, Transition, Workspace};
use chrono::Utc;
use std::collections::VecDeque;
use uuid::Uuid;

/// One observable change of a workspace.
#[derive(Clone)]
pub(super) enum Step {
    /// Nothing changes: what makes a slow build slow.
    Wait,
    JobRuns,
    JobSucceeds,
    JobFails,
    JobCanceled,
    AgentConnects,
    AgentReady,
    AgentStartError,
    AppHealthy,
    /// The start that a stop build's `on_success` asked for.
    FollowUpStarts,
}

/// What a new build is made from.
pub(super) struct BuildRequest {
    pub(super) transition: Transition,
    pub(super) version_id: Uuid,
    pub(super) preset_id: Option<Uuid>,
    pub(super) values: Vec<(String, String)>,
    pub(super) then_start: bool,
}

impl Workspace {
    /// Queues a build; agents of earlier builds are gone from here on.
    pub(super) fn push_build(&mut self, request: BuildRequest) {
        for build in &mut self.builds {
            build.agent = None;
        }
        self.script = script(&request, self.behaviour);
        self.builds.push(Build::queued(self.builds.len() + 1, request));
    }

    /// Takes the next step; false when there is none.
    pub(super) fn advance(&mut self) -> bool {
        let Some(step) = self.script.pop_front() else { return false };
        match step {
            Step::Wait => {}
            Step::JobRuns => self.latest_mut().run(),
            Step::JobSucceeds => self.succeed(),
            Step::JobFails => self.latest_mut().fail(),
            Step::JobCanceled => self.latest_mut().finish("canceled", "canceled"),
            Step::AgentConnects => self.agent_words("connected", "starting"),
            Step::AgentReady => self.agent_words("connected", "ready"),
            Step::AgentStartError => self.agent_words("connected", "start_error"),
            Step::AppHealthy => self.app_healthy(),
            Step::FollowUpStarts => self.follow_up(),
        }
        true
    }

    pub(super) fn settle(&mut self) {
        while self.advance() {}
    }

    /// Sets the agent's words and the times that go with them.
    pub(super) fn agent_words(&mut self, status: &str, lifecycle: &str) {
        let Some(agent) = &mut self.latest_mut().agent else { return };
        status.clone_into(&mut agent.status);
        lifecycle.clone_into(&mut agent.lifecycle);
        if status == "connected" {
            agent.connected_at.get_or_insert_with(Utc::now);
        }
        agent.disconnected_at = (status == "disconnected").then(Utc::now);
        if matches!(lifecycle, "ready" | "start_error") {
            agent.ready_at.get_or_insert_with(Utc::now);
        }
    }

    /// Records what an agent's app reports about itself.
    pub(super) fn report(&mut self, state: &str, message: &str) {
        let Some(agent) = &mut self.latest_mut().agent else { return };
        let status = AppStatus {
            id: Uuid::new_v4(),
            agent_id: agent.id,
            app_id: agent.app_id,
            created_at: Utc::now(),
            state: state.to_owned(),
            message: message.to_owned(),
        };
        agent.app_statuses.insert(0, status.clone());
        self.app_status = Some(status);
    }

    /// Ends the newest build early, as far as it got.
    pub(super) fn cancel(&mut self) {
        let build = self.latest_mut();
        build.canceled_at = Some(Utc::now());
        // A job that no provisioner took yet has nothing to wind down.
        if build.started_at.is_none() {
            build.finish("canceled", "canceled");
            self.script.clear();
            return;
        }
        "canceling".clone_into(&mut build.job_status);
        "canceling".clone_into(&mut build.status);
        self.script = VecDeque::from([Step::JobCanceled]);
    }

    fn succeed(&mut self) {
        let agentless = self.behaviour == Behaviour::Agentless;
        let build = self.latest_mut();
        match build.transition {
            Transition::Start => {
                build.finish("succeeded", "running");
                build.provisioned = true;
                build.agent = (!agentless).then(Agent::connecting);
            }
            Transition::Stop => build.finish("succeeded", "stopped"),
            Transition::Delete => {
                build.finish("succeeded", "deleted");
                self.deleted = true;
            }
        }
    }

    fn app_healthy(&mut self) {
        if let Some(agent) = &mut self.latest_mut().agent {
            agent.app_health = "healthy";
        }
    }

    fn follow_up(&mut self) {
        let request = self.latest().followed_by(Transition::Start);
        self.push_build(request);
    }
}

impl Build {
    pub(super) fn is_active(&self) -> bool {
        self.completed_at.is_none()
    }

    /// A build with the same version and parameters.
    pub(super) fn followed_by(&self, transition: Transition) -> BuildRequest {
        BuildRequest {
            transition,
            version_id: self.version_id,
            preset_id: self.preset_id,
            values: self.values.clone(),
            then_start: false,
        }
    }

    pub(super) fn finish(&mut self, job_status: &str, status: &str) {
        job_status.clone_into(&mut self.job_status);
        status.clone_into(&mut self.status);
        self.completed_at = Some(Utc::now());
    }

    fn queued(number: usize, request: BuildRequest) -> Self {
        Self {
            id: Uuid::new_v4(),
            job_id: Uuid::new_v4(),
            number,
            transition: request.transition,
            version_id: request.version_id,
            preset_id: request.preset_id,
            values: request.values,
            job_status: "pending".to_owned(),
            status: "pending".to_owned(),
            error: None,
            created_at: Utc::now(),
            started_at: None,
            completed_at: None,
            canceled_at: None,
            provisioned: false,
            agent: None,
            logs: Vec::new(),
        }
    }

    fn run(&mut self) {
        let status = match self.transition {
            Transition::Start => "starting",
            Transition::Stop => "stopping",
            Transition::Delete => "deleting",
        };
        "running".clone_into(&mut self.job_status);
        status.clone_into(&mut self.status);
        self.started_at = Some(Utc::now());
        self.log("info", "Setting up", "");
        self.log("info", "Initializing Terraform Directory", "Initializing the backend...");
    }

    fn fail(&mut self) {
        self.error = Some("terraform apply: exit status 1".to_owned());
        self.finish("failed", "failed");
        self.log("error", "Applying", "Error: local-exec provisioner error");
    }

    fn log(&mut self, level: &'static str, stage: &'static str, output: &str) {
        let id = self.number * 1000 + self.logs.len() + 1;
        self.logs.push(LogLine { id, created_at: Utc::now(), level, stage, output: output.to_owned() });
    }
}

impl Agent {
    fn connecting() -> Self {
        Self {
            id: Uuid::new_v4(),
            resource_id: Uuid::new_v4(),
            app_id: Uuid::new_v4(),
            status: "connecting".to_owned(),
            lifecycle: "created".to_owned(),
            app_health: "initializing",
            created_at: Utc::now(),
            connected_at: None,
            disconnected_at: None,
            ready_at: None,
            app_statuses: Vec::new(),
        }
    }
}

fn script(request: &BuildRequest, behaviour: Behaviour) -> VecDeque<Step> {
    match request.transition {
        Transition::Start => start_script(behaviour),
        Transition::Stop if request.then_start => {
            VecDeque::from([Step::JobRuns, Step::JobSucceeds, Step::FollowUpStarts])
        }
        Transition::Stop | Transition::Delete => VecDeque::from([Step::JobRuns, Step::JobSucceeds]),
    }
}

fn start_script(behaviour: Behaviour) -> VecDeque<Step> {
    let mut steps = VecDeque::from([Step::JobRuns]);
    let up = [Step::JobSucceeds, Step::AgentConnects, Step::AgentReady, Step::AppHealthy];
    match behaviour {
        Behaviour::Ready => steps.extend(up),
        Behaviour::BuildFails => steps.push_back(Step::JobFails),
        Behaviour::Agentless => steps.push_back(Step::JobSucceeds),
        Behaviour::StartError => {
            steps.extend([Step::JobSucceeds, Step::AgentConnects, Step::AgentStartError]);
        }
        Behaviour::Slow(extra) => {
            steps.extend(std::iter::repeat_n(Step::Wait, extra));
            steps.extend(up);
        }
    }
    steps
}
