//! Assembles the scripts that are sent into a workspace.

use std::time::Duration;

use uuid::Uuid;

use super::ExecLimits;
use super::command::{Command, Inherited};
use super::follow::Offsets;
use super::quote::{printing, word};
use crate::durations::whole_seconds;

const COMMON: &str = include_str!("script/common.sh");
const START: &str = include_str!("script/start.sh");
const FOLLOW: &str = include_str!("script/follow.sh");
const REMOVE: &str = include_str!("script/remove.sh");
const SIGNAL: &str = include_str!("script/signal.sh");
const WRITTEN: &str = include_str!("script/written.sh");
const SWEEP: &str = include_str!("script/sweep.sh");
const SUPERVISE: &str = include_str!("script/supervise.sh");
/// Shell functions that find children of processes and signal them; they do not search environments.
pub(crate) const END_FUNCTIONS: &str = include_str!("script/end.sh");
/// Finds and ends processes.
const END: &str = concat!(include_str!("script/search.sh"), include_str!("script/end.sh"));

/// A command that is canceled before its start does not start: it is no longer supervised.
const NOTE_MAIN: &str = r#"read -r pid line </proc/self/stat
set -- ${line##*) }
printf '%s %s\n' "$pid" "${20}" >main
[ ! -s why ] || exit 1
export FLEET_EXEC="$id"
cd "$base" || exit 126
"#;

/// How long the ids of removed runs are kept to reject late starts.
const KEPT: Duration = Duration::from_secs(24 * 60 * 60);

/// A script under construction: variables first, then commands.
#[derive(Debug)]
pub(super) struct Script {
    text: String,
}

/// The inputs of a new run.
#[derive(Debug, Clone)]
pub(super) struct Start {
    pub(super) command: Command,
    pub(super) retention: Retention,
}

/// How long the result is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Retention {
    /// Until it is removed.
    Durably,
    /// For one call; removed later if that call never returns.
    Once,
}

impl Start {
    /// How much of each stream is kept at least before the rest is only counted. A single call needs one more byte
    /// to detect truncation. Shells count only in signed numbers.
    fn most(&self) -> Option<i64> {
        let most = match self.retention {
            Retention::Durably => self.command.kept_output?,
            Retention::Once => (self.command.output_limit as u64).saturating_add(1),
        };
        Some(i64::try_from(most).unwrap_or(i64::MAX))
    }
}

impl Script {
    pub(super) fn new(run: Uuid, mark: &str, limits: &ExecLimits) -> Self {
        let [grace, kill] = [limits.terminate, limits.kill].map(whole_seconds);
        let mut script = Self { text: format!("id={run}\nmark={mark}\ngrace={grace}\nkill_limit={kill}\n") };
        script.push(COMMON);
        script
    }

    /// Starts the command unless the run exists; sets the state.
    pub(super) fn start(mut self, start: &Start) -> Self {
        let Start { command, retention } = start;
        let seconds = whole_seconds(command.timeout);
        let once = if *retention == Retention::Once { "yes" } else { "" };
        let attempt = format!("try-{}", Uuid::new_v4().simple());
        let most = start.most().map(|bytes| bytes.to_string()).unwrap_or_default();
        self.push(&format!("attempt={attempt}\nlimit={seconds}\nonce={once}\nmost={most}\n"));
        self.push_file("supervise", without_comments(&format!("{END}{SUPERVISE}")).as_bytes());
        self.push_file("command", command_file(command).as_bytes());
        self.push_file("input", &command.stdin);
        self.push(START);
        self.push("start\n");
        self
    }

    /// Prints new output for each poll.
    pub(super) fn follow(mut self, from: Offsets) -> Self {
        self.push(&format!("out_from={}\nerr_from={}\n", from.stdout + 1, from.stderr + 1));
        self.push(REMOVE);
        self.push(FOLLOW);
        self.push("follow\n");
        self
    }

    /// Removes expired leftovers of runs.
    pub(super) fn sweep(mut self) -> Self {
        let now = Uuid::now_v7().get_timestamp().map_or(0, |time| time.to_unix().0);
        let before = format!("{:012x}", now.saturating_sub(KEPT.as_secs()) * 1_000);
        let (high, low) = before.split_at(8);
        self.push(&format!("before={high}-{low}\n"));
        self.push(SWEEP);
        self.push("sweep\n");
        self
    }

    pub(super) fn cancel(mut self) -> Self {
        self.push(SIGNAL);
        self.push("cancel\n");
        self
    }

