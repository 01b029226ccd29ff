//! What an agent can see: a program that dumps all it can reach finds its own workspace and nothing of the fleet.

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use fleet_mcp::coder::PtyOptions;
use fleet_mcp::domain::hosting::Isolation;
use futures_util::StreamExt;
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::Message;
use uuid::Uuid;

use crate::harness::{
    Api, LocalSite, RunningLocal, TEMPLATE, client, eventually, is_over, is_ready, skipped, watched,
};

/// Prints everything: environments and arguments of all processes, the data directory by every way that leads
/// there, and what can be had by force.
const DUMP: &str = r#"
data=$1
env
for file in coder.token operator.token coder/deployment.json workspaces/other/fleet/secret workspaces/own/fleet/secret
do
    cat "$data/$file" "../../../$file" "/proc/self/cwd/../../../$file"
    for process in /proc/[0-9]*; do cat "$process/root$data/$file" "$process/cwd/../../../$file"; done
    umount "$data"; umount -l "$data"; cat "$data/$file"
    unshare -Urm sh -c "umount '$data'; umount -l '$data'; cat '$data/$file'"
    unshare -Urm sh -c "mount --bind / /mnt; cat '/mnt$data/$file'"
    nsenter -t 1 -m cat "$data/$file"
    nsenter -t "$PPID" -m -U cat "$data/$file"
done 2>/dev/null
for process in /proc/[0-9]*; do tr '\0' '\n' <"$process/environ"; tr '\0' ' ' <"$process/cmdline"; done 2>/dev/null
find "$data"
grep -r . "$data" 2>/dev/null
ls -lR /dev/pts
echo dumped
"#;

