//! One call: exit codes, streams, input, awkward arguments, and that nothing outlives it.

use std::time::Duration;

use fleet_mcp::coder::exec::{Command, ExecError, Exit, Output};

use super::{STUBBORN, alive, every_byte, output, sh};
use crate::contract::{Subject, agent_id, on_every_coder};

#[tokio::test]
async fn exit_codes_signals_and_both_streams_come_back_as_they_were() {
    on_every_coder(async |subject: &Subject| {
        let agent = agent_id(&subject.create_ready().await);
        let run = async |script: &str| subject.client.exec(agent, &sh(script)).await.unwrap();
        assert_eq!(run("echo out; echo err >&2; exit 3").await, output(Exit::Code(3), "out\n", "err\n"));
        assert_eq!(
            run("echo a; echo b >/dev/stderr; echo c >&2; echo d | tee /dev/stderr").await.stderr,
            "b\nc\nd\n"
        );
        assert_eq!(run("exit 255").await, output(Exit::Code(255), "", ""));
        assert_eq!(run("exit 143").await, output(Exit::Code(143), "", ""));
        assert_eq!(run("kill -TERM $$").await, output(Exit::Signal(15), "", ""));
        assert_eq!(run("kill -KILL $$").await, output(Exit::Signal(9), "", ""));
    })
    .await;
}

#[tokio::test]
async fn arguments_variables_and_directories_arrive_with_any_characters() {
    on_every_coder(async |subject: &Subject| {
        let agent = agent_id(&subject.create_ready().await);
        let awkward = "a'b \"c\" $HOME `id` $(id) \\n \\ * ? ~ ; & | < > # ! { } [ ] = % \t \n\n ü 語 \u{7f} \u{1b}[0m -n ";
        // What a terminal would take for itself: interrupt, end of input, bell, return, flow, erase, word, literal, quit, stop.
        let for_terminals = "\u{3} \u{4} \u{7} \u{8} \r \r\n \u{11} \u{13} \u{15} \u{16} \u{17} \u{1a} \u{1c}";
        let awkward = &format!("{awkward}{for_terminals} ");
        let mut command = Command::new(["sh", "-c", r#"printf '%s|' "$@" "$own" "$PWD""#, awkward, awkward.as_str(), "", "-e"]);
        command.env = vec![("own".to_owned(), awkward.clone()), ("id".to_owned(), "x".to_owned())];
        command.cwd = Some("/".to_owned());
        let expected = format!("{awkward}||-e|{awkward}|/|");
        assert_eq!(subject.client.exec(agent, &command).await.unwrap(), output(Exit::Code(0), &expected, ""));
    })
    .await;
}

#[tokio::test]
async fn a_megabyte_of_any_bytes_goes_in_and_comes_out_unchanged() {
    on_every_coder(async |subject: &Subject| {
        let agent = agent_id(&subject.create_ready().await);
        let mut command = Command::new(["cat"]);
        command.stdin = every_byte(1 << 20);
        let got = subject.client.exec(agent, &command).await.unwrap();
        assert!(got.stdout == command.stdin && got.stderr.is_empty() && !got.truncated);
        assert_eq!(got.exit, Exit::Code(0));
    })
    .await;
}

#[tokio::test]
async fn output_beyond_the_limit_is_cut_and_said_to_be() {
    on_every_coder(async |subject: &Subject| {
        let agent = agent_id(&subject.create_ready().await);
        let mut command = sh("printf 12345; printf 123 >&2");
        command.output_limit = 3;
        let expected = Output { truncated: true, ..output(Exit::Code(0), "123", "123") };
        assert_eq!(subject.client.exec(agent, &command).await.unwrap(), expected);
    })
    .await;
}

#[tokio::test]
async fn missing_program_and_directory_are_reported_as_by_a_shell() {
    on_every_coder(async |subject: &Subject| {
        let agent = agent_id(&subject.create_ready().await);
        let missing = subject.client.exec(agent, &Command::new(["no-such-program"])).await.unwrap();
        assert_eq!(missing.exit, Exit::Code(127));
        assert!(String::from_utf8_lossy(&missing.stderr).contains("no-such-program"), "{missing:?}");
        let command = Command { cwd: Some("no-such-directory".to_owned()), ..Command::new(["true"]) };
        let nowhere = subject.client.exec(agent, &command).await.unwrap();
        assert_eq!(nowhere.exit, Exit::Code(126));
        let refused = subject.client.exec(agent, &Command::new(["-x"])).await.unwrap_err();
        assert!(matches!(refused, ExecError::Command { .. }), "{refused}");
    })
    .await;
}

#[tokio::test]
async fn a_timeout_ends_all_descendants_also_those_in_sessions_of_their_own() {
    on_every_coder(async |subject: &Subject| {
        let agent = agent_id(&subject.create_ready().await);
        let mut command = sh(STUBBORN);
        command.timeout = Duration::from_secs(5);
        let got = subject.client.exec(agent, &command).await.unwrap();
        assert_eq!(got.exit, Exit::TimedOut);
        let said = String::from_utf8_lossy(&got.stdout).into_owned();
        let pids: Vec<&str> = said.lines().filter(|line| *line != "ready").collect();
        assert_eq!(pids.len(), 3, "{said}");
        assert_eq!(alive(&subject.client, agent, &pids).await, "");
    })
    .await;
}

#[tokio::test]
async fn nothing_outlives_a_command_that_has_ended() {
    on_every_coder(async |subject: &Subject| {
        let agent = agent_id(&subject.create_ready().await);
        let got = subject.client.exec(agent, &sh("sleep 300 & echo $!")).await.unwrap();
        assert_eq!(got.exit, Exit::Code(0));
        let pid = String::from_utf8_lossy(&got.stdout);
        assert_eq!(alive(&subject.client, agent, &[pid.trim()]).await, "");
    })
    .await;
}
