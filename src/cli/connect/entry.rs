//! Our entry in a client's file: how to reach the fleet, as fields that any syntax can write.

use std::path::PathBuf;

use secrecy::{ExposeSecret, SecretString};
use url::Url;

/// How a client reaches the fleet.
#[derive(Debug)]
pub(super) enum Server {
    Stdio { program: PathBuf, arguments: Vec<String> },
    Http { url: Url, token: SecretString },
}

/// Whether others may read the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Secrecy {
    Open,
    /// It holds a token: only for its owner.
    Private,
}

/// The fields of an entry in the order they are written.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Entry {
    pub(super) fields: Vec<(&'static str, Field)>,
    /// Fields of the other transport, which would contradict these.
    pub(super) obsolete: &'static [&'static str],
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Field {
    Text(String),
    Number(i64),
    List(Vec<String>),
    Map(Vec<(&'static str, String)>),
}

impl Entry {
    /// For a client that infers the transport from the fields.
    pub(super) fn plain(server: &Server) -> Self {
        match server {
            Server::Stdio { program, arguments } => {
                Self { fields: command_fields(program, arguments).into(), obsolete: &["url", "headers"] }
            }
            Server::Http { url, token } => Self {
                fields: vec![("url", text(url.as_str())), header_field("headers", token)],
                obsolete: &["command", "args"],
            },
        }
    }

    /// For a client that requires a field for the transport.
    pub(super) fn typed(server: &Server) -> Self {
        let mut entry = Self::plain(server);
        let word = match server {
            Server::Stdio { .. } => "stdio",
            Server::Http { .. } => "http",
        };
        entry.fields.insert(0, ("type", text(word)));
        entry
    }
}

impl Server {
    pub(super) fn secrecy(&self) -> Secrecy {
        match self {
            Self::Stdio { .. } => Secrecy::Open,
            Self::Http { .. } => Secrecy::Private,
        }
    }
}

pub(super) fn text(text: &str) -> Field {
    Field::Text(text.to_owned())
}

/// The fields that start the bridge, which are the same for all clients.
pub(super) fn command_fields(program: &std::path::Path, arguments: &[String]) -> [(&'static str, Field); 2] {
    [("command", Field::Text(program.display().to_string())), ("args", Field::List(arguments.to_vec()))]
}

/// The header that carries the token, under this client's key for headers.
pub(super) fn header_field(key: &'static str, token: &SecretString) -> (&'static str, Field) {
    (key, Field::Map(vec![("Authorization", format!("Bearer {}", token.expose_secret()))]))
}
