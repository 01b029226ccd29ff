//! List prices of models, for budgets of runs in progress.
//!
//! In dollars per million tokens. The price of an unknown model is unknown, never estimated.

use super::spending::Spending;

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Price {
    /// The prefix of the models' names; the longest match applies.
    pub model: &'static str,
    pub input: f64,
    pub cache_write: f64,
    pub cache_read: f64,
    pub output: f64,
}

pub const PRICES: &[Price] = &[
    price("claude-opus-5-5", [4.0, 5.0, 0.2, 20.0]),
    price("claude-opus-4-1", [15.0, 18.75, 1.5, 75.0]),
    price("claude-opus-4-5", [5.0, 6.25, 0.5, 25.0]),
    price("claude-sonnet-4", [3.0, 3.75, 0.3, 15.0]),
    price("claude-haiku-4-5", [1.0, 1.25, 0.1, 5.0]),
    price("gpt-5", [1.25, 1.25, 0.125, 10.0]),
    price("gpt-5-mini", [0.25, 0.25, 0.025, 2.0]),
    // Later models of the same family have unknown prices.
];

const MILLION: f64 = 1e6;

const fn price(model: &'static str, [input, cache_write, cache_read, output]: [f64; 4]) -> Price {
    Price { model, input, cache_write, cache_read, output }
}

/// The cost of these tokens; none for an unknown model.
#[expect(clippy::cast_precision_loss, reason = "token counts are far below 2^52")]
pub fn cost(prices: &[Price], model: &str, spent: &Spending) -> Option<f64> {
    let known = prices.iter().filter(|price| is_of(model, price.model));
    let price = known.max_by_key(|price| price.model.len())?;
    let parts = [
        (spent.input, price.input),
        (spent.cache_write, price.cache_write),
        (spent.cache_read, price.cache_read),
        (spent.output, price.output),
    ];
    Some(parts.iter().map(|(tokens, price)| *tokens as f64 * price / MILLION).sum())
}

/// A name with a date or a variant in brackets is the same model; another version is not.
fn is_of(model: &str, known: &str) -> bool {
    let Some(rest) = model.strip_prefix(known) else { return false };
    let is_date = |text: &str| text.len() == 8 && text.bytes().all(|byte| byte.is_ascii_digit());
    let dated = rest.strip_prefix('-').map(|rest| rest.split(['-', '[']).next().unwrap_or_default());
    rest.is_empty() || rest.starts_with('[') || dated.is_some_and(is_date)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prices_match_the_costs_of_the_real_cli() {
        let spent = Spending { input: 1000, cache_write: 200, cache_read: 300, output: 42, cost_usd: None };
        let cost_of = |model| cost(PRICES, model, &spent).map(|cost| format!("{cost:.6}"));
        assert_eq!(cost_of("claude-opus-5-5").as_deref(), Some("0.005900"));
        assert_eq!(cost_of("claude-opus-5-5[1m]"), cost_of("claude-opus-5-5"));
        assert_eq!(cost_of("claude-opus-5-5-20260901"), cost_of("claude-opus-5-5"));
    }

    #[test]
    fn a_model_we_do_not_know_has_no_price() {
        let spent = Spending { output: 1, ..Spending::default() };
        for model in ["claude-opus-5-51", "claude-opus-6", "gpt-5.6-codex", "<synthetic>", ""] {
            assert_eq!(cost(PRICES, model, &spent), None, "{model}");
        }
    }
}