/// What must never be seen, each with a name that may be printed.
struct Canaries(Vec<(&'static str, String)>);

impl Canaries {
    fn of(site: &LocalSite, token: &str) -> Self {
        let read = |name: &str| std::fs::read_to_string(site.data_dir().join(name)).unwrap();
        Self(vec![
            ("the Coder's token", token.to_owned()),
            ("the operator's token", read("operator.token")),
            ("the deployment", serde_json::from_str::<Value>(&read("coder/deployment.json")).unwrap()["content"]["deployment_id"].as_str().unwrap().to_owned()),
            ("another workspace's file", "secret of other".to_owned()),
            ("another agent's token", agent_token(site, "other")),
        ])
    }

    fn found_in(&self, text: &str) -> Vec<&'static str> {
        self.0.iter().filter(|(_, canary)| text.contains(canary)).map(|(name, _)| *name).collect()
    }
}

fn agent_token(site: &LocalSite, name: &str) -> String {
    let mark = format!("CODER_WORKSPACE_NAME={name}");
    let tokens = site.processes().into_iter().filter_map(|pid| {
        let environment = std::fs::read(format!("/proc/{pid}/environ")).ok()?;
        let text = String::from_utf8_lossy(&environment).into_owned();
        let is_of_agent = text.split('\0').any(|variable| variable == mark);
        is_of_agent.then(|| {
            text.split('\0').find_map(|part| part.strip_prefix("CODER_AGENT_TOKEN=")).map(str::to_owned)
        })?
    });
    tokens.into_iter().next().unwrap()
}

fn script(site: &LocalSite) -> PathBuf {
    let path = site.directory.path().join("dump");
    std::fs::write(&path, DUMP).unwrap();
    path
}

/// Everything that a command in the workspace's terminal prints.
async fn printed(local: (&str, &str), agent: Uuid, command: &str) -> String {
    let options = PtyOptions {
        reconnect: Uuid::new_v4(),
        width: 80,
        height: 24,
        command: command.to_owned(),
        container: None,
    };
    let mut socket = client(local.0, local.1).pty_connect(agent, &options).await.unwrap();
    let mut output = Vec::new();
    while let Some(Ok(message)) = socket.next().await {
        if let Message::Binary(bytes) = message {
            output.extend_from_slice(&bytes);
        }
    }
    String::from_utf8_lossy(&output).into_owned()
}

async fn dumped_in_terminal(site: &LocalSite, local: &RunningLocal, agent: Uuid) -> String {
    let command = format!("sh {} {}", script(site).display(), site.data_dir().display());
    printed((&local.url, &local.token), agent, &command).await
}

/// Two workspaces with a secret each; the agent of the first.
async fn two_workspaces(site: &LocalSite, local: &RunningLocal) -> Uuid {
    std::fs::write(site.data_dir().join("operator.token"), "fleet-operator-canary").unwrap();
    let own = local.create_ready("own").await.latest_build.resources[0].agents[0].id;
    local.create_ready("other").await;
    for name in ["own", "other"] {
        std::fs::write(site.workspace(name).join("fleet/secret"), format!("secret of {name}")).unwrap();
    }
    own
}

/// Prints a note and returns true if the machine forbids namespaces.
pub(super) fn is_skipped(isolation: &Isolation) -> bool {
    match isolation {
        Isolation::Enforced => false,
        Isolation::SharedProcesses { reason }
        | Isolation::Absent { reason }
        | Isolation::Withheld { reason } => {
            skipped(&format!("processes cannot be enclosed on this machine: {reason}"));
            true
        }
    }
}

#[tokio::test]
async fn a_command_in_a_terminal_sees_its_own_workspace_and_nothing_of_the_fleet() {
    let site = LocalSite::new();
    let local = site.start().await;
    if is_skipped(local.coder.isolation()) {
        return local.coder.stop().await;
    }
    let agent = two_workspaces(&site, &local).await;
    let seen = dumped_in_terminal(&site, &local, agent).await;
    assert!(seen.contains("secret of own") && seen.contains("dumped"), "{seen}");
    assert_eq!(Canaries::of(&site, &local.token).found_in(&seen), Vec::<&str>::new());
    let listed: Vec<&str> = seen.lines().filter(|line| line.contains("/workspaces/other")).collect();
    assert_eq!(listed, Vec::<&str>::new());
    local.coder.stop().await;
}

/// The same dump without the enclosure finds everything: otherwise the test would prove nothing.
#[tokio::test]
async fn without_isolation_agents_see_everything_and_the_server_reports_it() {
    let mut site = LocalSite::new();
    site.options.encloser =
        encloser(&site, "*' --no-walls '*) ;; *) echo 'error: not here' >&2; exit 125 ;;");
    let local = site.start().await;
    let reason = "not here".to_owned();
    assert_eq!(*local.coder.isolation(), Isolation::Absent { reason });
    let agent = two_workspaces(&site, &local).await;
    let seen = dumped_in_terminal(&site, &local, agent).await;
    let canaries = Canaries::of(&site, &local.token);
    let all: Vec<&str> = canaries.0.iter().map(|(name, _)| *name).collect();
    assert_eq!(canaries.found_in(&seen), all);
    local.coder.stop().await;
}

/// An encloser for a machine that allows less: these branches of a shell's `case` see its arguments first.
fn encloser(site: &LocalSite, branches: &str) -> PathBuf {
    let program = env!("CARGO_BIN_EXE_fleet-mcp");
    let refuse = format!("case \" $* \" in {branches} esac");
    let path = site.directory.path().join("encloser");
    crate::harness::script(&path, &format!("#!/bin/sh\n{refuse}\nexec '{program}' \"$@\"\n"));
    path
}

#[tokio::test]
async fn without_pid_namespaces_the_fleets_data_is_hidden_all_the_same_and_the_server_says_so() {
    let mut site = LocalSite::new();
    site.options.encloser = encloser(&site, "*' --own-processes '*) echo 'error: not here' >&2; exit 125 ;;");
    let local = site.start().await;
    if let Isolation::Absent { reason } = local.coder.isolation() {
        skipped(&format!("processes cannot be enclosed on this machine: {reason}"));
        return local.coder.stop().await;
    }
    assert_eq!(*local.coder.isolation(), Isolation::SharedProcesses { reason: "not here".to_owned() });
    let agent = two_workspaces(&site, &local).await;
    let seen = dumped_in_terminal(&site, &local, agent).await;
    assert!(seen.contains("secret of own") && seen.contains("dumped"), "{seen}");
    assert_eq!(Canaries::of(&site, &local.token).found_in(&seen), Vec::<&str>::new());
    local.coder.stop().await;
    assert_eq!(site.processes(), Vec::<u32>::new());
}

/// An enclosing program that fails like this while its file `forbidden` exists, unless it only enters the directory.
fn forbidden(site: &LocalSite, failure: &str) -> PathBuf {
    let program = env!("CARGO_BIN_EXE_fleet-mcp");
    let (path, file) = (site.directory.path().join("encloser"), site.directory.path().join("forbidden"));
    let text = format!(
        "#!/bin/sh\ncase \" $* \" in *' --no-walls '*) ;; *) if [ -e '{}' ]; then {failure}; fi ;; esac\n\
         exec '{program}' \"$@\"\n",
        file.display()
    );
    crate::harness::script(&path, &text);
    path
}

/// The end of a build of a new workspace: its status, and what it says.
async fn built(local: &RunningLocal, name: &str) -> (String, String) {
    let created = local.create(TEMPLATE, name, "").await.body;
    let ended = local.until(&created["id"], is_over).await.latest_build;
    (ended.status, ended.job.error.unwrap_or_default())
}

#[tokio::test]
async fn agents_that_were_isolated_once_start_isolated_or_not_at_all_unless_the_operator_allows_less() {
    let mut site = LocalSite::new();
    site.options.encloser = forbidden(&site, "echo 'error: not here' >&2; exit 125");
    let local = site.start().await;
    if is_skipped(local.coder.isolation()) {
        return local.coder.stop().await;
    }
    local.coder.stop().await;
    let file = site.directory.path().join("forbidden");
    std::fs::write(&file, "").unwrap();
    let local = site.start().await;
    assert_eq!(*local.coder.isolation(), Isolation::Withheld { reason: "not here".to_owned() });
    let refused =
        "agents cannot be isolated as before; run 'fleet-mcp doctor' to see why and what to do: not here";
    assert_eq!(built(&local, "refused").await, ("failed".to_owned(), refused.to_owned()));
    // No restart is needed once it works again.
    std::fs::remove_file(&file).unwrap();
    assert_eq!(built(&local, "again").await.0, "running");
    local.coder.stop().await;

    std::fs::write(&file, "").unwrap();
    site.options.allows_less_isolation = true;
    let local = site.start().await;
    assert_eq!(*local.coder.isolation(), Isolation::Absent { reason: "not here".to_owned() });
    assert_eq!(built(&local, "allowed").await.0, "running");
    local.coder.stop().await;
    // What was allowed once is not allowed for ever.
    site.options.allows_less_isolation = false;
    let local = site.start().await;
    assert_eq!(*local.coder.isolation(), Isolation::Withheld { reason: "not here".to_owned() });
    local.coder.stop().await;
}

#[tokio::test]
async fn a_machine_that_is_short_of_namespaces_for_a_moment_is_asked_again() {
    let mut site = LocalSite::new();
    let file = site.directory.path().join("forbidden");
    site.options.encloser = forbidden(&site, &format!("rm '{}'; exit 75", file.display()));
    let local = site.start().await;
    if is_skipped(local.coder.isolation()) {
        return local.coder.stop().await;
    }
    local.coder.stop().await;
    std::fs::write(&file, "").unwrap();
    let local = site.start().await;
    assert_eq!((local.coder.isolation(), file.exists()), (&Isolation::Enforced, false));
    local.coder.stop().await;
}

#[test]
fn the_end_of_a_command_in_a_pid_namespace_is_told_as_shells_do() {
    let enclosed = |command: &[&str]| {
        let mut enclosed = Command::new(env!("CARGO_BIN_EXE_fleet-mcp"));
        enclosed.args(["enclose", "--own-processes", "--"]).args(command).stdin(Stdio::null());
        enclosed.output().unwrap().status.code()
    };
    if matches!(enclosed(&["true"]), Some(75 | 125)) {
        return skipped("processes cannot have a PID namespace on this machine");
    }
    let commands: [&[&str]; 5] =
        [&["true"], &["sh", "-c", "exit 7"], &["sh", "-c", "kill -9 $$"], &["/"], &["/nowhere/to/be/found"]];
    assert_eq!(commands.map(enclosed), [Some(0), Some(7), Some(137), Some(126), Some(127)]);
}

#[test]
fn a_command_works_in_its_directory_with_walls_and_without() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().canonicalize().unwrap();
    for mode in ["--no-walls", "--own-processes", "--own-terminals"] {
        let mut enclosed = Command::new(env!("CARGO_BIN_EXE_fleet-mcp"));
        enclosed.args(["enclose", mode, "--directory"]).arg(&path).args(["--", "pwd"]).current_dir("/");
        let output = enclosed.stdin(Stdio::null()).output().unwrap();
        if mode != "--no-walls" && output.status.code() == Some(125) {
            skipped(&format!("processes cannot be enclosed with {mode} on this machine"));
            continue;
        }
        let told = String::from_utf8_lossy(&output.stdout).into_owned();
        assert_eq!(told, format!("{}\n", path.display()), "{mode}: {output:?}");
    }
}

