//! What a test can say about the stub's templates and about how fast builds move.

/// When workspaces take the next step of their script.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pace {
    /// Every read of a workspace or build moves it one step first, as time does between polls.
    PerRead,
    /// Only `advance`, `settle` and `settle_all` move anything.
    Held,
    /// A build is over as soon as its request is answered.
    Instant,
}

/// How start builds of a template go.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Behaviour {
    Ready,
    BuildFails,
    StartError,
    /// Provisions nothing that an agent could run in.
    Agentless,
    /// Stays `starting` for this many steps longer than the others.
    Slow(usize),
}

/// A template to add; a second one of the same name becomes that template's new active version.
#[derive(Clone)]
pub(crate) struct TemplateSpec {
    pub(super) name: String,
    pub(super) display_name: String,
    pub(super) params: Vec<ParamSpec>,
    pub(super) presets: Vec<PresetSpec>,
    pub(super) behaviour: Behaviour,
}

impl TemplateSpec {
    pub(crate) fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            display_name: name.to_owned(),
            params: Vec::new(),
            presets: Vec::new(),
            behaviour: Behaviour::Ready,
        }
    }

    /// The template of the recordings: parameters of every kind and three presets.
    pub(crate) fn fleet() -> Self {
        Self::new("fleet")
            .param(ParamSpec::text("agent_spec").default("base").fixed().pattern(Pattern {
                regex: "^[a-z0-9-]{1,40}$",
                error: "agent_spec must match ^[a-z0-9-]{1,40}$",
                accepts: is_spec_word,
            }))
            .param(ParamSpec::text("AI Prompt").default(""))
            .param(ParamSpec::text("project"))
            .param(ParamSpec::text("role").default("coder").options(&["manager", "coder", "reviewer"]))
            .param(ParamSpec::number("startup_seconds", 0, 120).default("3"))
            .preset("coder", &[("agent_spec", "base"), ("role", "coder")])
            .preset("manager", &[("project", "fleet-mcp"), ("role", "manager")])
            .preset("reviewer", &[("startup_seconds", "1"), ("role", "reviewer")])
    }

    pub(crate) fn display_name(mut self, display_name: &str) -> Self {
        display_name.clone_into(&mut self.display_name);
        self
    }

    pub(crate) fn param(mut self, param: ParamSpec) -> Self {
        self.params.push(param);
        self
    }

    /// Adds a preset; the first one is the default.
    pub(crate) fn preset(mut self, name: &str, values: &[(&str, &str)]) -> Self {
        let values = values.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        self.presets.push(PresetSpec { name: name.to_owned(), values });
        self
    }

    pub(crate) fn behaviour(mut self, behaviour: Behaviour) -> Self {
        self.behaviour = behaviour;
        self
    }
}

/// A rich parameter: required until it gets a default, changeable until it is fixed.
#[derive(Clone)]
pub(crate) struct ParamSpec {
    pub(super) name: String,
    pub(super) range: Option<(i64, i64)>,
    pub(super) default: Option<String>,
    pub(super) options: Vec<String>,
    pub(super) pattern: Option<Pattern>,
    pub(super) mutable: bool,
}

impl ParamSpec {
    pub(crate) fn text(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            range: None,
            default: None,
            options: Vec::new(),
            pattern: None,
            mutable: true,
        }
    }

    pub(crate) fn number(name: &str, min: i64, max: i64) -> Self {
        Self { range: Some((min, max)), ..Self::text(name) }
    }

    pub(crate) fn default(mut self, value: &str) -> Self {
        self.default = Some(value.to_owned());
        self
    }

    pub(crate) fn options(mut self, values: &[&str]) -> Self {
        self.options = values.iter().map(|value| (*value).to_owned()).collect();
        self
    }

    /// The value cannot change after the workspace was created.
    pub(crate) fn fixed(mut self) -> Self {
        self.mutable = false;
        self
    }

    fn pattern(mut self, pattern: Pattern) -> Self {
        self.pattern = Some(pattern);
        self
    }

    pub(super) fn kind(&self) -> &'static str {
        if self.range.is_some() { "number" } else { "string" }
    }
}

/// A regular expression as shown to clients, and the same rule as code.
#[derive(Clone)]
pub(super) struct Pattern {
    pub(super) regex: &'static str,
    pub(super) error: &'static str,
    pub(super) accepts: fn(&str) -> bool,
}

#[derive(Clone)]
pub(super) struct PresetSpec {
    pub(super) name: String,
    pub(super) values: Vec<(String, String)>,
}

fn is_spec_word(value: &str) -> bool {
    (1..=40).contains(&value.len())
        && value.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
}
