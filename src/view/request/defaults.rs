//! Values of arguments that were left out.

use super::DEFAULT_WAIT_FOR_CHANGE;

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

pub(super) fn all_kinds() -> String {
    "all".into()
}

pub(super) fn any_change() -> String {
    "any_change".into()
}

pub(super) fn reject() -> String {
    "reject".into()
}
