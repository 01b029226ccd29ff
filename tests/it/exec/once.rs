//! One call: exit codes, streams, input, awkward arguments, and what outlives nothing.

use std::time::{Duration, Instant};

use fleet_mcp::coder::exec::{Command, ExecError, Exit};

use super::{output, sh};
use crate::contract::{Subject, agent_id, on_every_coder};

#[tokio::test]
async fn the_exit_code_and_both_streams_come_back_apart() {
    on_every_coder(async |subject: &Subject| {
        let agent = agent_id(&subject.create_ready().await);
        for n in 0..20 {
            let begun = Instant::now();
            let got = subject.client.exec(agent, &sh("echo out; echo err >&2; exit 3")).await.unwrap();
            eprintln!("{n} took {:?}", begun.elapsed());
            assert_eq!(got, output(Exit::Code(3), "out\n", "err\n"));
        }
    })
    .await;
}
