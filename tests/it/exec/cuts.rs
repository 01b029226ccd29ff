//! Connections cut at random: in the handshake, on the way in, on the way out; nothing lost, nothing run twice.

use bytes::Bytes;
use fleet_mcp::coder::exec::{Exit, Offsets, RunEnd};

use super::runs::whole;
use super::{address, every_byte, sh};
use crate::contract::{Subject, agent_id, on_every_coder};
use crate::harness::{FaultProxy, Matches, ProxyFault, Rule, When, client, scatter};

const SEED: u64 = 20_260_716;
const PARTS: usize = 13;
const PART: usize = 256 * 1024;
/// Writes what it was given again and again to both streams, numbered, while it is followed.
const WRITER: &str = r#"f=/tmp/$FLEET_EXEC; echo ran >>$f.ran; cat >$f; n=0
    while [ $n -lt 13 ]; do n=$((n + 1)); echo $n; cat $f; echo $n >&2; cat $f >&2; sleep 0.1; done
    cat $f.ran; rm $f $f.ran"#;

/// Numbers that are the same on every run.
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: u64) -> usize {
        self.0 += 1;
        usize::try_from(scatter(self.0) % limit).unwrap()
    }
}

fn expected(data: &Bytes, last: &[u8]) -> Vec<u8> {
    let parts = (1..=PARTS).flat_map(|n| [format!("{n}\n").into_bytes(), data.to_vec()]);
    parts.chain([last.to_vec()]).collect::<Vec<_>>().concat()
}

/// Of three cuts in the output one comes so soon that nothing was heard yet, in either direction.
fn cut(n: u64, dice: &mut Dice) -> ProxyFault {
    match n % 6 {
        0 => ProxyFault::CutInRequest { bytes: dice.below(1_500) },
        3 => ProxyFault::CutInBody { bytes: dice.below(2_000) },
        _ => ProxyFault::CutInBody { bytes: dice.below(250_000) },
    }
}

#[tokio::test]
async fn connections_cut_at_random_points_give_both_streams_byte_for_byte() {
    let seed = std::env::var("FLEET_TEST_SEED").map_or(SEED, |seed| seed.parse().unwrap());
    on_every_coder(async |subject: &Subject| {
        let agent = agent_id(&subject.create_ready().await);
        let proxy = FaultProxy::start(&subject.url).await;
        let client = client(&proxy.url(), &subject.token);
        let mut dice = Dice(seed);
        let fault = |n, kind| {
            let matches = Matches::path("/api/v2/workspaceagents/{agent}/pty");
            proxy.fault(Rule { matches, when: When::Nth(n), kind })
        };
        // On the way in, which is as long as the input; the fourth connection gets through.
        let mut cuts: Vec<_> = (1..=3)
            .map(|n| fault(n, ProxyFault::CutInRequest { bytes: dice.below(2 * PART as u64) }))
            .collect();
        cuts.extend((5..=44).map(|n| fault(n, cut(n, &mut dice))));
        let at = address(agent);
        let mut command = sh(WRITER);
        command.stdin = every_byte(PART);
        client.run_start(agent, at.run, &command).await.unwrap();
        let (stdout, stderr, end) = whole(&client, &at, Offsets::default()).await;
        assert_eq!(end, RunEnd::Exited(Exit::Code(0)), "seed {seed}");
        assert!(stdout == expected(&command.stdin, b"ran\n"), "seed {seed}");
        assert!(stderr == expected(&command.stdin, b""), "seed {seed}");
        let n_hits = cuts.into_iter().map(|cut| proxy.fault_hits(cut)).sum::<usize>();
        assert_eq!(n_hits, 43, "seed {seed}");
    })
    .await;
}
