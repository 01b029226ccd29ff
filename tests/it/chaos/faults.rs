//! The killer: SIGKILL to server, runners and engines at random moments, and now and then a clean stop.

use std::collections::BTreeMap;
use std::process::Stdio;
use std::time::Duration;

use rand::RngExt;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rustix::process::{Pid, Signal, kill_process};

use super::processes::{Kind, lasting, processes};
use super::world::World;
use crate::harness::{Up, kill};

/// A clean stop takes 25 s at most; the rest is for a busy machine.
const STOP_LIMIT: Duration = Duration::from_secs(40);

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Fault {
    KillServer,
    /// Kill it, and its successor before that one serves.
    KillServerTwice,
    StopServer,
    KillRunner,
    KillEngine,
    KillServerAndRunner,
}

const FAULTS: [Fault; 12] = [
    Fault::KillServer,
    Fault::KillServer,
    Fault::KillServer,
    Fault::KillServer,
    Fault::KillServerTwice,
    Fault::StopServer,
    Fault::KillRunner,
    Fault::KillRunner,
    Fault::KillEngine,
    Fault::KillEngine,
    Fault::KillEngine,
    Fault::KillServerAndRunner,
];

/// How often each kind of process was killed, and what a clean stop left behind.
#[derive(Debug, Clone, Default)]
pub(super) struct FaultCounts {
    pub(super) kills: BTreeMap<&'static str, usize>,
    pub(super) complaints: Vec<String>,
}

impl FaultCounts {
    fn count(&mut self, what: &'static str, n: usize) {
        *self.kills.entry(what).or_default() += n;
    }
}

/// One fault; the server that is given back serves.
pub(super) async fn inject(world: &World, up: Up, rng: &mut StdRng, counts: &mut FaultCounts) -> Up {
    let fault = *FAULTS.choose(rng).unwrap();
    let gap = Duration::from_millis(rng.random_range(0..400));
    match fault {
        Fault::KillRunner => {
            counts.count("runner", kill_one(world, Kind::Runner, rng).await);
            up
        }
        Fault::KillEngine => {
            counts.count("engine", kill_one(world, Kind::Engine, rng).await);
            up
        }
        Fault::StopServer => {
            world.is_down();
            stop(world, up, counts).await;
            restart(world).await
        }
        Fault::KillServer | Fault::KillServerTwice | Fault::KillServerAndRunner => {
            up.killed().await;
            world.is_down();
            counts.count("server", 1);
            if fault == Fault::KillServerAndRunner {
                counts.count("runner", kill_one(world, Kind::Runner, rng).await);
            }
            tokio::time::sleep(gap).await;
            if fault == Fault::KillServerTwice {
                kill_while_starting(world, gap).await;
                counts.count("server", 1);
            }
            restart(world).await
        }
    }
}

/// Kills one process of the kind, if there is one within a second.
async fn kill_one(world: &World, kind: Kind, rng: &mut StdRng) -> usize {
    for _ in 0..50 {
        let mut found = processes(world.program.directory.path());
        found.retain(|process| process.kind == kind);
        if let Some(process) = found.choose(rng) {
            kill(process.pid);
            return 1;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    0
}

async fn restart(world: &World) -> Up {
    let up = Up::start(&world.program).await;
    world.serves(&up);
    up
}

/// A server that is killed this long after its start.
async fn kill_while_starting(world: &World, life: Duration) {
    let mut command = tokio::process::Command::from(world.program.command(&["up", "--port", "0"]));
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true);
    let mut child = command.spawn().unwrap();
    tokio::time::sleep(life).await;
    child.kill().await.unwrap();
}

/// A clean stop ends with 0 and leaves no process.
pub(super) async fn stop(world: &World, mut up: Up, counts: &mut FaultCounts) {
    counts.count("server stopped", 1);
    let pid = Pid::from_raw(up.child.id().unwrap().cast_signed()).unwrap();
    kill_process(pid, Signal::TERM).unwrap();
    match tokio::time::timeout(STOP_LIMIT, up.child.wait()).await {
        Err(_) => counts.complaints.push("a server did not stop within 40 s of SIGTERM".to_owned()),
        Ok(status) if status.as_ref().is_ok_and(|status| status.success()) => {}
        Ok(status) => counts.complaints.push(format!("a server that was stopped ended with {status:?}")),
    }
    for left in lasting(processes(world.program.directory.path())) {
        counts.complaints.push(format!("left by a clean stop: {left:?}"));
    }
}
