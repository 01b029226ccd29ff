//! Pure types and rules of the fleet: no I/O, no serde.
