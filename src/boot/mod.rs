//! Puts the parts together into a running server and takes them down again.
