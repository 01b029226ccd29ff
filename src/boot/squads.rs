//! Converts the settings of squads; an unusable template stops the start.

use super::BootError;
use crate::app::squads::SquadOptions;
use crate::config::{SquadSettings, TemplateFile};
use crate::domain::hosting::Hosting;
use crate::engine::EngineWord;
use crate::engine::member::MemberEngine;
use crate::engine::template::TemplateError;

/// On the embedded Coder members work in the caller's directory.
const EMBEDDED_RUNS: &str = "here";

pub(super) fn options(
    settings: &SquadSettings,
    hosting: &Hosting,
    engine: EngineWord,
) -> Result<SquadOptions, BootError> {
    let usual = match hosting {
        Hosting::Embedded(_) => Some(EMBEDDED_RUNS.to_owned()),
        Hosting::Deployment => None,
    };
    let mut engines = Vec::new();
    for word in EngineWord::ALL {
        let known = MemberEngine::shipped(*word, &settings.values);
        engines.extend(known.transpose().map_err(|source| refused(word.word().to_owned(), source))?);
    }
    engines.extend(custom(settings, engine)?);
    Ok(SquadOptions {
        state_mode: settings.state_mode,
        execution_mode: settings.execution_mode,
        delay: settings.delay,
        timeout: settings.timeout,
        engines: engines.into_iter().map(|engine| (engine.word, engine)).collect(),
        runs_project: settings.runs_project.clone().or(usual),
        longest_wait: settings.longest_wait,
    })
}

fn custom(settings: &SquadSettings, engine: EngineWord) -> Result<Option<MemberEngine>, BootError> {
    let Some(run) = &settings.run_template else {
        return if engine == EngineWord::Custom { Err(BootError::NoTemplate) } else { Ok(None) };
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
    let named = |file: &TemplateFile| file.path.display().to_string();
    let made = MemberEngine::new(
        EngineWord::Custom,
        &run.text,
        chat.map(|file| file.text.as_str()),
        &settings.values,
    );
    let origin =
        || [Some(named(run)), chat.map(named)].into_iter().flatten().collect::<Vec<_>>().join(" or ");
    made.map(Some).map_err(|source| refused(origin(), source))
}

fn refused(origin: String, source: TemplateError) -> BootError {
    BootError::Template { origin, source }
}
