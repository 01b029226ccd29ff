//! Counts the open requests of each caller: one caller must not use up all connections of a server.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The number of open requests per caller. Clones share the counts.
#[derive(Debug, Clone, Default)]
pub struct OpenRequests(Arc<Mutex<HashMap<String, usize>>>);

/// One open request, counted until this is dropped.
#[derive(Debug)]
pub struct OpenRequest {
    all: OpenRequests,
    caller: String,
}

impl OpenRequests {
    /// None if the caller has reached its limit.
    pub fn begin(&self, caller: String, most: usize) -> Option<OpenRequest> {
        let mut counts = self.counts();
        let count = counts.entry(caller.clone()).or_default();
        if *count >= most {
            return None;
        }
        *count += 1;
        drop(counts);
        Some(OpenRequest { all: self.clone(), caller })
    }

    fn counts(&self) -> MutexGuard<'_, HashMap<String, usize>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for OpenRequest {
    fn drop(&mut self) {
        let mut counts = self.all.counts();
        if let Some(count) = counts.get_mut(&self.caller) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.caller);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_caller_has_so_many_requests_open_and_others_have_theirs() {
        let all = OpenRequests::default();
        let begin = |caller: &str| all.begin(caller.to_owned(), 2);
        let (first, _second) = (begin("one").unwrap(), begin("one").unwrap());
        assert!(begin("one").is_none());
        let other = begin("other").unwrap();
        drop((first, other));
        assert!(begin("one").is_some());
        assert_eq!(*all.counts(), HashMap::from([("one".to_owned(), 1)]));
    }
}