#[tokio::test]
async fn the_agents_own_process_is_enclosed_too() {
    let mut site = LocalSite::new();
    let local = site.start().await;
    if is_skipped(local.coder.isolation()) {
        return local.coder.stop().await;
    }
    two_workspaces(&site, &local).await;
    let canaries = Canaries::of(&site, &local.token);
    local.coder.stop().await;
    let seen = site.directory.path().join("seen-by-third");
    site.options.runner.program = "/bin/sh".into();
    let (dump, data) = (script(&site), site.data_dir().to_owned());
    // The two others start again as well; each writes what it sees to a file of its own.
    let seen_by = format!("{}/seen-by-$CODER_WORKSPACE_NAME", site.directory.path().display());
    let run = format!("sh {} {} >{seen_by} 2>&1", dump.display(), data.display());
    site.options.runner.arguments = vec!["-c".to_owned(), run];
    let local = site.start().await;
    let created = local.create(TEMPLATE, "third", "").await.body;
    local.until(&created["id"], is_over).await;
    let seen = std::fs::read_to_string(seen).unwrap();
    assert!(seen.contains("FLEET_AGENT_DIR=") && seen.contains("dumped"), "{seen}");
    assert_eq!(canaries.found_in(&seen), Vec::<&str>::new());
    local.coder.stop().await;
}

