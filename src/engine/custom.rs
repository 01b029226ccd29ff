//! Any CLI as an engine, by a template of its command line; includes one for cursor-agent.

use std::path::PathBuf;

use super::plain_text::PlainTextReader;
use super::request::ROLE;
use super::template::{Rendered, Template, TemplateError, Values};
use super::{Engine, EngineWord, Invocation, InvocationError, Reader, Request, Session};
use crate::domain::run::EngineOutput;

/// The templates of cursor-agent.
const CURSOR_RUN: &str = include_str!("templates/cursor-agent-run.template");
const CURSOR_CREATE_CHAT: &str = include_str!("templates/cursor-agent-create-chat.template");

/// A CLI defined by templates: its output is plain text, and its exit code is the outcome.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Custom {
    pub word: EngineWord,
    pub run: Template,
    /// Prints the id of a new chat, for a CLI that needs it before the first run.
    pub create_chat: Option<Template>,
    /// Further variables from the settings.
    values: Values,
}

impl Custom {
    /// Refuses templates with unknown variables.
    pub fn new(
        word: EngineWord,
        run: &str,
        create_chat: Option<&str>,
        values: &Values,
    ) -> Result<Self, TemplateError> {
        let names: Vec<&str> = VARIABLES.into_iter().chain(values.keys().map(String::as_str)).collect();
        let parse = |text: &str| {
            let template = Template::parse(text)?;
            template.check(&names)?;
            Ok(template)
        };
        let create_chat = create_chat.map(parse).transpose()?;
        Ok(Self { word, run: parse(run)?, create_chat, values: values.clone() })
    }

    /// cursor-agent, by the built-in templates.
    pub fn cursor_agent(values: &Values) -> Result<Self, TemplateError> {
        Self::new(EngineWord::CursorAgent, CURSOR_RUN, Some(CURSOR_CREATE_CHAT), values)
    }

    /// All variables; values of the settings apply where the run has none.
    fn variables(&self, request: &Request, prompt: &str) -> Values {
        let is_new = matches!(request.session, Session::Fresh { .. });
        let own = [
            ("prompt", prompt.to_owned()),
            ("task", request.message.clone()),
            ("cwd", request.directory.display().to_string()),
            ("chatId", request.session.known().unwrap_or_default().to_owned()),
            ("newChatId", request.session.id().filter(|_| is_new).unwrap_or_default()),
            ("STATE_MODE", "stateful".to_owned()),
        ];
        let mut all: Values = VARIABLES.map(|name| (name.to_owned(), String::new())).into();
        all.extend(self.values.clone());
        all.extend(own.map(|(name, value)| (name.to_owned(), value)));
        all.extend(request.model.iter().map(|model| ("model".to_owned(), model.clone())));
        all.extend(request.variables.clone());
        all
    }

    fn invocation_of(&self, template: &Template, request: &Request) -> Result<Invocation, InvocationError> {
        let prompt = request.prompt(&[(ROLE, request.role_text())]);
        let Rendered { program, arguments } = template.render(&self.variables(request, &prompt))?;
        let is_inserted = template.inserts("prompt") || template.inserts("task");
        Ok(Invocation {
            program: PathBuf::from(program),
            arguments: arguments.into_iter().map(Into::into).collect(),
            environment: Vec::new(),
            secrets: Vec::new(),
            stdin: if is_inserted { String::new() } else { prompt },
        })
    }
}

impl Engine for Custom {
    fn word(&self) -> EngineWord {
        self.word
    }

    fn session_creation(&self, request: &Request) -> Result<Option<Invocation>, InvocationError> {
        match (&self.create_chat, &request.session) {
            (Some(template), Session::Fresh { .. }) => {
                let invocation = self.invocation_of(template, request)?;
                Ok(Some(Invocation { stdin: String::new(), ..invocation }))
            }
            (Some(_) | None, _) => Ok(None),
        }
    }

    fn invocation(&self, request: &Request) -> Result<Invocation, InvocationError> {
        self.invocation_of(&self.run, request)
    }

    fn reports_usage(&self, _output: EngineOutput) -> bool {
        false
    }

    fn reader(&self, request: &Request) -> Box<dyn Reader> {
        let is_new = matches!(request.session, Session::Fresh { .. }) && self.run.inserts("newChatId");
        Box::new(PlainTextReader::of(request.session.id().filter(|_| is_new)))
    }
}

/// The variables of a run; the settings can add more.
const VARIABLES: [&str; 8] =
    ["prompt", "task", "cwd", "chatId", "newChatId", "STATE_MODE", "roleId", "model"];
