//! Reading the audit trail.

use super::Fleet;
use super::caller::{Caller, Deed};
use super::error::Error;
use crate::domain::access::{Action, Target};
use crate::domain::page::{Page, PageRequest};

pub use crate::store::AuditRow as AuditEntry;

impl Fleet {
    pub async fn audit_list(&self, caller: &Caller, page: PageRequest) -> Result<Page<AuditEntry>, Error> {
        let deed = Deed { caller, action: Action::AuditRead, target: None };
        self.permit(&deed, Target::Fleet).await?;
        Ok(self.store().audit_page(page).await?)
    }
}