#[tokio::test]
async fn terminals_of_others_cannot_be_opened_by_name() {
    let site = LocalSite::new();
    let local = site.start().await;
    if is_skipped(local.coder.isolation()) {
        return local.coder.stop().await;
    }
    let agent = local.create_ready("own").await.latest_build.resources[0].agents[0].id;
    let seen = printed((&local.url, &local.token), agent, "ls /dev/pts; echo listed").await;
    assert_eq!(seen, "ptmx\r\nlisted\r\n");
    local.coder.stop().await;
}

#[tokio::test]
async fn enclosed_process_cannot_create_files_in_the_data_directory() {
    let site = LocalSite::new();
    let local = site.start().await;
    if is_skipped(local.coder.isolation()) {
        return local.coder.stop().await;
    }
    let agent = local.create_ready("own").await.latest_build.resources[0].agents[0].id;
    let data = site.data_dir().display().to_string();
    let command =
        format!("touch {data}/lost; mkdir {data}/workspaces/lost; touch made \"$FLEET_AGENT_DIR/made\"");
    let seen = printed((&local.url, &local.token), agent, &command).await;
    assert_eq!(seen.matches("Read-only file system").count(), 2, "{seen}");
    assert!(
        site.workspace("own").join("fleet/made").exists() && site.workspace("own").join("repo/made").exists()
    );
    local.coder.stop().await;
}

/// A shell that has more open than it should, and becomes our program.
const OPEN: &str = r#"exec 7</dev/null 9</etc/passwd; exec "$0" enclose -- ls /proc/self/fd"#;

#[test]
fn descriptors_open_at_the_servers_start_are_closed_in_a_workspace() {
    let program = env!("CARGO_BIN_EXE_fleet-mcp");
    let output = Command::new("sh").args(["-c", OPEN, program]).stdin(Stdio::null()).output().unwrap();
    if matches!(output.status.code(), Some(75 | 125)) {
        return skipped("processes cannot be enclosed on this machine");
    }
    // The fourth is that of the listing.
    assert_eq!(String::from_utf8_lossy(&output.stdout), "0\n1\n2\n3\n", "{output:?}");
}

