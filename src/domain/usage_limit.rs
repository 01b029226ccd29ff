//! Detects usage limits of accounts in engines' messages, and when they reset.
//!
//! Engines report limits in prose. Each row of the table is one phrasing; the time is then read from the rest. A
//! message without a time is a plain failure, since the time of a retry is unknown.

use chrono::{DateTime, Datelike, NaiveDate, NaiveTime, TimeDelta, Utc};

/// Phrases that mean a usage limit, in lower case.
const PHRASES: [&str; 8] = [
    "usage limit reached",
    "hit your usage limit",
    "hit your limit",
    "reached your usage limit",
    "5-hour limit reached",
    "weekly limit reached",
    "limit will reset",
    "quota exceeded",
];
/// A limit that resets later than this is not waited for.
const LONGEST: TimeDelta = TimeDelta::days(31);
/// A notice of a limit is short and contains nothing else.
const LONGEST_NOTICE: usize = 200;
const LONGEST_ADDRESS: usize = 24;
/// Phrases that precede a time of day or a date.
const AT: [&str; 5] = ["resets at ", "reset at ", "resets ", "try again at ", "until "];

/// The usage limit that a text reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limit {
    None,
    /// A limit without a known end.
    Open,
    Until(DateTime<Utc>),
}

/// Like `read`, for an answer that is not marked as a failure: work about limits uses the same phrases.
pub fn read_notice(text: &str, now: DateTime<Utc>) -> Limit {
    let lower = text.trim().to_lowercase();
    let start = PHRASES.iter().filter_map(|phrase| lower.find(phrase)).min();
    let is_notice =
        start.is_some_and(|start| start <= LONGEST_ADDRESS) && lower.chars().count() <= LONGEST_NOTICE;
    if is_notice { read(text, now) } else { Limit::None }
}

pub fn read(text: &str, now: DateTime<Utc>) -> Limit {
    let lower = text.to_lowercase();
    let Some(start) = PHRASES.iter().filter_map(|phrase| lower.find(phrase)).min() else {
        return Limit::None;
    };
    let rest = &lower[start..];
    let until = epoch(rest).or_else(|| duration(rest, now)).or_else(|| moment(rest, now));
    match until.filter(|until| *until > now && *until - now <= LONGEST) {
        Some(until) => Limit::Until(until),
        None => Limit::Open,
    }
}

/// `usage limit reached|1794787200`
fn epoch(text: &str) -> Option<DateTime<Utc>> {
    let digits: String = text.split_once('|')?.1.trim().chars().take_while(char::is_ascii_digit).collect();
    DateTime::from_timestamp(digits.parse().ok()?, 0)
}

/// `try again in 1 day 2 hours 30 minutes`, `resets in 2h 5m`
fn duration(text: &str, now: DateTime<Utc>) -> Option<DateTime<Utc>> {
    let (_, after) = text.split_once(" in ")?;
    let mut total = TimeDelta::zero();
    let mut number: Option<i64> = None;
    for token in tokens(after) {
        match (token.parse::<i64>(), number) {
            (Ok(n), None) => number = Some(n),
            (Err(_), Some(n)) => {
                let Some(unit) = unit(&token) else { break };
                total = total.checked_add(&unit.checked_mul(i32::try_from(n).ok()?)?)?;
                number = None;
            }
            (Err(_), None) if token == "and" => {}
            (Ok(_) | Err(_), _) => break,
        }
    }
    (!total.is_zero()).then(|| now.checked_add_signed(total)).flatten()
}

/// Splits numbers and words, also without a separator.
fn tokens(text: &str) -> Vec<String> {
    let mut tokens: Vec<String> = Vec::new();
    let mut last = ' ';
    for c in text.chars() {
        let goes_on =
            c.is_alphanumeric() && last.is_alphanumeric() && c.is_ascii_digit() == last.is_ascii_digit();
        match tokens.last_mut() {
            Some(token) if goes_on => token.push(c),
            Some(_) | None if c.is_alphanumeric() => tokens.push(c.to_string()),
            Some(_) | None => {}
        }
        last = c;
    }
    tokens
}

fn unit(word: &str) -> Option<TimeDelta> {
    match word {
        "s" | "sec" | "secs" | "second" | "seconds" => Some(TimeDelta::seconds(1)),
        "m" | "min" | "mins" | "minute" | "minutes" => Some(TimeDelta::minutes(1)),
        "h" | "hr" | "hrs" | "hour" | "hours" => Some(TimeDelta::hours(1)),
        "d" | "day" | "days" => Some(TimeDelta::days(1)),
        _ => None,
    }
}

