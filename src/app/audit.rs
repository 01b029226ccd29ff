//! Reading the audit trail.

use super::Fleet;
use super::caller::{AuditedCall, Caller};
use super::error::Error;
use crate::domain::access::{Action, Target};
use crate::domain::page::{Page, PageRequest};
use crate::domain::token::LONGEST_NAME;

pub use crate::store::AuditRow as AuditEntry;

/// The caller's target as the trail may store it: a longer text is no name, may be a secret, and could fill the disk.
pub fn repeatable(target: &str) -> Option<String> {
    (target.chars().count() <= LONGEST_NAME).then(|| target.to_owned())
}

impl Fleet {
    pub async fn audit_list(&self, caller: &Caller, page: PageRequest) -> Result<Page<AuditEntry>, Error> {
        let call = AuditedCall { caller, action: Action::AuditRead, target: None };
        self.permit(&call, Target::Fleet).await?;
        Ok(self.store().audit_page(page).await?)
    }
}
