//! Engines without a process: what they would run, and what the recorded output of the real ones means.

mod invocations;
mod recordings;

use std::path::{Path, PathBuf};

use fleet_mcp::domain::run::EngineOutput;
use fleet_mcp::engine::claude::Claude;
use fleet_mcp::engine::codex::{Codex, Sandbox};
use fleet_mcp::engine::template::Values;
use fleet_mcp::engine::{Request, Session};
use uuid::Uuid;

fn claude() -> Claude {
    Claude { program: PathBuf::from("/bin/claude") }
}

fn codex() -> Codex {
    Codex {
        program: PathBuf::from("/bin/codex"),
        home: PathBuf::from("/home/ann/.codex"),
        sandbox: Sandbox::Workspace,
    }
}

/// The least that can be asked of an engine.
fn request(session: Session) -> Request {
    Request {
        message: "Do it.".to_owned(),
        session,
        role: None,
        notes: None,
        settings: None,
        model: None,
        directory: Path::new("/w/repo").to_owned(),
        repository: None,
        fleet: None,
        max_cost_usd: None,
        is_review: false,
        output: EngineOutput::Parts,
        variables: Values::new(),
    }
}

fn fresh() -> Session {
    Session::Fresh { id: Uuid::from_u128(7) }
}
