//! Which part of a long list to show, and how to see the rest.

use clap::Args;

use crate::view::paging::Paging;

/// Which part of a long list.
#[derive(Debug, Clone, Args)]
pub(super) struct PageArgs {
    /// Page, counted from 1
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(super) page: i64,
    /// Entries a page, 1 to 100
    #[arg(long, value_name = "N", default_value_t = 50)]
    pub(super) page_size: i64,
}

/// Where a page stands, and how to see the next.
pub(super) fn place(paging: &Paging, what: &str) -> String {
    let Paging { total_count, page, total_pages, .. } = paging;
    match paging.has_next_page {
        true => format!("page {page} of {total_pages}, {total_count} {what}; --page {} shows more", page + 1),
        false => format!("page {page} of {total_pages}, {total_count} {what}"),
    }
}
