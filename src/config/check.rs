//! Turns merged values into settings; refuses contradictory and unsafe ones.

use std::net::{IpAddr, SocketAddr};
use std::num::{NonZeroU32, NonZeroUsize};
use std::path::{Path, PathBuf};
use std::time::Duration;

use chrono::TimeDelta;
use secrecy::SecretString;
use url::Url;

use super::file::{Agents, Coder, Log, Merged, Server};
use super::source::Environment;
use super::squads;
use super::{
    CoderSettings, ConfigError, FleetSettings, LogFormat, LogSettings, ServerSettings, Settings, TokenSource,
};

/// Coder allows 512 requests per minute and path; we stay below.
const MOST_REQUESTS: u32 = 500;

pub(super) fn checked(
    merged: Merged,
    data_dir: PathBuf,
    environment: &Environment,
) -> Result<Settings, ConfigError> {
    if environment.get("FLEET_DATABASE_URL").is_some() {
        let problem = "FLEET_DATABASE_URL is set, but this version stores in SQLite only: unset it";
        return Err(ConfigError::Contradiction(problem.into()));
    }
    Ok(Settings {
        fleet: fleet(&merged, &data_dir)?,
        database: merged.store.path.unwrap_or_else(|| data_dir.join("fleet.db")),
        server: server(merged.server)?,
        coder: coder(&merged.coder, environment)?,
        log: log(merged.log)?,
        squads: squads::checked(merged.squads, merged.runs, merged.mcp.tool_timeout_ms)?,
        toolsets: merged.mcp.toolsets,
        data_dir,
    })
}

pub(super) fn bad(key: &str, problem: impl Into<String>) -> ConfigError {
    ConfigError::Value { origin: "settings".into(), key: key.into(), problem: problem.into() }
}

fn server(server: Server) -> Result<ServerSettings, ConfigError> {
    let ip: IpAddr = match server.bind.as_str() {
        "localhost" => IpAddr::from([127, 0, 0, 1]),
        text => text.parse().map_err(|_| bad("server.bind", format!("'{text}' is not an IP address")))?,
    };
    if !ip.is_loopback() && !server.behind_tls {
        let problem = format!(
            "{ip} can be reached from outside and this server speaks no TLS: bind to 127.0.0.1, \
             or put a TLS proxy in front and set server.behind_tls = true"
        );
        return Err(bad("server.bind", problem));
    }
    let public_url = server.public_url.as_deref().map(|url| web_url("server.public_url", url)).transpose()?;
    Ok(ServerSettings {
        address: SocketAddr::new(ip, server.port),
        public_url: public_url.map(|url| url.as_str().trim_end_matches('/').to_owned()),
        allowed_hosts: server.allowed_hosts,
        allowed_origins: server.allowed_origins,
    })
}

fn web_url(key: &str, text: &str) -> Result<Url, ConfigError> {
    let url = Url::parse(text).map_err(|error| bad(key, format!("'{text}' is not an address: {error}")))?;
    if !matches!(url.scheme(), "http" | "https") || !url.has_host() {
        return Err(bad(key, format!("'{text}' is not an http or https address")));
    }
    Ok(url)
}

fn coder(coder: &Coder, environment: &Environment) -> Result<Option<CoderSettings>, ConfigError> {
    let Some(text) = coder.url.as_deref().filter(|url| !url.trim().is_empty()) else { return Ok(None) };
    let url = web_url("coder.url", text)?;
    let (token, token_source) = token(coder.token_file.as_deref(), environment)?;
    let requests = NonZeroU32::new(coder.requests_per_minute).filter(|n| n.get() <= MOST_REQUESTS);
    Ok(Some(CoderSettings {
        url,
        token,
        token_source,
        requests_per_minute: requests.ok_or_else(|| {
            bad("coder.requests_per_minute", format!("it must be between 1 and {MOST_REQUESTS}"))
        })?,
    }))
}

