//! The decision to stop the server; whoever runs it carries it out.

use super::Fleet;
use super::caller::{Caller, Deed};
use super::error::Error;
use crate::domain::access::{Action, Target};

impl Fleet {
    /// May this caller stop the server? Either answer leaves its row.
    pub async fn server_stop(&self, caller: &Caller) -> Result<(), Error> {
        let deed = Deed { caller, action: Action::ServerStop, target: None };
        self.permit(&deed, Target::Fleet).await?;
        self.audited(&deed, Ok(()), |()| None).await
    }
}
