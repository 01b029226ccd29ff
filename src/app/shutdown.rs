//! The decision to stop the server; whoever runs it carries it out.

use super::Fleet;
use super::caller::{Caller, Deed};
use super::error::Error;
use crate::domain::access::{Action, Target};

impl Fleet {
    /// May this caller stop the server? Either answer leaves its row, unless the disk is full: then nobody would
    /// ever get it to stop.
    pub async fn server_stop(&self, caller: &Caller) -> Result<(), Error> {
        let deed = Deed { caller, action: Action::ServerStop, target: None };
        self.permit(&deed, Target::Fleet).await?;
        match self.audited(&deed, Ok(()), |()| None).await {
            Err(Error::DiskFull) => {
                tracing::warn!(
                    principal.name = caller.principal.name,
                    "the shutdown is not recorded: the disk is full"
                );
                Ok(())
            }
            audited => audited,
        }
    }
}
