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
        description: "Shows the state of the whole fleet: number of agents per status, agents that need \
            attention with the next action for each, running and queued workspace builds, today's spend, \
            and whether Coder is reachable. Start here.",
        effect: Effect::Reads,
    };
    vec![Entry::new(about, fleet_status)]
}

async fn fleet_status(call: Call, _: NoInput) -> Result<FleetStatus, Error> {
    let overview = call.fleet.fleet_status(&call.caller).await?;
    Ok(FleetStatus::from(&overview))
}