    /// Claims the run's id if it is free.
    pub(super) fn forestall(mut self) -> Self {
        self.push(REMOVE);
        self.push("forestall\n");
        self
    }

    /// Only if the run has ended.
    pub(super) fn remove(mut self) -> Self {
        self.push(SIGNAL);
        self.push(END);
        self.push(REMOVE);
        self.push("look\n[ \"$state\" = lost ] && end_lost\n");
        self.push("[ \"$state\" = running ] || remove\n");
        self
    }

    /// Prints the lengths of both streams if more was written than is kept.
    pub(super) fn print_written(mut self) -> Self {
        self.push(WRITTEN);
        self.push("say \"$(written out) $(written err)\"\n");
        self
    }

    /// Prints the state.
    pub(super) fn print_state(mut self) -> Self {
        self.push("say \"$state\"\n");
        self
    }

    pub(super) fn into_text(self) -> String {
        self.text
    }

    fn push(&mut self, part: &str) {
        self.text.push_str(&without_comments(part));
    }

    /// A function that prints the file.
    fn push_file(&mut self, name: &str, content: &[u8]) {
        self.text.push_str(&format!("give_{name}() {{\n:\n{}}}\n", printing(content)));
    }
}

/// A script without its comments and blank lines.
fn without_comments(script: &str) -> String {
    let lines = script.lines().filter(|line| !line.trim_start().starts_with('#') && !line.is_empty());
    lines.flat_map(|line| [line, "\n"]).collect()
}

/// Unsets every variable except for these and the run's own marker. Lines of a multi-line value that look like a
/// name are ignored.
fn unset_all_but(names: &[&str]) -> String {
    let kept = names.join("|");
    format!(
        r#"for name in $(export -p | while read -r word rest; do
[ "$word" = export ] && printf '%s ' "${{rest%%=*}}"
done); do
case $name in
FLEET_EXEC|{kept}|[0-9]*|*[!A-Za-z0-9_]*) ;;
*) unset "$name" ;;
esac
done
"#
    )
}

/// Replaces a part of the supervisor by the command, after it has recorded its pid. The supervisor's variables are
/// used before the command's are set, since names may be the same.
fn command_file(command: &Command) -> String {
    let mut file = NOTE_MAIN.to_owned();
    if let Some(cwd) = &command.cwd {
        file.push_str(&format!("cd -- {} || exit 126\n", word(cwd)));
    }
    let words: Vec<String> = command.argv.iter().map(|argument| word(argument)).collect();
    file.push_str(&format!("set -- $own {}\n", words.join(" ")));
    if let Inherited::Only(names) = command.inherited {
        file.push_str(&unset_all_but(names));
    }
    for (name, value) in &command.env {
        file.push_str(&format!("export {name}={}\n", word(value)));
    }
    file + "exec \"$@\"\n"
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::process::{Command as Process, Stdio};
    use std::time::Duration;

    use super::*;

    /// A start that is slower than the timeout: opening the input blocks until a writer appears.
    #[test]
    fn a_command_whose_time_is_over_before_it_begins_keeps_its_files_and_never_begins() {
        let run = tempfile::tempdir().unwrap();
        let (run, attempt) = (run.path(), run.path().join("try"));
        std::fs::create_dir(&attempt).unwrap();
        std::fs::write(attempt.join("supervise"), without_comments(&format!("{END}{SUPERVISE}"))).unwrap();
        let late = run.join("late").to_string_lossy().into_owned();
        std::fs::write(attempt.join("command"), command_file(&Command::new(["touch", &late]))).unwrap();
        assert!(Process::new("mkfifo").arg(attempt.join("in")).status().unwrap().success());
        let id = Uuid::now_v7().to_string();
        let mut supervisor = Process::new("sh");
        supervisor
            .args(["try/supervise", &id, "try", "1", "1", "1", "/"])
            .current_dir(run)
            .env_remove("FLEET_EXEC");
        let mut supervisor = supervisor.stdout(Stdio::null()).stdin(Stdio::null()).spawn().unwrap();
        let why = || std::fs::read_to_string(run.join("why")).unwrap_or_default();
        while why() != "timeout\n" {
            std::thread::sleep(Duration::from_millis(10));
        }
        assert!(attempt.join("command").exists() && attempt.join("in").exists());
        std::fs::File::options().write(true).open(attempt.join("in")).unwrap().write_all(b"").unwrap();
        assert!(supervisor.wait().is_ok());
        assert_eq!(std::fs::read_to_string(run.join("exit")).unwrap(), "timeout\n");
        assert!(!run.join("late").exists());
    }
}
