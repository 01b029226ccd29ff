//! The terminals of one workspace agent, by reconnect id.

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use uuid::Uuid;

use super::session::{Session, Terminal};
use super::shared::{Attachment, Shared};
use super::{PtyInput, PtySpec};
use crate::local::LocalLimits;

type Sessions = Arc<Mutex<HashMap<Uuid, Arc<Shared>>>>;

/// The terminals of one agent.
#[derive(Debug)]
pub struct PtySessions {
    limits: LocalLimits,
    sessions: Sessions,
    tasks: TaskTracker,
    stop: CancellationToken,
}

impl PtySessions {
    pub fn new(limits: LocalLimits) -> Self {
        Self {
            limits,
            sessions: Sessions::default(),
            tasks: TaskTracker::new(),
            stop: CancellationToken::new(),
        }
    }

    /// Attaches to the terminal with this id, or starts one. Requires a tokio runtime.
    pub fn attach(&self, reconnect: Uuid, spec: &PtySpec) -> io::Result<Attachment> {
        // Taken before the check for closing, so that `close` waits for this start.
        let _starting = self.tasks.token();
        let (attachment, fresh) = self.find_or_reserve(reconnect)?;
        let Some(terminal) = fresh else {
            resize(&attachment, spec);
            return Ok(attachment);
        };
        let shared = Arc::clone(&terminal.shared);
        match Session::start(spec, terminal) {
            Ok(session) => {
                self.tasks.spawn(self.lifetime(reconnect, session));
                Ok(attachment)
            }
            Err(error) => {
                shared.end();
                forget(&self.sessions, reconnect, &shared);
                Err(error)
            }
        }
    }

    /// The terminal with this id, or a new one whose command is started later: starting it under the lock would
    /// block the terminals of all agents.
    fn find_or_reserve(&self, reconnect: Uuid) -> io::Result<(Attachment, Option<Terminal>)> {
        let mut sessions = lock(&self.sessions);
        if let Some(attachment) = sessions.get(&reconnect).and_then(Shared::attach) {
            return Ok((attachment, None));
        }
        if self.stop.is_cancelled() {
            return Err(io::Error::other("the terminals of this agent are closed"));
        }
        let terminal = Terminal::new();
        let ended = || io::Error::other("the terminal closed before its command was started");
        let attachment = terminal.shared.attach().ok_or_else(ended)?;
        sessions.insert(reconnect, Arc::clone(&terminal.shared));
        Ok((attachment, Some(terminal)))
    }

    /// Ends every terminal with its session, and waits for that.
    pub async fn close(&self) {
        self.stop.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }

    fn lifetime(&self, reconnect: Uuid, session: Session) -> impl Future<Output = ()> + use<> {
        let (limits, stop, sessions) = (self.limits, self.stop.clone(), Arc::clone(&self.sessions));
        let shared = Arc::clone(&session.shared);
        async move {
            session.run(&limits, stop).await;
            forget(&sessions, reconnect, &shared);
        }
    }
}

/// Another terminal may have the id by now.
fn forget(sessions: &Sessions, reconnect: Uuid, ended: &Arc<Shared>) {
    let mut sessions = lock(sessions);
    if sessions.get(&reconnect).is_some_and(|current| Arc::ptr_eq(current, ended)) {
        sessions.remove(&reconnect);
    }
}

/// A full queue means that the command reads no input; the size is then sent with the client's next resize.
fn resize(attachment: &Attachment, spec: &PtySpec) {
    let PtySpec { width, height, .. } = *spec;
    attachment.input().try_send(PtyInput::Resize { width, height }).ok();
}

fn lock(sessions: &Sessions) -> MutexGuard<'_, HashMap<Uuid, Arc<Shared>>> {
    sessions.lock().unwrap_or_else(PoisonError::into_inner)
}
