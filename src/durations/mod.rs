//! Named durations, which are values: a program gets the normal ones, a test divided ones.

mod backoff;

use std::time::Duration;

pub use backoff::Backoff;

/// Defines a struct of durations with their normal values, so that each one stands in one place.
macro_rules! limits {
    (
        $(#[$about:meta])*
        $name:ident { $($(#[$doc:meta])* $field:ident: $type:ty = $normal:expr,)* }
    ) => {
        $(#[$about])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub struct $name { $($(#[$doc])* pub $field: $type,)* }

        impl $name {
            pub const NORMAL: Self = Self { $($field: $normal,)* };

            /// Every duration shortened alike, so that their order is kept.
            pub fn divided_by(self, divisor: u8) -> Self {
                Self { $($field: self.$field / divisor.into(),)* }
            }
        }
    };
}
pub(crate) use limits;

/// The duration in whole seconds, rounded up: a shell does not count in fractions.
pub(crate) fn whole_seconds(duration: Duration) -> u64 {
    duration.as_secs() + u64::from(duration.subsec_nanos() > 0)
}
