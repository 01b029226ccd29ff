//! The usage of agents: figures from inside workspaces, counted only upwards and within bounds.
//!
//! Agents write these figures, so none is trusted. A counter keeps the highest reported figure; only the excess is
//! added to the day, and more than an agent can use in a day is rejected.

use std::fmt;

use super::budget::Usd;
use super::word_enum::word_enum;

/// The most that one agent uses per day, including cached tokens.
const MOST_TOKENS_A_DAY: u64 = 10_000_000_000;
const MOST_MICROS_A_DAY: u64 = 10_000 * MICROS;
const MOST_UNKNOWN_A_DAY: u64 = 100_000;
const MICROS: u64 = 1_000_000;
/// The counter of the agent's own record.
pub const OWN_RECORD: &str = "agent";

/// Tokens and costs, in millionths of a dollar. An unknown cost is none, never zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Figures {
    /// All input tokens, including cached ones.
    pub input_tokens: u64,
    pub output_tokens: u64,
    pub cost_micros: Option<u64>,
    /// Runs without reported usage, which the figures above lack.
    pub unknown_runs: u64,
}

/// The highest figures reported to a counter, and the start of the agent that reported them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mark {
    pub generation: i64,
    pub highest: Figures,
}

/// The effect of a new figure on its counter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CounterChange {
    Same,
    Grown {
        mark: Mark,
        added: Figures,
    },
    /// More than an agent can use in a day: not counted, and the mark stays.
    Absurd,
}

word_enum! {
    /// The spender: the agent itself, or a squad's member in its workspace.
    Spender {
        Agent = "agent",
        Member = "member",
    }
}

/// The usage so far, of one agent, or of all on one day.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct UsageTotal {
    /// Of agents themselves.
    pub own: Figures,
    /// Of agents and of members of squads.
    pub all: Figures,
}

impl Figures {
    /// Reported figures. An invalid cost is unknown; an excessive one stays beyond all bounds.
    pub fn reported(input_tokens: u64, output_tokens: u64, cost_usd: Option<f64>) -> Self {
        let micros = |cost: f64| match Usd::parse(cost) {
            Some(amount) => Some(amount.micros()),
            None if cost > 1.0 => Some(u64::MAX),
            None => (0.0..1.0).contains(&cost).then_some(0),
        };
        Self { input_tokens, output_tokens, cost_micros: cost_usd.and_then(micros), unknown_runs: 0 }
    }

    /// For runs without reported usage only their number is known.
    pub fn unknown(unknown_runs: u64) -> Self {
        Self { unknown_runs, ..Self::default() }
    }

    pub fn tokens(&self) -> u64 {
        self.input_tokens.saturating_add(self.output_tokens)
    }

    #[expect(clippy::cast_precision_loss, reason = "amounts are far below what a float holds exactly")]
    pub fn cost_usd(&self) -> Option<f64> {
        self.cost_micros.map(|micros| micros as f64 / MICROS as f64)
    }

    pub fn plus(&self, more: &Self) -> Self {
        let cost_micros = match (self.cost_micros, more.cost_micros) {
            (Some(cost), Some(added)) => Some(cost.saturating_add(added)),
            (known, None) | (None, known) => known,
        };
        Self {
            input_tokens: self.input_tokens.saturating_add(more.input_tokens),
            output_tokens: self.output_tokens.saturating_add(more.output_tokens),
            cost_micros,
            unknown_runs: self.unknown_runs.saturating_add(more.unknown_runs),
        }
    }

    fn since(&self, base: &Self) -> Self {
        let cost_micros =
            self.cost_micros.map(|cost| cost.saturating_sub(base.cost_micros.unwrap_or_default()));
        Self {
            input_tokens: self.input_tokens.saturating_sub(base.input_tokens),
            output_tokens: self.output_tokens.saturating_sub(base.output_tokens),
            cost_micros,
            unknown_runs: self.unknown_runs.saturating_sub(base.unknown_runs),
        }
    }

    /// The higher of each figure. Implausible figures count only as long as there are no others.
    pub fn raised_by(&self, other: &Self) -> Self {
        match (self.fits_a_day(), other.fits_a_day()) {
            (true, true) | (false, false) => self.highest(other),
            (true, false) => *self,
            (false, true) => *other,
        }
    }

    fn highest(&self, other: &Self) -> Self {
        Self {
            input_tokens: self.input_tokens.max(other.input_tokens),
            output_tokens: self.output_tokens.max(other.output_tokens),
            cost_micros: self.cost_micros.max(other.cost_micros),
            unknown_runs: self.unknown_runs.max(other.unknown_runs),
        }
    }

    fn fits_a_day(&self) -> bool {
        self.tokens() <= MOST_TOKENS_A_DAY
            && self.cost_micros.unwrap_or_default() <= MOST_MICROS_A_DAY
            && self.unknown_runs <= MOST_UNKNOWN_A_DAY
    }
}

