//! Git without the programs that settings can start: one table for all our git commands.
//!
//! A setting with a fixed name is overridden in every command. A setting with a free name (`filter.<name>.smudge`)
//! is overridden by the names in force where the command runs, so those are listed first. All overrides go through
//! the environment: names may contain any character, and git's own child processes inherit them.

use std::collections::BTreeMap;

/// A setting that can start a program, and a value that starts none. `*` matches any name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Setting {
    pub name: &'static str,
    pub off: &'static str,
}

const fn setting(name: &'static str, off: &'static str) -> Setting {
    Setting { name, off }
}

/// Names are written as `git config --list` prints them. Settings that only include others (`include.path`) are not
/// needed: included settings are listed and overridden like all others.
pub const SETTINGS: [Setting; 63] = [
    setting("core.hookspath", "/dev/null"),
    setting("hook.*.command", "true"),
    setting("hook.*.enabled", "false"),
    setting("core.fsmonitor", "false"),
    setting("core.attributesfile", "/dev/null"),
    setting("filter.*.clean", ""),
    setting("filter.*.smudge", ""),
    setting("filter.*.process", ""),
    setting("filter.*.required", "false"),
    setting("diff.external", ""),
    setting("diff.*.command", ""),
    setting("diff.*.textconv", ""),
    setting("merge.*.driver", "false"),
    setting("merge.verifysignatures", "false"),
    setting("core.pager", "cat"),
    setting("pager.*", "false"),
    setting("core.editor", "false"),
    setting("sequence.editor", "false"),
    setting("core.askpass", "true"),
    setting("core.sshcommand", "ssh -o BatchMode=yes"),
    setting("core.alternaterefscommand", "true"),
    setting("gc.auto", "0"),
    setting("gc.recentobjectshook", "true"),
    setting("maintenance.auto", "false"),
    setting("commit.gpgsign", "false"),
    setting("tag.gpgsign", "false"),
    setting("tag.forcesignannotated", "false"),
    setting("push.gpgsign", "false"),
    setting("log.showsignature", "false"),
    setting("gpg.program", "false"),
    setting("gpg.openpgp.program", "false"),
    setting("gpg.x509.program", "false"),
    setting("gpg.ssh.program", "false"),
    setting("gpg.ssh.defaultkeycommand", "false"),
    setting("protocol.ext.allow", "never"),
    setting("transfer.bundleuri", "false"),
    // An empty value would be executed as well; `env` executes git unchanged.
    setting("uploadpack.packobjectshook", "env"),
    setting("remote.*.uploadpack", "git-upload-pack"),
    setting("remote.*.receivepack", "git-receive-pack"),
    setting("remote.*.vcs", ""),
    setting("submodule.recurse", "false"),
    setting("submodule.*.update", "none"),
    setting("fetch.recursesubmodules", "false"),
    setting("push.recursesubmodules", "no"),
    setting("interactive.difffilter", "cat"),
    setting("trailer.*.command", "false"),
    setting("trailer.*.cmd", "false"),
    setting("tar.*.command", "false"),
    setting("alias.*", ""),
    setting("mergetool.*.cmd", "false"),
    setting("mergetool.*.path", "false"),
    setting("difftool.*.cmd", "false"),
    setting("difftool.*.path", "false"),
    setting("guitool.*.cmd", "false"),
    setting("browser.*.cmd", "false"),
    setting("browser.*.path", "false"),
    setting("man.*.cmd", "false"),
    setting("man.*.path", "false"),
    setting("sendemail.*.tocmd", "false"),
    setting("sendemail.tocmd", "false"),
    setting("sendemail.cccmd", "false"),
    setting("sendemail.headercmd", "false"),
    setting("init.templatedir", ""),
];

/// Credential helpers are the user's choice and required for remote servers; elsewhere they are disabled.
const HELPERS: [Setting; 2] = [setting("credential.helper", ""), setting("credential.*.helper", "")];

/// Variables that would redirect git to another repository, configuration or program.
pub const FOREIGN: [&str; 12] = [
    "GIT_DIR",
    "GIT_WORK_TREE",
    "GIT_INDEX_FILE",
    "GIT_OBJECT_DIRECTORY",
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_NAMESPACE",
    "GIT_EXTERNAL_DIFF",
    "GIT_CONFIG",
    "GIT_CONFIG_PARAMETERS",
    "GIT_EXEC_PATH",
    "GIT_TEMPLATE_DIR",
    "GIT_SSH",
];

/// No prompts, pager or editor, no background writes, and untranslated output. `GIT_PROXY_COMMAND` is empty because
/// `core.gitProxy` cannot be overridden otherwise.
const ALONE: [(&str, &str); 11] = [
    ("GIT_TERMINAL_PROMPT", "0"),
    ("GIT_ASKPASS", "true"),
    ("SSH_ASKPASS", "true"),
    ("GIT_SSH_COMMAND", "ssh -o BatchMode=yes"),
    ("GIT_PROXY_COMMAND", ""),
    ("GIT_PAGER", "cat"),
    ("GIT_EDITOR", "false"),
    ("GIT_OPTIONAL_LOCKS", "0"),
    ("GIT_ATTR_NOSYSTEM", "1"),
    ("GIT_DEFAULT_REF_FORMAT", "files"),
    ("LC_ALL", "C"),
];

