//! Stops the server: checked and audited here, carried out by the program around it.

use tokio_util::sync::CancellationToken;

use super::Fleet;
use super::caller::{AuditedCall, Caller, Permit, ServerStop};
use super::error::Error;
use crate::domain::access::Target;

impl Fleet {
    /// Both answers are audited. On a full disk the server stops unaudited, since it could not be stopped otherwise.
    pub async fn server_stop(&self, caller: &Caller, shutdown: &CancellationToken) -> Result<(), Error> {
        let call = AuditedCall { caller, action: ServerStop, target: None };
        let permit = self.permit(&call, Target::Fleet).await?;
        match self.audited(&call, Ok(()), |()| None).await {
            Ok(()) => {}
            Err(Error::DiskFull) => {
                let name = &caller.principal.name;
                tracing::warn!(principal.name = name, "the shutdown is not recorded: the disk is full");
            }
            Err(error) => return Err(error),
        }
        stop(&permit, shutdown);
        Ok(())
    }
}

fn stop(_: &Permit<'_, ServerStop, Target<'_>>, shutdown: &CancellationToken) {
    shutdown.cancel();
}