/// `until 2026-11-16T09:00:00Z`, `resets 3pm (UTC)`, `try again at 9:05 PM`; a time of day without a zone is UTC.
fn moment(text: &str, now: DateTime<Utc>) -> Option<DateTime<Utc>> {
    let after = AT.iter().find_map(|words| text.split_once(words)).map(|(_, after)| after.trim())?;
    let first = after.split([' ', ',', ')']).next()?.trim_end_matches('.');
    if let Ok(at) = DateTime::parse_from_rfc3339(&first.to_uppercase()) {
        return Some(at.to_utc());
    }
    dated(after).or_else(|| Some(next(time_of_day(after)?, now)))
}

/// `2026-11-16 09:00`
fn dated(text: &str) -> Option<DateTime<Utc>> {
    let (date, rest) = text.split_once(' ')?;
    let date = NaiveDate::parse_from_str(date, "%Y-%m-%d").ok()?;
    Some(date.and_time(time_of_day(rest)?).and_utc())
}

/// Other zones than UTC would need a time zone database: then no time is known.
fn time_of_day(text: &str) -> Option<NaiveTime> {
    if text.split_once('(').is_some_and(|(_, zone)| !zone.starts_with("utc") && !zone.starts_with("gmt")) {
        return None;
    }
    let clock: String = text.chars().take_while(|c| c.is_ascii_digit() || *c == ':').collect();
    let half = text[clock.len()..].trim_start();
    let (hour, minute) = clock.split_once(':').unwrap_or((clock.as_str(), "0"));
    let (hour, minute): (u32, u32) = (hour.parse().ok()?, minute.parse().ok()?);
    let hour = match (half.get(..2), hour) {
        (Some("pm"), 1..=11) => hour + 12,
        (Some("am"), 12) => 0,
        (Some("am" | "pm"), 1..=12) => hour,
        (_, _) if clock.contains(':') => hour,
        (_, _) => return None,
    };
    NaiveTime::from_hms_opt(hour, minute, 0)
}

/// The next time a clock shows this.
fn next(time: NaiveTime, now: DateTime<Utc>) -> DateTime<Utc> {
    let today = NaiveDate::from_ymd_opt(now.year(), now.month(), now.day()).unwrap_or_default();
    let at = today.and_time(time).and_utc();
    if at > now { at } else { at + TimeDelta::days(1) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> DateTime<Utc> {
        text.parse().unwrap()
    }

    #[test]
    fn every_way_to_name_the_end_is_understood() {
        let now = at("2026-11-16T12:00:00Z");
        let rows = [
            ("Claude AI usage limit reached|1794834000", "2026-11-16T13:00:00Z"),
            ("You've hit your usage limit. Try again in 1 day 2 hours 30 minutes.", "2026-11-17T14:30:00Z"),
            ("5-hour limit reached ∙ resets 3pm (UTC)", "2026-11-16T15:00:00Z"),
            ("You've hit your limit · resets 9:30am (UTC)", "2026-11-17T09:30:00Z"),
            ("usage limit reached, try again at 2026-11-16T18:00:00Z.", "2026-11-16T18:00:00Z"),
            ("usage limit reached until 2026-11-18 06:00", "2026-11-18T06:00:00Z"),
            ("Your limit will reset at 12:05 PM.", "2026-11-16T12:05:00Z"),
            ("Weekly limit reached, resets in 2h 5m", "2026-11-16T14:05:00Z"),
        ];
        for (text, until) in rows {
            assert_eq!(read(text, now), Limit::Until(at(until)), "{text}");
        }
    }

    #[test]
    fn without_a_time_that_can_be_trusted_the_end_is_open() {
        let now = at("2026-11-16T12:00:00Z");
        for text in [
            "usage limit reached",
            "usage limit reached|1",
            "usage limit reached|99999999999",
            "You've hit your limit · resets 9am (Europe/Berlin)",
            "quota exceeded, try again in a while",
            "hit your usage limit, try again in 99999999999 days",
            "usage limit reached, resets soon",
        ] {
            assert_eq!(read(text, now), Limit::Open, "{text}");
        }
    }

    #[test]
    fn an_answer_is_a_notice_only_if_it_says_nothing_else() {
        let now = at("2026-11-16T12:00:00Z");
        let until = Limit::Until(at("2026-11-16T12:05:00Z"));
        assert_eq!(read_notice("You've hit your usage limit. Try again in 5 minutes.", now), until);
        assert_eq!(read_notice(" Claude AI usage limit reached ", now), Limit::Open);
        let work = "I added a retry: when the API answers \"quota exceeded\" it will try again in 5 minutes.";
        assert_eq!((read(work, now), read_notice(work, now)), (until, Limit::None));
        let report =
            format!("Usage limit reached is now an error, try again in 5 minutes. {}", "More. ".repeat(40));
        assert_eq!(read_notice(&report, now), Limit::None);
    }

    #[test]
    fn other_failures_are_no_limit() {
        for text in ["", "the tests fail", "memory limit exceeded", "rate of usage is fine"] {
            assert_eq!(read(text, at("2026-11-16T12:00:00Z")), Limit::None, "{text}");
        }
    }
}
