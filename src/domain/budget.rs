//! Budgets: how much an agent may spend, and how a role narrows what the settings allow.

/// The spending limits of an agent; none means unlimited.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Budget {
    pub max_cost: Option<Usd>,
    pub max_tokens: Option<u64>,
}

/// The advice where a budget is used up.
pub const RAISE_BUDGET: &str = "raise max_cost_usd or max_tokens ([agents] in fleet.toml, or the role file), then \
                                restart the server and the agent";

/// An amount of money in millionths of a dollar, so that amounts compare exactly.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Usd(u64);

const MICROS: f64 = 1_000_000.0;
/// Far above any budget, and within the exact range of a float.
const MOST: f64 = 1_000_000.0;

impl Usd {
    /// A positive amount up to a million dollars.
    pub fn parse(dollars: f64) -> Option<Self> {
        let micros = (dollars * MICROS).round();
        let is_amount = dollars.is_finite() && micros >= 1.0 && dollars <= MOST;
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked to be in range")]
        is_amount.then_some(Self(micros as u64))
    }

    pub fn micros(self) -> u64 {
        self.0
    }

    pub fn dollars(self) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "amounts are far below what a float holds exactly")]
        let micros = self.0 as f64;
        micros / MICROS
    }
}

impl Budget {
    /// The smaller of each limit: a role narrows limits and never widens them.
    pub fn narrowed_by(self, other: Self) -> Self {
        Self {
            max_cost: smaller(self.max_cost, other.max_cost),
            max_tokens: smaller(self.max_tokens, other.max_tokens),
        }
    }
}

fn smaller<T: Ord>(one: Option<T>, other: Option<T>) -> Option<T> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_role_narrows_a_budget_and_never_widens_it() {
        let of = |cost: Option<f64>, max_tokens| Budget { max_cost: cost.and_then(Usd::parse), max_tokens };
        let settings = of(Some(5.0), Some(1_000));
        let cases = [
            (of(None, None), settings),
            (of(Some(2.5), Some(2_000)), of(Some(2.5), Some(1_000))),
            (of(Some(9.0), Some(10)), of(Some(5.0), Some(10))),
        ];
        for (role, expected) in cases {
            assert_eq!(settings.narrowed_by(role), expected);
            assert_eq!(of(None, None).narrowed_by(role), role);
        }
    }

    #[test]
    fn an_amount_is_positive_finite_and_comes_back_as_it_was() {
        for bad in [0.0, -1.0, f64::NAN, f64::INFINITY, 1e7, 1e-9] {
            assert_eq!(Usd::parse(bad), None, "{bad}");
        }
        assert_eq!(Usd::parse(2.5).map(Usd::dollars), Some(2.5));
    }
}
