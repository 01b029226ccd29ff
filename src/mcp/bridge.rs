//! Carries a client's stdio to the HTTP endpoint.
