//! A real Coder that the environment names, for the suites that run on any.

use super::{TEMPLATE, skipped};

/// Where it is, and what of it tests may use.
pub(crate) struct Live {
    pub(crate) url: String,
    pub(crate) token: String,
    /// A template of an agent with our runner, the demo engine and a parameter for each value the fleet gives.
    pub(crate) template: String,
    /// The same, whose workspaces find only the least programs.
    pub(crate) poor_template: Option<String>,
}

/// None, and said, when the environment names none.
pub(crate) fn live() -> Option<Live> {
    let variable = |name: &str| std::env::var(format!("FLEET_LIVE_CODER_{name}")).ok();
    let (Some(url), Some(token)) = (variable("URL"), variable("TOKEN")) else {
        skipped("set FLEET_LIVE_CODER_URL and FLEET_LIVE_CODER_TOKEN to run on a real Coder too");
        return None;
    };
    Some(Live {
        url: url.trim_end_matches('/').to_owned(),
        token,
        template: variable("TEMPLATE").unwrap_or_else(|| TEMPLATE.to_owned()),
        poor_template: variable("POOR_TEMPLATE"),
    })
}
