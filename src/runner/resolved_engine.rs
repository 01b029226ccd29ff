//! The engine of this runner, resolved when it is first needed and then kept.
//!
//! The engine may be installed after the runner has started, so a failure to find it is never final.

use std::sync::Arc;

use tokio::sync::OnceCell;

use crate::engine::installed::{self, SearchPaths, Unavailable};
use crate::engine::{Engine, EngineWord};

#[derive(Debug, Clone)]
pub struct ResolvedEngine {
    word: EngineWord,
    search_paths: SearchPaths,
    found: Arc<OnceCell<Arc<dyn Engine>>>,
}

impl ResolvedEngine {
    pub fn new(word: EngineWord, search_paths: SearchPaths) -> Self {
        Self { word, search_paths, found: Arc::default() }
    }

    /// The resolved engine; before that, the requested one.
    pub(crate) fn word(&self) -> EngineWord {
        self.found.get().map_or(self.word, |engine| engine.word())
    }

    pub(crate) async fn get(&self) -> Result<Arc<dyn Engine>, Unavailable> {
        let found = self.found.get_or_try_init(|| installed::find(self.word, &self.search_paths)).await?;
        Ok(Arc::clone(found))
    }
}