impl Mark {
    /// Compares a reported figure with the known one. A new start of an agent that reports less has lost its record
    /// with its disk and counts from zero; in the same start a lower figure is ignored. An unchanged figure leaves
    /// the mark to the older start: the values of a stopped start may be shown for a moment longer.
    pub fn step(known: Option<Self>, reported: Self, today: &Figures) -> CounterChange {
        let base = match known {
            Some(known) if reported.generation < known.generation => return CounterChange::Same,
            Some(known) if reported.generation > known.generation && reported.is_below(&known) => {
                Figures::default()
            }
            Some(known) => known.highest,
            None => Figures::default(),
        };
        let added = reported.highest.since(&base);
        let mark = Self { generation: reported.generation, highest: base.highest(&reported.highest) };
        if !today.plus(&added).fits_a_day() {
            return CounterChange::Absurd;
        }
        let is_known = known.is_some_and(|known| known.highest == mark.highest);
        if is_known { CounterChange::Same } else { CounterChange::Grown { mark, added } }
    }

    fn is_below(&self, other: &Self) -> bool {
        let age = |mark: &Self| (mark.highest.tokens(), mark.highest.unknown_runs);
        age(self) < age(other)
    }
}

impl UsageTotal {
    /// Whether anything was counted.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Counts only grow: the later of two readings.
    pub fn later(self, other: Self) -> Self {
        let age = |usage: &Self| (usage.all.tokens(), usage.all.cost_micros, usage.all.unknown_runs);
        if age(&self) >= age(&other) { self } else { other }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(tokens: u64, cost_micros: Option<u64>) -> Figures {
        Figures { input_tokens: tokens, cost_micros, ..Figures::default() }
    }

    #[test]
    fn figures_that_cannot_be_true_take_nothing_from_those_that_can() {
        let (few, many, absurd) = (figures(5, Some(1)), figures(7, None), figures(u64::MAX, None));
        assert_eq!(few.raised_by(&many), figures(7, Some(1)));
        assert_eq!((few.raised_by(&absurd), absurd.raised_by(&few)), (few, few));
        assert_eq!(absurd.raised_by(&absurd), absurd);
    }

    fn mark(generation: i64, highest: Figures) -> Mark {
        Mark { generation, highest }
    }

    fn grown(mark: Mark, added: Figures) -> CounterChange {
        CounterChange::Grown { mark, added }
    }

    #[test]
    fn a_counter_adds_what_exceeds_its_mark_and_never_goes_back() {
        let step = |known, reported| Mark::step(known, reported, &Figures::default());
        let (low, high) = (figures(100, Some(5)), figures(150, Some(9)));
        assert_eq!(step(None, mark(1, low)), grown(mark(1, low), low));
        assert_eq!(step(Some(mark(1, low)), mark(1, low)), CounterChange::Same);
        assert_eq!(step(Some(mark(1, low)), mark(1, high)), grown(mark(1, high), figures(50, Some(4))));
        assert_eq!(step(Some(mark(1, high)), mark(1, low)), CounterChange::Same);
        assert_eq!(step(Some(mark(1, low)), mark(2, high)), grown(mark(2, high), figures(50, Some(4))));
        assert_eq!(step(Some(mark(1, high)), mark(2, low)), grown(mark(2, low), low), "its disk is new");
        assert_eq!(
            step(Some(mark(1, high)), mark(2, high)),
            CounterChange::Same,
            "shown from the start before"
        );
        assert_eq!(
            step(Some(mark(2, low)), mark(1, high)),
            CounterChange::Same,
            "an older start tells nothing"
        );
        let unpriced = figures(120, None);
        assert_eq!(
            step(Some(mark(1, low)), mark(1, unpriced)),
            grown(mark(1, figures(120, Some(5))), figures(20, None))
        );
    }

    #[test]
    fn what_no_agent_can_use_in_a_day_is_rejected_in_one_jump_and_in_many() {
        let known = Some(mark(1, figures(100, None)));
        let step = |reported, today| Mark::step(known, mark(1, reported), &today);
        assert_eq!(step(figures(u64::MAX, None), Figures::default()), CounterChange::Absurd);
        assert_eq!(step(figures(100, Some(u64::MAX)), Figures::default()), CounterChange::Absurd);
        let full = figures(MOST_TOKENS_A_DAY, Some(MOST_MICROS_A_DAY));
        assert_eq!(step(figures(101, None), full), CounterChange::Absurd);
        assert_eq!(step(Figures::unknown(u64::MAX), Figures::default()), CounterChange::Absurd);
    }

    #[test]
    fn runs_without_figures_are_counted_upwards_and_anew_after_a_lost_disk() {
        let step = |known, reported| Mark::step(Some(known), reported, &Figures::default());
        let unknown = |generation, n_runs| mark(generation, Figures::unknown(n_runs));
        assert_eq!(step(unknown(1, 2), unknown(1, 3)), grown(unknown(1, 3), Figures::unknown(1)));
        assert_eq!(step(unknown(1, 3), unknown(1, 2)), CounterChange::Same);
        assert_eq!(step(unknown(1, 3), unknown(2, 1)), grown(unknown(2, 1), Figures::unknown(1)));
    }

    #[test]
    fn a_cost_that_is_no_amount_is_unknown() {
        let cost = |cost| Figures::reported(1, 1, Some(cost)).cost_micros;
        let reported = [0.0, 0.25, -1.0, f64::NAN, f64::INFINITY, 1e300].map(cost);
        assert_eq!(reported, [Some(0), Some(250_000), None, None, Some(u64::MAX), Some(u64::MAX)]);
    }
}
