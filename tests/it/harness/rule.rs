//! Decides which requests a fault hits, the same way on every run, and counts the hits.

use super::path::captures;

/// Which requests a rule looks at.
#[derive(Clone)]
pub(crate) struct Matches {
    method: Option<String>,
    pattern: String,
}

impl Matches {
    pub(crate) fn any() -> Self {
        Self::path("/**")
    }

    /// Any method on paths such as `/api/v2/workspaces/{id}` or `/@{user}/**`.
    pub(crate) fn path(pattern: &str) -> Self {
        Self { method: None, pattern: pattern.to_owned() }
    }

    pub(crate) fn call(method: &str, pattern: &str) -> Self {
        Self { method: Some(method.to_owned()), pattern: pattern.to_owned() }
    }

    fn accepts(&self, method: &str, path: &str) -> bool {
        self.method.as_deref().is_none_or(|wanted| wanted == method)
            && captures(&self.pattern, path).is_some()
    }
}

/// Which of the matching requests are hit; the first one is number 1.
#[derive(Clone, Copy)]
pub(crate) enum When {
    Always,
    Nth(u64),
    First(u64),
    /// Every one but the first so many.
    After(u64),
    Every(u64),
    /// Decided by the seed and the request's number alone, so a run can be repeated.
    Percent {
        percent: u64,
        seed: u64,
    },
}

impl When {
    fn hits(self, number: u64) -> bool {
        match self {
            Self::Always => true,
            Self::Nth(n) => number == n,
            Self::First(n) => number <= n,
            Self::After(n) => number > n,
            Self::Every(k) => number.is_multiple_of(k),
            Self::Percent { percent, seed } => scatter(seed ^ scatter(number)) % 100 < percent,
        }
    }
}

#[derive(Clone)]
pub(crate) struct Rule<K> {
    pub(crate) matches: Matches,
    pub(crate) when: When,
    pub(crate) kind: K,
}

/// Names a rule of one book.
#[derive(Clone, Copy)]
pub(crate) struct RuleId(usize);

/// The rules in force; the first one that fires decides.
pub(crate) struct RuleBook<K> {
    entries: Vec<Entry<K>>,
}

struct Entry<K> {
    rule: Rule<K>,
    seen: u64,
    hits: usize,
    active: bool,
}

impl<K: Clone> RuleBook<K> {
    pub(crate) fn new() -> Self {
        Self { entries: Vec::new() }
    }

    pub(crate) fn add(&mut self, rule: Rule<K>) -> RuleId {
        self.entries.push(Entry { rule, seen: 0, hits: 0, active: true });
        RuleId(self.entries.len() - 1)
    }

    /// Ends all rules; their hits can still be read.
    pub(crate) fn clear(&mut self) {
        for entry in &mut self.entries {
            entry.active = false;
        }
    }

    pub(crate) fn hits(&self, id: RuleId) -> usize {
        self.entries[id.0].hits
    }

    pub(crate) fn pick(&mut self, method: &str, path: &str) -> Option<K> {
        let mut picked = None;
        for entry in self.entries.iter_mut().filter(|entry| entry.active) {
            if !entry.rule.matches.accepts(method, path) {
                continue;
            }
            entry.seen += 1;
            if picked.is_none() && entry.rule.when.hits(entry.seen) {
                entry.hits += 1;
                picked = Some(entry.rule.kind.clone());
            }
        }
        picked
    }
}

/// The splitmix64 finaliser: spreads neighbouring numbers over all 64 bits.
pub(crate) fn scatter(number: u64) -> u64 {
    let mut bits = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}
