//! What tests share: a stateful Coder stub, a fault proxy, fixtures.
