//! The command line: one command group a file, a REST client of the running server.
