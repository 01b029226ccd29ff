//! Derives ids from names, so that they are the same after every start.

use sha2::{Digest, Sha256};
use uuid::{Builder, Uuid};

/// The id of `name` within `scope`.
pub(crate) fn named(scope: Uuid, name: &str) -> Uuid {
    let digest = Sha256::new().chain_update(scope.as_bytes()).chain_update(name).finalize();
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&digest[..16]);
    Builder::from_custom_bytes(bytes).into_uuid()
}

#[cfg(test)]
mod tests {
    use super::named;
    use uuid::Uuid;

    #[test]
    fn an_id_depends_on_its_scope_and_its_name_alone() {
        let (one, other) = (Uuid::from_u128(1), Uuid::from_u128(2));
        assert_eq!(named(one, "user"), named(one, "user"));
        assert_ne!(named(one, "user"), named(one, "template"));
        assert_ne!(named(one, "user"), named(other, "user"));
    }
}
