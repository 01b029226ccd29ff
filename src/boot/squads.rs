//! Converts the settings of squads; an unusable template stops the start.

use super::BootError;
use crate::app::squads::SquadOptions;
use crate::config::{SquadSettings, TemplateFile};
use crate::domain::hosting::Hosting;
use crate::engine::EngineWord;
use crate::engine::commands::{CommandEngines, Templates};
use crate::engine::template::TemplateError;

/// On the embedded Coder members work in the caller's directory.
const EMBEDDED_RUNS: &str = "here";
/// The variable by which the settings choose the model of members.
const MODEL: &str = "model";

pub(super) fn options(settings: &SquadSettings, hosting: &Hosting) -> SquadOptions {
    let usual = match hosting {
        Hosting::Embedded(_) => Some(EMBEDDED_RUNS.to_owned()),
        Hosting::Deployment => None,
    };
    SquadOptions {
        state_mode: settings.state_mode,
        execution_mode: settings.execution_mode,
        delay: settings.delay,
        timeout: settings.timeout,
        model: settings.values.get(MODEL).cloned(),
        runs_project: settings.runs_project.clone().or(usual),
        longest_wait: settings.longest_wait,
    }
}

/// How engines are called by commands in workspaces.
pub(super) fn engines(settings: &SquadSettings, engine: EngineWord) -> Result<CommandEngines, BootError> {
    let Some(run) = &settings.run_template else {
        let made = CommandEngines::new(None, &settings.values);
        let made = made.map_err(|source| refused(EngineWord::CursorAgent.to_string(), source));
        return if engine == EngineWord::Custom { Err(BootError::NoTemplate) } else { made };
    };
    if engine != EngineWord::Custom {
        // A project may still name it.
        tracing::warn!(
            engine = engine.word(),
            template = %run.path.display(),
            "RUN_TEMPLATE_PATH is for the engine 'custom': only projects whose file sets that engine use it"
        );
    }
    let chat = settings.create_chat_template.as_ref();
    let templates = Templates { run: &run.text, create_chat: chat.map(|file| file.text.as_str()) };
    let named = |file: &TemplateFile| file.path.display().to_string();
    let origin =
        || [Some(named(run)), chat.map(named)].into_iter().flatten().collect::<Vec<_>>().join(" or ");
    CommandEngines::new(Some(templates), &settings.values).map_err(|source| refused(origin(), source))
}

fn refused(origin: String, source: TemplateError) -> BootError {
    BootError::Template { origin, source }
}
