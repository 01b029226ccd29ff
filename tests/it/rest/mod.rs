//! The HTTP surface over a real socket: whole replies, who gets in, events, and the document that describes it.

mod access;
mod answers;
mod errors;
mod events;
mod openapi;
mod rights;
mod routes;
mod server;
mod spending;

use server::{Server, reply_text};

/// Compares a whole reply with its snapshot; ids, times, addresses and tokens are replaced by their kind.
macro_rules! assert_reply {
    ($name:literal, $reply:expr) => {
        let text = $crate::rest::reply_text(&$reply);
        let filters = $crate::rest::server::FILTERS.to_vec();
        insta::with_settings!({ filters => filters, omit_expression => true }, {
            insta::assert_snapshot!($name, text);
        });
    };
}
use assert_reply;
