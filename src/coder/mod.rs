//! The typed client of a Coder server; it knows nothing of fleets.
