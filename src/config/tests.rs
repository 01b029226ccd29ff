//! Precedence, unknown keys, contradictions: each refused with where, what and the remedy.

use std::path::Path;

use secrecy::ExposeSecret;

use super::*;

fn environment(variables: &[(&str, &str)]) -> Environment {
    variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

fn load(dir: &Path, file: &str, variables: &[(&str, &str)], flags: Flags) -> Result<Settings, ConfigError> {
    std::fs::write(dir.join("fleet.toml"), file).unwrap();
    let flags = Flags { data_dir: Some(dir.to_owned()), ..flags };
    Settings::load(&flags, &environment(variables))
}

fn refusal(file: &str, variables: &[(&str, &str)]) -> String {
    let dir = tempfile::tempdir().unwrap();
    let message = load(dir.path(), file, variables, Flags::default()).unwrap_err().to_string();
    message.replace(&dir.path().display().to_string(), "DIR")
}

#[test]
fn a_flag_beats_the_environment_beats_the_file_beats_the_default() {
    let dir = tempfile::tempdir().unwrap();
    let port = |file: &str, variables: &[(&str, &str)], port: Option<u16>| {
        let flags = Flags { port, ..Flags::default() };
        load(dir.path(), file, variables, flags).unwrap().server.address.port()
    };
    assert_eq!(port("", &[], None), 3001);
    assert_eq!(port("[server]\nport = 1", &[], None), 1);
    assert_eq!(port("[server]\nport = 1", &[("MCP_SERVER_PORT", "2")], None), 2);
    assert_eq!(port("[server]\nport = 1", &[("MCP_SERVER_PORT", "2")], Some(0)), 0);
}

#[test]
fn a_token_is_taken_as_it_is_written() {
    let dir = tempfile::tempdir().unwrap();
    for token in ["00123", "1e5", "TRUE", "123456789012345678901234567890"] {
        let variables = [("CODER_URL", "http://127.0.0.1:1"), ("CODER_SESSION_TOKEN", token)];
        let settings = load(dir.path(), "", &variables, Flags::default()).unwrap();
        assert_eq!(settings.coder.unwrap().token.expose_secret(), token);
    }
}

#[test]
fn a_token_never_shows_in_debug_output() {
    let dir = tempfile::tempdir().unwrap();
    let variables = [("CODER_URL", "http://127.0.0.1:1"), ("CODER_SESSION_TOKEN", "canary-token")];
    let settings = load(dir.path(), "", &variables, Flags::default()).unwrap();
    assert!(!format!("{settings:?} {:?}", environment(&variables)).contains("canary-token"));
}

#[test]
fn what_cannot_be_used_is_refused_with_place_key_and_remedy() {
    let coder = ("CODER_URL", "http://127.0.0.1:1");
    let cases = [
        refusal("colour = 'red'", &[]),
        refusal("[server]\nprot = 1", &[]),
        refusal("[server]\nport = 'many'", &[]),
        refusal("[server\n", &[]),
        refusal("", &[("MCP_SERVER_PORT", "many")]),
        refusal("[server]\nbind = '0.0.0.0'", &[]),
        refusal("", &[coder]),
        refusal("[coder]\ntoken_file = '/x'", &[coder, ("CODER_SESSION_TOKEN", "t")]),
        refusal("", &[("CODER_URL", "ftp://x"), ("CODER_SESSION_TOKEN", "t")]),
        refusal("[coder]\nparallel_builds = 0", &[]),
        refusal("", &[("FLEET_DATABASE_URL", "postgres://x")]),
        refusal("", &[("AGENTS_DIRECTORY_PATH", "/absent/roles")]),
        refusal("[squads]\ncreate_chat_template = '/dev/null'", &[]),
    ];
    insta::assert_snapshot!(cases.join("\n---\n"));
}

/// `fleet_status` lists no outside MCP server, which is correct as long as no setting can name one.
#[test]
fn a_setting_that_names_an_outside_mcp_server_is_refused() {
    let message = refusal("[mcp.servers.github]\ncommand = 'x'", &[]);
    assert!(message.contains("servers"), "{message}");
}

#[test]
fn the_operators_directories_come_after_the_data_directorys_own() {
    let dir = tempfile::tempdir().unwrap();
    let variables = [("AGENTS_DIRECTORY_PATH", "/usr"), ("FLEET_PROJECTS_DIR", "/tmp")];
    let fleet = load(dir.path(), "", &variables, Flags::default()).unwrap().fleet;
    assert_eq!(fleet.role_dirs, [dir.path().join("roles"), PathBuf::from("/usr")]);
    assert_eq!(fleet.project_dirs, [dir.path().join("projects"), PathBuf::from("/tmp")]);
}
