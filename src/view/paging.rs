//! The position of a page in its list; flattened into every paged answer.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::domain::page::Page;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, ToSchema)]
pub struct Paging {
    pub total_count: i64,
    pub page: i64,
    pub page_size: i64,
    pub total_pages: i64,
    pub has_next_page: bool,
    pub has_previous_page: bool,
}

impl Paging {
    pub fn of<T>(page: &Page<T>) -> Self {
        Self {
            total_count: count(page.total_count),
            page: i64::from(page.request.page()),
            page_size: i64::from(page.request.size()),
            total_pages: count(page.total_pages()),
            has_next_page: page.has_next(),
            has_previous_page: page.has_previous(),
        }
    }
}

/// Counts are signed numbers: unsigned formats cause warnings in some clients.
pub(crate) fn count(n: u64) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}
