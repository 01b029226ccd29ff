//! The HTTP surface: REST, events, health, authentication.
