//! Any CLI as an engine, by a template of its command line; cursor-agent comes with one.

use std::path::PathBuf;

use super::request::ROLE;
use super::template::{Rendered, Template, TemplateError, Values};
use super::{End, Engine, EngineWord, Event, Exit, Invocation, Reader, Request, Session, Unfit, failure};

/// How much of the end of its output counts as the answer of a CLI that tells no answer apart.
const MAX_ANSWER: usize = 4_000;

/// Templates that come with us, by the word of their engine. Squads call every engine by one of these.
pub fn shipped(word: EngineWord) -> Option<Shipped> {
    let (run, create_chat) = match word {
        EngineWord::Claude => (include_str!("templates/claude-run.template"), None),
        EngineWord::Codex => (include_str!("templates/codex-run.template"), None),
        EngineWord::CursorAgent => (
            include_str!("templates/cursor-agent-run.template"),
            Some(include_str!("templates/cursor-agent-create-chat.template")),
        ),
        EngineWord::Demo => (include_str!("templates/demo-run.template"), None),
        EngineWord::Auto | EngineWord::Custom => return None,
    };
    Some(Shipped { run, create_chat })
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shipped {
    pub run: &'static str,
    /// Prints the id of a new chat, for engines that want one before the first run.
    pub create_chat: Option<&'static str>,
}

/// A CLI known by its templates only: what it prints is for people, and its exit code tells how it went.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Custom {
    pub word: EngineWord,
    pub run: Template,
    pub create_chat: Option<Template>,
}

/// Remembers the end of what was printed.
#[derive(Debug)]
struct CustomReader {
    /// The conversation that the template was told to begin, not yet told on.
    session: Option<String>,
    answer: String,
}

impl Custom {
    /// Refuses templates whose variables no run of ours has.
    pub fn new(word: EngineWord, run: &str, create_chat: Option<&str>) -> Result<Self, TemplateError> {
        let parse = |text: &str| {
            let template = Template::parse(text)?;
            template.check(&VARIABLES)?;
            Ok(template)
        };
        Ok(Self { word, run: parse(run)?, create_chat: create_chat.map(parse).transpose()? })
    }

    fn invocation_of(&self, template: &Template, request: &Request) -> Result<Invocation, Unfit> {
        let (prompt, values) = values(request);
        let Rendered { program, arguments } = template.render(&values)?;
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

    fn opening(&self, request: &Request) -> Result<Option<Invocation>, Unfit> {
        match (&self.create_chat, &request.session) {
            (Some(template), Session::Fresh { .. }) => {
                let invocation = self.invocation_of(template, request)?;
                Ok(Some(Invocation { stdin: String::new(), ..invocation }))
            }
            (Some(_) | None, _) => Ok(None),
        }
    }

    fn invocation(&self, request: &Request) -> Result<Invocation, Unfit> {
        self.invocation_of(&self.run, request)
    }

    fn reader(&self, request: &Request) -> Box<dyn Reader> {
        let session = match &request.session {
            Session::Fresh { id } if self.run.inserts("newChatId") => Some(id.to_string()),
            Session::Fresh { .. } | Session::Opened { .. } | Session::Resume { .. } => None,
        };
        Box::new(CustomReader { session, answer: String::new() })
    }
}

impl Reader for CustomReader {
    fn line(&mut self, line: &str) -> Vec<Event> {
        self.answer.push_str(line);
        self.answer.push('\n');
        let mut cut = self.answer.len().saturating_sub(MAX_ANSWER);
        while !self.answer.is_char_boundary(cut) {
            cut += 1;
        }
        self.answer.drain(..cut);
        // One that has spoken has begun.
        let session = self.session.take().map(Event::Session);
        session.into_iter().chain([Event::Text(line.to_owned())]).collect()
    }

    fn end(self: Box<Self>, exit: &Exit) -> End {
        if exit.status.success() {
            return End::Complete { text: self.answer.trim().to_owned() };
        }
        failure::without_outcome(exit)
    }
}

/// What a template may name in a run of an agent.
const VARIABLES: [&str; 8] =
    ["prompt", "task", "cwd", "chatId", "newChatId", "STATE_MODE", "roleId", "model"];

/// The prompt and every variable. The role comes first in a new conversation, since a CLI we do not know may have
/// no other place for it.
fn values(request: &Request) -> (String, Values) {
    let prompt = request.prompt(&[(ROLE, request.role_text())]);
    let chat = request.session.known().unwrap_or_default().to_owned();
    let new_chat = match &request.session {
        Session::Fresh { id } => id.to_string(),
        Session::Opened { .. } | Session::Resume { .. } => String::new(),
    };
    let values = [
        ("prompt", prompt.clone()),
        ("task", request.message.clone()),
        ("cwd", request.directory.display().to_string()),
        ("chatId", chat),
        ("newChatId", new_chat),
        ("STATE_MODE", "stateful".to_owned()),
        ("roleId", String::new()),
        ("model", request.model.clone().unwrap_or_default()),
    ];
    (prompt, values.map(|(name, value)| (name.to_owned(), value)).into())
}
