//! Use cases: what a caller may do with the fleet, one file a resource.
