//! Finds a rescue by its id, a prefix of the id, or the agent's name.

use uuid::Uuid;

use crate::app::error::Error;
use crate::domain::id::RescueId;
use crate::domain::name::AgentName;
use crate::domain::rescue::Rescue;
use crate::store::Store;

const ID_DIGITS: usize = 32;
/// How many matches of an id prefix an error names.
const MOST_NAMED: u32 = 10;

/// A valid agent name takes precedence over an id prefix.
pub(super) async fn find(store: &Store, asked: &str) -> Result<Rescue, Error> {
    if let Ok(id) = asked.parse().map(RescueId) {
        return store.rescue_by_id(id).await?.ok_or_else(|| Error::RescueNotFound(asked.to_owned()));
    }
    if let Ok(name) = AgentName::parse(asked)
        && let Some(found) = store.rescue_of_name(&name).await?
    {
        return Ok(found);
    }
    let mut found = match range(asked) {
        Some(range) => store.rescues_between(range, MOST_NAMED + 1).await?,
        None => Vec::new(),
    };
    match found.len() {
        0 => Err(Error::RescueNotFound(asked.to_owned())),
        1 => Ok(found.remove(0)),
        _ => Err(Error::SeveralRescues { asked: asked.to_owned(), found: named(&found) }),
    }
}

/// The smallest and largest id with this prefix; hyphens are ignored.
fn range(start: &str) -> Option<(RescueId, RescueId)> {
    let digits = start.replace('-', "");
    let is_start = (1..=ID_DIGITS).contains(&digits.len()) && digits.bytes().all(|b| b.is_ascii_hexdigit());
    if !is_start {
        return None;
    }
    let filled = |with: &str| {
        let rest = with.repeat(ID_DIGITS - digits.len());
        Uuid::try_parse(&format!("{digits}{rest}")).ok().map(RescueId)
    };
    Some((filled("0")?, filled("f")?))
}

fn named(found: &[Rescue]) -> String {
    let most = usize::try_from(MOST_NAMED).unwrap_or(usize::MAX);
    let names = found.iter().take(most).map(|rescue| format!("{} ({})", rescue.id, rescue.agent_name));
    let more = (found.len() > most).then(|| "and more".to_owned());
    names.chain(more).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_digits_of_an_id_are_its_beginning() {
        let id = |text: &str| RescueId(Uuid::parse_str(text).unwrap());
        let first = id("0190e1a2-0000-0000-0000-000000000000");
        let last = id("0190e1a2-0fff-ffff-ffff-ffffffffffff");
        assert_eq!(range("0190e1A2-0"), Some((first, last)));
        for other in ["", "-", "otter", "0190 ", "../0190", &"0".repeat(33)] {
            assert_eq!(range(other), None, "{other}");
        }
    }
}