fn token(file: Option<&Path>, environment: &Environment) -> Result<(SecretString, TokenSource), ConfigError> {
    match (environment.secret("CODER_SESSION_TOKEN"), file) {
        (Some(_), Some(_)) => Err(ConfigError::Contradiction(
            "CODER_SESSION_TOKEN and coder.token_file are both set: unset one of them".into(),
        )),
        (Some(token), None) => Ok((token, TokenSource::Environment)),
        (None, Some(path)) => Ok((read_token(path)?, TokenSource::File(path.to_owned()))),
        (None, None) => Err(ConfigError::Contradiction(
            "a Coder address is set but no token: set CODER_SESSION_TOKEN, or coder.token_file to a file that has it".into(),
        )),
    }
}

/// Reads a token file, also later when Coder refuses the current token.
pub(crate) fn read_token(path: &Path) -> Result<SecretString, ConfigError> {
    let file = |problem: String| ConfigError::File { path: path.to_owned(), problem };
    let text = std::fs::read_to_string(path).map_err(|error| file(error.to_string()))?;
    let text = text.trim();
    if text.is_empty() {
        Err(file("the file is empty".into()))
    } else {
        Ok(SecretString::from(text.to_owned()))
    }
}

fn fleet(merged: &Merged, data_dir: &Path) -> Result<FleetSettings, ConfigError> {
    let Merged { fleet, coder, agents, .. } = merged;
    check_budget(agents)?;
    let builds = NonZeroUsize::new(coder.parallel_builds).filter(|n| n.get() <= 100);
    if !(100..=60_000).contains(&coder.poll_interval_ms) {
        return Err(bad("coder.poll_interval_ms", "it must be between 100 and 60000"));
    }
    if !(10..=86_400).contains(&coder.build_timeout_seconds) {
        return Err(bad("coder.build_timeout_seconds", "it must be between 10 and 86400"));
    }
    let dirs = |name: &str, further: Option<PathBuf>| {
        [Some(data_dir.join(name)), further].into_iter().flatten().collect()
    };
    let (roles_dir, projects_dir) = (&fleet.roles_dir, &fleet.projects_dir);
    Ok(FleetSettings {
        poll_interval: Duration::from_millis(coder.poll_interval_ms),
        parallel_builds: builds
            .ok_or_else(|| bad("coder.parallel_builds", "it must be between 1 and 100"))?,
        build_timeout: Duration::from_secs(coder.build_timeout_seconds),
        stuck_after: TimeDelta::minutes(i64::from(fleet.stuck_after_minutes.max(1))),
        max_cost_usd: agents.max_cost_usd,
        max_tokens: agents.max_tokens,
        allows_less_isolation: agents.allow_less_isolation,
        role_dirs: dirs("roles", named("fleet.roles_dir", roles_dir.as_deref())?),
        project_dirs: dirs("projects", named("fleet.projects_dir", projects_dir.as_deref())?),
    })
}

/// A directory named in the settings must exist; only our own defaults may be missing.
fn named(key: &str, dir: Option<&Path>) -> Result<Option<PathBuf>, ConfigError> {
    match dir {
        Some(dir) if !dir.is_dir() => {
            Err(bad(key, format!("'{}' is not a directory: create it, or choose another one", dir.display())))
        }
        Some(dir) => Ok(Some(dir.to_owned())),
        None => Ok(None),
    }
}

fn check_budget(agents: &Agents) -> Result<(), ConfigError> {
    if agents.max_cost_usd.is_some_and(|cost| !(0.01..=1_000_000.0).contains(&cost)) {
        return Err(bad("agents.max_cost_usd", "it must be between 0.01 and 1000000; omit it for no limit"));
    }
    if agents.max_tokens == Some(0) {
        return Err(bad("agents.max_tokens", "it must be at least 1; omit it for no limit"));
    }
    Ok(())
}

fn log(log: Log) -> Result<LogSettings, ConfigError> {
    let format = match log.format.as_str() {
        "text" => LogFormat::Text,
        "json" => LogFormat::Json,
        other => return Err(bad("log.format", format!("'{other}' is not text or json"))),
    };
    Ok(LogSettings { level: log.level, format })
}