/// A server of its own process, as another user.
struct PlainServer {
    child: tokio::process::Child,
    url: String,
    token: String,
}

const PLAIN_USER: u32 = 65_534;

async fn plain_server(site: &LocalSite) -> PlainServer {
    std::os::unix::fs::chown(site.directory.path(), Some(PLAIN_USER), Some(PLAIN_USER)).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_fleet-mcp"));
    command
        .arg("local-coder")
        .arg("--data-dir")
        .arg(site.data_dir())
        .env_clear()
        .uid(PLAIN_USER)
        .gid(PLAIN_USER);
    command.env("PATH", std::env::var_os("PATH").unwrap_or_default()).env("HOME", site.directory.path());
    command.current_dir(site.directory.path()).stdin(Stdio::null());
    let child = tokio::process::Command::from(command).kill_on_drop(true).spawn().unwrap();
    let address = site.data_dir().join("coder.json");
    eventually("the Coder announces itself", async || address.exists()).await;
    let file: Value = serde_json::from_str(&std::fs::read_to_string(address).unwrap()).unwrap();
    let token = std::fs::read_to_string(site.data_dir().join("coder.token")).unwrap();
    PlainServer { child, url: file["url"].as_str().unwrap().trim_end_matches('/').to_owned(), token }
}

fn can_be_another_user() -> bool {
    let program = Path::new(env!("CARGO_BIN_EXE_fleet-mcp"));
    let mut try_it = Command::new(program);
    try_it
        .args(["enclose", "--own-terminals", "--"])
        .uid(PLAIN_USER)
        .gid(PLAIN_USER)
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let is_able = rustix::process::getuid().is_root() && try_it.status().is_ok_and(|status| status.success());
    if !is_able {
        skipped("as another user: this needs root, and a program with which everybody may make namespaces");
    }
    is_able
}

#[tokio::test]
async fn a_plain_users_agents_are_enclosed_and_end_to_the_last_process() {
    if !can_be_another_user() {
        return;
    }
    let site = LocalSite::new();
    let mut server = plain_server(&site).await;
    let api = Api::new(&server.url, &server.token);
    let mut agents = Vec::new();
    for name in ["own", "other"] {
        let created = api.workspace_create("setup", name).await.body;
        let id = created["id"].as_str().unwrap().parse().unwrap();
        let ready = watched(&Api::new(&server.url, &server.token), id, is_ready).await;
        agents.push((id, ready.latest_build.resources[0].agents[0].id));
        std::fs::write(site.workspace(name).join("fleet/secret"), format!("secret of {name}")).unwrap();
    }
    std::fs::write(site.data_dir().join("operator.token"), "fleet-operator-canary").unwrap();
    let command = format!("sh {} {}", script(&site).display(), site.data_dir().display());
    let seen = printed((&server.url, &server.token), agents[0].1, &command).await;
    assert!(seen.contains("secret of own") && seen.contains("dumped"), "{seen}");
    assert_eq!(Canaries::of(&site, &server.token).found_in(&seen), Vec::<&str>::new());
    let pid = rustix::process::Pid::from_raw(server.child.id().unwrap().cast_signed()).unwrap();
    // The `/proc` files of an undumpable process belong to root.
    let memory = std::fs::metadata(format!("/proc/{}/mem", server.child.id().unwrap())).unwrap();
    assert_eq!(std::os::unix::fs::MetadataExt::uid(&memory), 0);
    for (id, _) in &agents {
        let builds = format!("/api/v2/workspaces/{id}/builds");
        assert_eq!(api.post(&builds, &json!({ "transition": "stop" })).await.status, 201);
        watched(&Api::new(&server.url, &server.token), *id, |now| now.latest_build.status == "stopped").await;
    }
    assert_eq!(site.processes(), Vec::<u32>::new());
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    assert!(server.child.wait().await.unwrap().success());
}
