//! All SQL: one file a resource, migrations, durability.
