//! Default values of arguments.

use super::DEFAULT_WAIT_FOR_CHANGE;
use super::word::{HistoryFilterWord, OneOf, UntilWord, WhenBusyWord};
use crate::domain::agent::Until;
use crate::domain::history::HistoryFilter;
use crate::domain::task::WhenBusy;

pub(super) fn first_page() -> i64 {
    1
}

pub(super) fn list_size() -> i64 {
    50
}

pub(super) fn history_size() -> i64 {
    20
}

pub(super) fn log_size() -> i64 {
    1
}

pub(super) fn change_wait() -> i64 {
    DEFAULT_WAIT_FOR_CHANGE
}

pub(super) fn yes() -> bool {
    true
}

pub(super) fn all_kinds() -> HistoryFilterWord {
    OneOf(HistoryFilter::All)
}

pub(super) fn any_change() -> UntilWord {
    OneOf(Until::AnyChange)
}

pub(super) fn reject() -> WhenBusyWord {
    OneOf(WhenBusy::Reject)
}
