//! Locates a page of the journal, so that reading it skips at most a part of one day.

use crate::domain::page::PageRequest;

pub(super) const DAY_MICROS: i64 = 24 * 60 * 60 * 1_000_000;

/// The number of entries of a day.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Day {
    pub(super) number: i64,
    pub(super) entries: u64,
}

/// The rows of a page: this many from that edge of a day, after an offset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Window {
    pub(super) from: PageStart,
    pub(super) skip: i64,
    pub(super) take: i64,
}

/// The starting point and the direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PageStart {
    /// Before this instant, towards older entries.
    Before(i64),
    /// From this instant on, towards newer entries.
    From(i64),
}

pub(super) fn day_of(micros: i64) -> i64 {
    micros.div_euclid(DAY_MICROS)
}

impl Window {
    /// The page of a journal with these days, newest first; none past the end.
    pub(super) fn of(page: PageRequest, days: &[Day]) -> Option<Self> {
        let total: u64 = days.iter().map(|day| day.entries).sum();
        let take = total.checked_sub(page.offset())?.min(u64::from(page.size()));
        let last = (page.offset() + take).checked_sub(1)?;
        let (first_day, newer) = holding(page.offset(), days)?;
        let (last_day, before_last) = holding(last, days)?;
        let older = last_day.entries - before_last - 1;
        let (from, skip) = if newer <= older {
            (PageStart::Before((first_day.number + 1) * DAY_MICROS), newer)
        } else {
            (PageStart::From(last_day.number * DAY_MICROS), older)
        };
        Some(Self { from, skip: skip.cast_signed(), take: take.cast_signed() })
    }
}

/// The day that contains the entry at this position, and how many entries of that day are newer.
fn holding(place: u64, days: &[Day]) -> Option<(Day, u64)> {
    let mut left = place;
    for day in days {
        match left.checked_sub(day.entries) {
            Some(rest) => left = rest,
            None => return Some((*day, left)),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAYS: [Day; 3] =
        [Day { number: 9, entries: 10 }, Day { number: 5, entries: 100 }, Day { number: 4, entries: 3 }];

    fn window(page: i64, size: i64) -> Option<Window> {
        Window::of(PageRequest::parse(page, size).unwrap(), &DAYS)
    }

    fn before(day: i64, skip: i64, take: i64) -> Option<Window> {
        Some(Window { from: PageStart::Before((day + 1) * DAY_MICROS), skip, take })
    }

    fn from(day: i64, skip: i64, take: i64) -> Option<Window> {
        Some(Window { from: PageStart::From(day * DAY_MICROS), skip, take })
    }

    #[test]
    fn pages_are_reached_from_the_nearest_edge_of_a_day() {
        assert_eq!(window(1, 4), before(9, 0, 4), "the newest");
        assert_eq!(window(2, 6), before(9, 6, 6), "over the end of a day");
        assert_eq!(window(2, 10), before(5, 0, 10), "the start of a day");
        assert_eq!(window(10, 10), from(5, 10, 10), "late in a day");
        assert_eq!(window(38, 3), from(4, 0, 2), "the oldest, not a full page");
        assert_eq!(window(13, 10), None, "past the end");
    }

    #[test]
    fn an_empty_journal_has_no_page() {
        assert_eq!(Window::of(PageRequest::parse(1, 20).unwrap(), &[]), None);
    }

    #[test]
    fn times_before_1970_have_days_too() {
        assert_eq!([-DAY_MICROS - 1, -1, 0, DAY_MICROS - 1, DAY_MICROS].map(day_of), [-2, -1, 0, 0, 1]);
    }
}
