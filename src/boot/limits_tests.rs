//! The orders of limits that the code relies on, within a layer and across layers.

use std::time::Duration;

use chrono::TimeDelta;

use crate::coder::exec::ExecLimits;
use crate::domain::limits::Limits;
use crate::local::LocalLimits;
use crate::runner::RunnerLimits;

fn length(delta: TimeDelta) -> Duration {
    delta.to_std().unwrap()
}

/// What the first duration is, the first one, and the one that must be longer.
type Order = (&'static str, Duration, Duration);

fn ends_of_engines(divisor: u8) -> [Order; 7] {
    let (fleet, runner) = (Limits::NORMAL.divided_by(divisor), RunnerLimits::NORMAL.divided_by(divisor));
    let local = LocalLimits::NORMAL.divided_by(divisor);
    let steps_of_runner = runner.interrupt + runner.terminate + runner.kill;
    let stop_of_runner = runner.stop_news + 2 * runner.stop_step + runner.kill;
    let stop = local.publish_stopped + local.terminate + local.kill;
    let cancel = length(fleet.interrupt) + length(fleet.signal) + stop;
    [
        ("all steps of a runner against its engine", steps_of_runner, length(fleet.interrupt)),
        ("a repeated interruption", fleet.interrupt_repeat, length(fleet.interrupt)),
        (
            "TERM and KILL for an engine without its runner",
            fleet.signal_term + fleet.signal_kill,
            fleet.signal_command,
        ),
        ("the command for these signals", fleet.signal_command, length(fleet.signal)),
        ("the steps of a runner at a stop", stop_of_runner, local.terminate),
        ("two waits of a runner after KILL", 2 * runner.kill, local.terminate),
        ("all steps of a cancel", cancel, fleet.cancel_answer),
    ]
}

fn other_waits(divisor: u8) -> [Order; 13] {
    let (fleet, exec) = (Limits::NORMAL.divided_by(divisor), ExecLimits::NORMAL.divided_by(divisor));
    let local = LocalLimits::NORMAL.divided_by(divisor);
    [
        ("the other processes of an ended agent", local.leftovers, local.terminate),
        ("a probe that fails", local.probe_interval + local.probe, local.silence),
        ("a git blocked at the tip, at a stop", local.publish_tip, local.publish_stopped),
        ("a git blocked in its objects", local.publish_silence, local.publish),
        ("a git blocked before a delete", local.publish_tip + local.publish_silence, local.publish_last),
        ("a lock without an owner", local.stale_lock, local.lock_wait),
        ("a hangup of a terminal", local.terminal_follow, local.terminal_hangup),
        ("a command in a workspace", fleet.workspace_command, fleet.workspace_answer),
        ("a rescue and each of its commands", length(fleet.rescue), fleet.workspace_answer),
        ("the command that creates a conversation", fleet.opening_command, fleet.opening_answer),
        ("the command after a run", fleet.evidence_command, fleet.evidence_answer),
        ("an attempt to read the repository", fleet.evidence_answer, length(fleet.evidence)),
        ("the connection to a silent workspace", exec.silence.max(exec.ready), exec.outage),
    ]
}

#[test]
fn normal_and_divided_limits_keep_the_orders_that_the_code_relies_on() {
    for divisor in [1, 10] {
        for (what, shorter, longer) in ends_of_engines(divisor).into_iter().chain(other_waits(divisor)) {
            assert!(
                shorter < longer,
                "{what}, divided by {divisor}: {shorter:?} is not less than {longer:?}"
            );
        }
    }
}