/// Where a command may get objects from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// Only from its own repository.
    Local,
    /// From files of this machine: another repository or a bundle. Such a command needs `UPLOAD_PACK`.
    Files,
    /// From other machines.
    Network,
}

/// The option for a command that reads another repository of this machine. The git process that it starts there
/// does not get our overrides.
pub const UPLOAD_PACK: &str = "--upload-pack=git -c uploadpack.packObjectsHook=env upload-pack";

/// Lists the settings in force, for commands that run filters or drivers.
pub const LIST: [&str; 4] = ["config", "--list", "--name-only", "-z"];

/// The environment of a git command: settings with fixed names start no program.
pub fn environment(reach: Reach) -> BTreeMap<String, String> {
    environment_after(reach, "")
}

/// The same with the listed settings in force (output of `LIST`): no setting starts a program.
pub fn environment_after(reach: Reach, listing: &str) -> BTreeMap<String, String> {
    let table = || table(reach);
    let fixed = table().filter(|row| !row.name.contains('*')).map(|row| (row.name, row.off));
    let named = listing.split('\0').filter_map(|name| {
        let row = table().find(|row| row.name.contains('*') && is_match(row.name, name))?;
        Some((name, row.off))
    });
    let overrides: Vec<(&str, &str)> = fixed.chain(named).collect();
    let numbered = overrides.iter().enumerate().flat_map(|(number, (name, off))| {
        let key = (format!("GIT_CONFIG_KEY_{number}"), (*name).to_owned());
        [key, (format!("GIT_CONFIG_VALUE_{number}"), (*off).to_owned())]
    });
    let alone = ALONE.into_iter().chain(transports(reach));
    let alone = alone.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let count = ("GIT_CONFIG_COUNT".to_owned(), overrides.len().to_string());
    alone.chain(numbered).chain([count]).collect()
}

/// The same for a script: a shell function `git_off`, to be called in each repository before git works there.
pub fn shell_function() -> String {
    let reach = Reach::Local;
    let free = table(reach).filter(|row| row.name.contains('*'));
    let arms: String = free.map(|row| format!("{}) v='{}' ;; ", row.name, row.off)).collect();
    let exports: String =
        environment(reach).iter().map(|(name, value)| format!("export {name}='{value}'\n")).collect();
    let foreign = FOREIGN.join(" ");
    format!(
        r#"git_off() {{
unset {foreign}
{exports}while IFS= read -r k; do
case $k in {arms}*) continue ;; esac
export "GIT_CONFIG_KEY_$GIT_CONFIG_COUNT=$k" "GIT_CONFIG_VALUE_$GIT_CONFIG_COUNT=$v"
GIT_CONFIG_COUNT=$((GIT_CONFIG_COUNT + 1))
done <<NAMES
$(git config --list --name-only 2> /dev/null < /dev/null)
NAMES
}}
"#
    )
}

fn table(reach: Reach) -> impl Iterator<Item = Setting> {
    let helpers: &[Setting] = match reach {
        Reach::Local | Reach::Files => &HELPERS,
        Reach::Network => &[],
    };
    SETTINGS.iter().chain(helpers).copied()
}

/// The permitted transports. Missing objects of a partial clone are fetched only by commands that may fetch.
fn transports(reach: Reach) -> Vec<(&'static str, &'static str)> {
    match reach {
        Reach::Local => vec![("GIT_ALLOW_PROTOCOL", ""), ("GIT_NO_LAZY_FETCH", "1")],
        Reach::Files => vec![("GIT_ALLOW_PROTOCOL", "file"), ("GIT_NO_LAZY_FETCH", "1")],
        Reach::Network => vec![("GIT_ALLOW_PROTOCOL", "git:http:https:ssh")],
    }
}

/// Whether a name of git's settings matches a pattern, in which a star stands for at least one character.
pub(crate) fn is_match(pattern: &str, name: &str) -> bool {
    let Some((start, end)) = pattern.split_once('*') else { return pattern == name };
    name.len() > start.len() + end.len() && name.starts_with(start) && name.ends_with(end)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn overrides(listing: &str) -> Vec<(String, String)> {
        let variables = environment_after(Reach::Local, listing);
        let count: usize = variables["GIT_CONFIG_COUNT"].parse().unwrap();
        let pair = |number: usize| {
            let value = |part: &str| variables[&format!("GIT_CONFIG_{part}_{number}")].clone();
            (value("KEY"), value("VALUE"))
        };
        (0..count).map(pair).collect()
    }

    #[test]
    fn a_free_name_is_overridden_as_it_is_listed_and_nothing_else_is_added() {
        let plain = overrides("");
        let listed = overrides("core.bare\0filter.a=b.c.smudge\0filter.x.required\0alias.st\0remote.o.url\0");
        let added: Vec<_> = listed.into_iter().filter(|pair| !plain.contains(pair)).collect();
        let pair = |name: &str, off: &str| (name.to_owned(), off.to_owned());
        let expected =
            [pair("filter.a=b.c.smudge", ""), pair("filter.x.required", "false"), pair("alias.st", "")];
        assert_eq!(added, expected);
    }

    #[test]
    fn helpers_that_sign_in_stay_where_git_speaks_to_other_machines() {
        let count = |reach| environment(reach)["GIT_CONFIG_COUNT"].parse::<usize>().unwrap();
        assert_eq!(count(Reach::Local), count(Reach::Network) + 1);
    }
}
