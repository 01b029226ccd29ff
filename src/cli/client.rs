//! The REST client of a running server: finds it, sends the token, returns its responses or errors.

use std::time::Duration;

use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Method, RequestBuilder, Response};
use secrecy::{ExposeSecret, SecretString};
use serde::Serialize;
use serde::de::DeserializeOwned;
use url::Url;

use super::data_files::DataFiles;
use super::error::CliError;
use super::globals::Globals;
use super::server_file::ServerFile;
use crate::address::is_loopback;
use crate::domain::directory::{HEADER, encode};
use crate::view::error::ErrorBody;

pub(super) const TOKEN_FILE: &str = "operator.token";
const TOKEN_VARIABLE: &str = "FLEET_TOKEN";
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Longer than the longest wait that the server grants and than the pauses of its event stream.
const READ_TIMEOUT: Duration = Duration::from_secs(75);

#[derive(Debug, Clone)]
pub(crate) struct Client {
    http: reqwest::Client,
    base: Url,
    source: ServerSource,
}

/// How the server was found, which decides what an unreachable server means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ServerSource {
    ByFile,
    ByAddress,
}

/// A response as the server sent it.
#[derive(Debug)]
pub(crate) struct Body(String);

impl Body {
    pub(crate) fn text(&self) -> &str {
        &self.0
    }

    pub(crate) fn read<T: DeserializeOwned>(&self) -> Result<T, CliError> {
        serde_json::from_str(&self.0).map_err(CliError::Undecodable)
    }
}

impl Client {
    /// A client of the server that these options select; sends no request yet.
    pub(crate) fn connect(globals: &Globals) -> Result<Self, CliError> {
        match &globals.url {
            Some(url) => {
                let token = token_of_environment().ok_or_else(|| CliError::NoToken { url: url.clone() })?;
                Self::new(url.clone(), &token, ServerSource::ByAddress)
            }
            None => {
                // The token belongs to the address beside it, so both are read from one open directory.
                let files = DataFiles::open(&globals.require_data_directory()?)?;
                let server = ServerFile::of(&files)?.ok_or(CliError::NoServer)?;
                let token = token_of_environment().map_or_else(|| token_of_file(&files, &server), Ok)?;
                Self::new(server.url, &token, ServerSource::ByFile)
            }
        }
    }

    /// The same server with another token.
    pub(crate) fn connect_as(globals: &Globals, token: &SecretString) -> Result<Self, CliError> {
        let Self { base, source, .. } = Self::connect(globals)?;
        Self::new(base, token, source)
    }

    /// The MCP URL of this server.
    pub(crate) fn mcp_url(&self) -> Url {
        let mut url = self.base.clone();
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.pop_if_empty().push("mcp");
        }
        url
    }

    fn new(url: Url, token: &SecretString, source: ServerSource) -> Result<Self, CliError> {
        let mut bearer = HeaderValue::from_str(&format!("Bearer {}", token.expose_secret()))
            .map_err(|_| CliError::BadToken)?;
        bearer.set_sensitive(true);
        let mut headers = HeaderMap::from_iter([(AUTHORIZATION, bearer)]);
        headers.extend(directory_for(&url, source));
        let mut builder = reqwest::Client::builder()
            .default_headers(headers)
            .redirect(reqwest::redirect::Policy::none())
            .connect_timeout(CONNECT_TIMEOUT)
            .read_timeout(READ_TIMEOUT);
        if is_loopback(&url) {
            builder = builder.no_proxy();
        }
        // Reading the machine's certificates takes longer than a call on loopback.
        if url.scheme() == "http" {
            builder = builder.tls_certs_only([]);
        }
        Ok(Self { http: builder.build().map_err(CliError::Client)?, base: url, source })
    }

    pub(crate) async fn get(&self, path: &[&str], query: &impl Serialize) -> Result<Body, CliError> {
        self.ask(self.request(Method::GET, path).query(query)).await
    }

    pub(crate) async fn post(&self, path: &[&str], body: &impl Serialize) -> Result<Body, CliError> {
        self.ask(self.request(Method::POST, path).json(body)).await
    }

    pub(crate) async fn delete(&self, path: &[&str], query: &impl Serialize) -> Result<Body, CliError> {
        self.ask(self.request(Method::DELETE, path).query(query)).await
    }

    pub(super) fn request(&self, method: Method, path: &[&str]) -> RequestBuilder {
        let mut url = self.base.clone();
        // Only URLs without a host have no path, and those were refused before.
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.pop_if_empty().extend(["api", "v1"]).extend(path);
        }
        self.http.request(method, url)
    }

    /// A successful response whose body is not read yet.
    pub(super) async fn open(&self, request: RequestBuilder) -> Result<Response, CliError> {
        let response = request.send().await.map_err(|error| self.absent(error))?;
        if response.status().is_success() {
            return Ok(response);
        }
        let status = response.status().as_u16();
        let text = response.text().await.map_err(|error| self.cut(error))?;
        match serde_json::from_str(&text) {
            Ok(body) => Err(CliError::Answered { body: Box::<ErrorBody>::new(body), text }),
            Err(_) => Err(CliError::Foreign { url: self.base.clone(), status }),
        }
    }

    async fn ask(&self, request: RequestBuilder) -> Result<Body, CliError> {
        let response = self.open(request).await?;
        response.text().await.map(Body).map_err(|error| self.cut(error))
    }

    /// If the server of a data directory does not answer, the file is left from a killed server.
    fn absent(&self, error: reqwest::Error) -> CliError {
        match self.source {
            ServerSource::ByFile if error.is_connect() => CliError::NoServer,
            ServerSource::ByFile | ServerSource::ByAddress => {
                CliError::Unreachable { url: self.base.clone(), source: error.without_url() }
            }
        }
    }

    pub(super) fn cut(&self, error: reqwest::Error) -> CliError {
        CliError::Cut { url: self.base.clone(), source: error.without_url() }
    }
}

/// Our directory is meaningful only to a server of this machine, and must not be disclosed to others.
fn directory_for(url: &Url, source: ServerSource) -> Option<(HeaderName, HeaderValue)> {
    let is_ours = source == ServerSource::ByFile || is_loopback(url);
    let encoded = encode(&std::env::current_dir().unwrap_or_default());
    Some((HeaderName::from_static(HEADER), HeaderValue::from_str(&encoded).ok().filter(|_| is_ours)?))
}

fn token_of_environment() -> Option<SecretString> {
    let token = std::env::var(TOKEN_VARIABLE).ok()?;
    (!token.trim().is_empty()).then(|| SecretString::from(token.trim().to_owned()))
}

/// The file's token belongs to the server beside it, so it is never sent to an address given explicitly.
fn token_of_file(files: &DataFiles, server: &ServerFile) -> Result<SecretString, CliError> {
    let token = files.read(TOKEN_FILE)?.ok_or_else(|| CliError::NoToken { url: server.url.clone() })?;
    Ok(SecretString::from(token.trim().to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_server_of_this_machine_learns_where_we_are() {
        let is_told = |url: &str, source| directory_for(&Url::parse(url).unwrap(), source).is_some();
        assert!(is_told("http://127.0.0.1:3001", ServerSource::ByAddress));
        assert!(is_told("http://192.0.2.1:3001", ServerSource::ByFile));
        assert!(!is_told("https://fleet.example.org", ServerSource::ByAddress));
    }
}
