//! The tool that shows an overview of the fleet.

use super::{About, Effect, Entry};
use crate::app::error::Error;
use crate::domain::access::Action;
use crate::mcp::call::Call;
use crate::view::fleet::FleetStatus;
use crate::view::request::NoInput;

pub(super) fn tools() -> Vec<Entry> {
    let about = About {
        action: Action::FleetStatus,
        title: "Fleet status",
        description: "The state of the whole fleet in one look: how many agents have which status, which of \
            them want attention and what to do about each, how many workspace builds run and wait, and \
            whether Coder can be reached. Start here.",
        effect: Effect::Reads,
    };
    vec![Entry::new(about, fleet_status)]
}

async fn fleet_status(call: Call, _: NoInput) -> Result<FleetStatus, Error> {
    let overview = call.fleet.fleet_status(&call.caller).await?;
    Ok(FleetStatus::from(&overview))
}
