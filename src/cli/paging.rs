//! Paging of long lists, and advice for the next page.

use clap::Args;

use crate::view::paging::Paging;

/// Which part of a long list.
#[derive(Debug, Clone, Args)]
pub(super) struct PageArgs {
    /// Page, starting at 1
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(super) page: i64,
    /// Entries per page, 1 to 100
    #[arg(long, value_name = "N", default_value_t = 50)]
    pub(super) page_size: i64,
}

/// The name of a list's entries, singular and plural.
#[derive(Debug, Clone, Copy)]
pub(super) struct EntryNoun {
    pub(super) one: &'static str,
    pub(super) many: &'static str,
}

pub(super) const AGENTS: EntryNoun = EntryNoun { one: "agent", many: "agents" };
pub(super) const MESSAGES: EntryNoun = EntryNoun { one: "message", many: "messages" };
pub(super) const ENTRIES: EntryNoun = EntryNoun { one: "entry", many: "entries" };

/// The position of a page, and how to see the next.
pub(super) fn position(paging: &Paging, noun: EntryNoun) -> String {
    let Paging { total_count, page, total_pages, .. } = paging;
    let what = if *total_count == 1 { noun.one } else { noun.many };
    match paging.has_next_page {
        true => format!("page {page} of {total_pages}, {total_count} {what}; --page {} shows more", page + 1),
        false => format!("page {page} of {total_pages}, {total_count} {what}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_not_many_and_a_next_page_is_named() {
        let paging = |total_count, has_next_page| Paging {
            total_count,
            page: 1,
            page_size: 50,
            total_pages: 2,
            has_next_page,
            has_previous_page: false,
        };
        assert_eq!(position(&paging(1, false), ENTRIES), "page 1 of 2, 1 entry");
        assert_eq!(position(&paging(60, true), AGENTS), "page 1 of 2, 60 agents; --page 2 shows more");
    }
}
