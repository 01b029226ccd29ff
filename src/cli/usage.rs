//! Formats costs and tokens.

use crate::view::fleet::Spend;
use crate::view::usage::{UsageDetail, UsageRow};

/// "$0.42, 1234 tokens"; unknown values are named or omitted, never shown as zero.
pub(super) fn row(usage: &UsageRow) -> String {
    joined([cost(usage.cost_usd), tokens(usage.tokens), unknown(usage.unknown_runs)])
}

pub(super) fn detail(usage: &UsageDetail) -> String {
    let split = format!("{} tokens ({} in, {} out)", usage.tokens, usage.input_tokens, usage.output_tokens);
    let tokens = (usage.tokens > 0).then_some(split);
    joined([cost(usage.cost_usd), tokens, unknown(usage.unknown_runs)])
}

pub(super) fn spend(spend: &Spend) -> String {
    let known = format!("${:.2}, {} tokens", spend.usd, spend.tokens);
    joined([Some(known), unknown(spend.unknown_runs)])
}

fn cost(usd: Option<f64>) -> Option<String> {
    usd.map(|usd| format!("${usd:.2}"))
}

fn tokens(n: i64) -> Option<String> {
    (n > 0).then(|| format!("{n} tokens"))
}

fn unknown(n_runs: i64) -> Option<String> {
    match n_runs {
        0 => None,
        1 => Some("1 run of unknown cost".to_owned()),
        n => Some(format!("{n} runs of unknown cost")),
    }
}

fn joined<const N: usize>(parts: [Option<String>; N]) -> String {
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_unknown_is_never_shown_as_nothing() {
        let shown = |cost_usd, tokens, unknown_runs| row(&UsageRow { cost_usd, tokens, unknown_runs });
        assert_eq!(shown(Some(0.425), 1_234, 0), "$0.42, 1234 tokens");
        assert_eq!(shown(None, 1_234, 1), "1234 tokens, 1 run of unknown cost");
        assert_eq!(shown(None, 0, 2), "2 runs of unknown cost");
        let spent = Spend { usd: 1.5, tokens: 12, unknown_runs: 2 };
        assert_eq!(spend(&spent), "$1.50, 12 tokens, 2 runs of unknown cost");
    }
}
