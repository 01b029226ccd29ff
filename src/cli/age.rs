//! Times for people: relative times, and lifetimes as users type them.

use chrono::{DateTime, TimeDelta, Utc};

/// "12 s ago", "in 3 h"; an unparsable time is shown unchanged.
pub(crate) fn relative(time: &str, now: DateTime<Utc>) -> String {
    let Ok(at) = DateTime::parse_from_rfc3339(time) else { return time.to_owned() };
    let delta = now - at.with_timezone(&Utc);
    if delta < TimeDelta::zero() { format!("in {}", rough(-delta)) } else { format!("{} ago", rough(delta)) }
}

pub(crate) fn is_past(time: &str, now: DateTime<Utc>) -> bool {
    DateTime::parse_from_rfc3339(time).is_ok_and(|at| at <= now)
}

/// Seconds of "90s", "15m", "8h", "30d" or "2w".
pub(crate) fn lifetime(text: &str) -> Result<i64, String> {
    let number_ends = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(number_ends);
    let seconds = match unit {
        "s" => 1,
        "m" | "min" => 60,
        "h" => 3_600,
        "d" => 86_400,
        "w" => 604_800,
        _ => return Err("a lifetime is a number followed by s, m, h, d or w, such as 8h".into()),
    };
    let number: i64 = number.parse().map_err(|_| "a lifetime starts with a number".to_owned())?;
    number.checked_mul(seconds).filter(|n| *n > 0).ok_or_else(|| "the lifetime is out of range".to_owned())
}

/// The largest unit that is at least one.
fn rough(delta: TimeDelta) -> String {
    match delta.num_seconds() {
        seconds @ ..60 => format!("{seconds} s"),
        seconds @ 60..3_600 => format!("{} min", seconds / 60),
        seconds @ 3_600..86_400 => format!("{} h", seconds / 3_600),
        seconds => format!("{} d", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::{DateTime, Utc, lifetime, relative};

    #[test]
    fn ages_use_the_largest_fitting_unit() {
        let now: DateTime<Utc> = "2026-03-01T12:00:00Z".parse().unwrap();
        let cases = [
            ("2026-03-01T12:00:00.000Z", "0 s ago"),
            ("2026-03-01T11:59:48Z", "12 s ago"),
            ("2026-03-01T11:59:00Z", "1 min ago"),
            ("2026-03-01T10:00:01Z", "1 h ago"),
            ("2026-02-01T12:00:00Z", "28 d ago"),
            ("2026-03-01T14:00:00+01:00", "in 1 h"),
            ("yesterday", "yesterday"),
        ];
        for (time, age) in cases {
            assert_eq!(relative(time, now), age);
        }
    }

    #[test]
    fn lifetimes_have_a_number_and_a_unit() {
        let cases = [("90s", Some(90)), ("15m", Some(900)), ("1h", Some(3_600)), ("2w", Some(1_209_600))];
        let refused =
            ["", "h", "1", "0h", "-1h", "1 h", "1y", "99999999999999999999h", "9223372036854775807w"];
        for (text, seconds) in cases.into_iter().chain(refused.map(|text| (text, None))) {
            assert_eq!((text, lifetime(text).ok()), (text, seconds));
        }
    }
}
