//! Named durations, which are values: a program gets the normal ones, a test divided ones.

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
