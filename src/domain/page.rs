//! Paging arithmetic shared by every list: one-based pages, true totals past the end.

use thiserror::Error;

/// A valid page and size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageRequest {
    page: u32,
    size: u32,
}

/// One page of a list and its position in the whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page<T> {
    pub items: Vec<T>,
    pub total_count: u64,
    pub request: PageRequest,
}

#[derive(Debug, Error, PartialEq, Eq)]
pub enum PageError {
    #[error("page is {0}; it must be at least 1")]
    Page(i64),
    #[error("page_size is {0}; it must be between 1 and {MAX_SIZE}")]
    Size(i64),
}

pub const MAX_SIZE: u32 = 100;

impl PageRequest {
    pub fn parse(page: i64, size: i64) -> Result<Self, PageError> {
        let page_number = u32::try_from(page).ok().filter(|page| *page >= 1).ok_or(PageError::Page(page))?;
        let page_size = u32::try_from(size)
            .ok()
            .filter(|size| (1..=MAX_SIZE).contains(size))
            .ok_or(PageError::Size(size))?;
        Ok(Self { page: page_number, size: page_size })
    }

    pub fn page(self) -> u32 {
        self.page
    }

    pub fn size(self) -> u32 {
        self.size
    }

    pub fn offset(self) -> u64 {
        u64::from(self.page - 1) * u64::from(self.size)
    }

    /// The page of a list that is completely in memory.
    pub fn of<T: Clone>(self, all: &[T]) -> Page<T> {
        let offset = usize::try_from(self.offset()).unwrap_or(usize::MAX);
        let items = all.iter().skip(offset).take(self.size as usize).cloned().collect();
        Page { items, total_count: all.len() as u64, request: self }
    }
}

impl<T> Page<T> {
    pub fn total_pages(&self) -> u64 {
        self.total_count.div_ceil(u64::from(self.request.size))
    }

    pub fn has_next(&self) -> bool {
        u64::from(self.request.page) < self.total_pages()
    }

    /// Whether there is a page before this one. Past the end there is, if the list has any page at all.
    pub fn has_previous(&self) -> bool {
        self.request.page > 1 && self.total_pages() > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn pages_out_of_range_are_refused() {
        assert_eq!(PageRequest::parse(0, 20), Err(PageError::Page(0)));
        assert_eq!(PageRequest::parse(1, 0), Err(PageError::Size(0)));
        assert_eq!(PageRequest::parse(1, 101), Err(PageError::Size(101)));
        assert_eq!(PageRequest::parse(i64::MAX, 20), Err(PageError::Page(i64::MAX)));
    }

    #[test]
    fn past_the_end_is_an_empty_page_with_true_totals() {
        let page = PageRequest::parse(9, 2).unwrap().of(&[1, 2, 3]);
        assert_eq!(page.items, Vec::<i32>::new());
        assert_eq!((page.total_count, page.total_pages()), (3, 2));
        assert!(!page.has_next() && page.has_previous());
    }

    proptest! {
        #[test]
        fn pages_together_are_the_whole_list(n in 0usize..300, size in 1i64..=100) {
            let all: Vec<usize> = (0..n).collect();
            let mut seen = Vec::new();
            let mut number = 1;
            loop {
                let page = PageRequest::parse(number, size).unwrap().of(&all);
                seen.extend(page.items.iter().copied());
                if !page.has_next() { break }
                number += 1;
            }
            prop_assert_eq!(seen, all);
        }
    }
}
