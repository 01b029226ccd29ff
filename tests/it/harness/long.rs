//! Which part of a long sweep a run plays: all of it with `tests/run --long`, samples otherwise.

/// Set by `tests/run --long`.
const VARIABLE: &str = "FLEET_TEST_LONG";

fn is_long() -> bool {
    std::env::var_os(VARIABLE).is_some()
}

/// How often a test repeats itself at random moments.
pub(crate) fn rounds<T>(long: T, normal: T) -> T {
    if is_long() { long } else { normal }
}

/// All moments of a sweep in a long run; the first, the middle and the last one otherwise.
pub(crate) fn moments<T: Copy>(all: &[T]) -> Vec<T> {
    if is_long() || all.len() <= 3 {
        return all.to_vec();
    }
    [0, all.len() / 2, all.len() - 1].map(|index| all[index]).to_vec()
}
