//! The command lines of squad members: every engine is called by a template, and of what it prints only the name of
//! its conversation and its figures are read.

use std::path::{Path, PathBuf};

use uuid::Uuid;

use super::codex::{self, PlaceSettings, Sandbox};
use super::custom::shipped;
use super::template::{Rendered, Template, TemplateError, Values};
use super::{EngineWord, Event, Reader, Repository, Request, Session, Usage, claude, demo, remote};

/// The variable by which Codex is told how to shut in what it runs.
pub const SANDBOX: &str = "sandbox";
/// What a template may name; the settings can add more.
const VARIABLES: [&str; 13] = [
    "prompt",
    "task",
    "cwd",
    "chatId",
    "newChatId",
    "STATE_MODE",
    "roleId",
    "model",
    SANDBOX,
    "codexRoots",
    "codexDistrust",
    "codexClient",
    "FLEET_MCP",
];

/// How one engine is called for members.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemberEngine {
    pub word: EngineWord,
    run: Template,
    create_chat: Option<Template>,
    /// Configured values, and those that are set for every call.
    values: Values,
}

/// A process for a member; its standard input gets the text and is then closed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemberCommand {
    pub argv: Vec<String>,
    pub environment: Vec<(String, String)>,
    pub stdin: String,
}

impl MemberEngine {
    /// Refuses templates with variables that no member has.
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
        let mut all: Values = VARIABLES.map(|name| (name.to_owned(), String::new())).into();
        all.insert(SANDBOX.to_owned(), codex::USUAL_SANDBOX.to_owned());
        all.extend(values.clone());
        Ok(Self { word, run: parse(run)?, create_chat: create_chat.map(parse).transpose()?, values: all })
    }

    /// One of those that come with us; none for a word that stands for others.
    pub fn shipped(word: EngineWord, values: &Values) -> Option<Result<Self, TemplateError>> {
        shipped(word).map(|known| Self::new(word, known.run, known.create_chat, values))
    }

    /// What makes a conversation before its first run, and prints its id.
    pub fn opening(&self, values: &Values) -> Option<Result<MemberCommand, TemplateError>> {
        let template = self.create_chat.as_ref()?;
        Some(self.rendered(template, values).map(|argv| self.command_of(argv, String::new())))
    }

    /// What to run. A prompt that stands in an argument is not on standard input too.
    pub fn command(&self, values: &Values) -> Result<MemberCommand, TemplateError> {
        let argv = self.rendered(&self.run, values)?;
        let is_inserted = self.run.inserts("prompt") || self.run.inserts("task");
        let prompt = values.get("prompt").filter(|_| !is_inserted).cloned();
        Ok(self.command_of(argv, prompt.unwrap_or_default()))
    }

    /// Is the engine to shut in what it runs, as it does where nothing else is configured?
    pub fn is_shut_in(&self) -> bool {
        let is_usual = self.values.get(SANDBOX).is_some_and(|word| word == codex::USUAL_SANDBOX);
        self.word == EngineWord::Codex && is_usual
    }

    /// Does the engine tell the name of a conversation only when it has begun?
    pub fn names_chats_itself(&self) -> bool {
        self.word == EngineWord::Codex
    }

    fn command_of(&self, argv: Vec<String>, stdin: String) -> MemberCommand {
        let environment = match self.word {
            EngineWord::Claude => claude::environment(),
            EngineWord::Demo => demo::member_environment(),
            EngineWord::Auto | EngineWord::Codex | EngineWord::CursorAgent | EngineWord::Custom => Vec::new(),
        };
        MemberCommand { argv, environment, stdin }
    }

    fn rendered(&self, template: &Template, values: &Values) -> Result<Vec<String>, TemplateError> {
        let mut all = self.values.clone();
        all.extend(values.clone());
        let Rendered { program, arguments } = template.render(&all)?;
        Ok([program].into_iter().chain(arguments).collect())
    }
}

/// The variables that tell where a member works, and beside which settings of its user. Those for Codex are whole
/// settings, because a path that stands in one has to be quoted.
pub fn place(cwd: &str, repository: Option<&Repository>, codex_settings: Option<&str>) -> Values {
    let PlaceSettings { distrust, writable_roots } = PlaceSettings::of(Path::new(cwd), repository);
    let roots = writable_roots.unwrap_or_default();
    let client = codex_settings.and_then(codex::without_client).unwrap_or_default();
    let cwd = cwd.to_owned();
    let pairs = [("cwd", cwd), ("codexRoots", roots), ("codexDistrust", distrust), ("codexClient", client)];
    pairs.map(|(name, value)| (name.to_owned(), value)).into()
}

/// The conversation that the beginning of an engine's output names.
pub fn chat_told(word: EngineWord, stdout: &[u8]) -> Option<String> {
    match word {
        EngineWord::Codex => codex::thread_of(stdout),
        EngineWord::Claude | EngineWord::CursorAgent | EngineWord::Custom => None,
        EngineWord::Auto | EngineWord::Demo => None,
    }
}

/// What a member's output tells of its use.
#[derive(Debug, Clone, PartialEq)]
pub enum MemberUsage {
    /// What its whole conversation has used by now.
    Told { usage: Usage, conversation: Option<String> },
    /// It prints words for people.
    Unknown,
    /// It runs on this machine alone.
    Free,
}

/// Reads the figures in a member's output. Engines count over a whole conversation, also over earlier members of it.
pub fn usage_told(word: EngineWord, argv: &[String], stdout: &str) -> MemberUsage {
    match word {
        EngineWord::Demo => MemberUsage::Free,
        EngineWord::Auto | EngineWord::CursorAgent | EngineWord::Custom => MemberUsage::Unknown,
        EngineWord::Claude | EngineWord::Codex => {
            let engine = remote::by_name(word, PathBuf::new(), Sandbox::Workspace);
            let request = Request {
                model: model_in(argv),
                ..Request::bare(String::new(), Session::Fresh { id: Uuid::nil() })
            };
            engine.map_or(MemberUsage::Unknown, |engine| read_usage(&mut *engine.reader(&request), stdout))
        }
    }
}

fn read_usage(reader: &mut dyn Reader, stdout: &str) -> MemberUsage {
    let (mut told, mut conversation) = (None, None);
    for event in stdout.lines().flat_map(|line| reader.line(line)) {
        match event {
            Event::Spent(spent) => told = Some(spent.run),
            Event::Session(id) => conversation = Some(id),
            Event::Text(_) => {}
        }
    }
    told.map_or(MemberUsage::Unknown, |usage| MemberUsage::Told { usage, conversation })
}

fn model_in(argv: &[String]) -> Option<String> {
    let mut words = argv.iter().skip_while(|word| !matches!(word.as_str(), "-m" | "--model"));
    words.nth(1).cloned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(pairs: &[(&str, &str)]) -> Values {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn the_prompt_goes_to_standard_input_unless_an_argument_has_it() {
        let told = values(&[("prompt", "a\n\"b\" $c `d` <% cwd %>"), ("cwd", "/w")]);
        let command = |template: &str| {
            let engine = MemberEngine::new(EngineWord::Custom, template, None, &Values::new()).unwrap();
            engine.command(&told).unwrap()
        };
        let by_input = command("prog\n--in\n<% cwd %>\n");
        assert_eq!(by_input.argv, ["prog", "--in", "/w"]);
        assert_eq!(by_input.stdin, "a\n\"b\" $c `d` <% cwd %>");
        let by_argument = command("prog\n<% prompt %>\n");
        assert_eq!(by_argument.argv, ["prog", "a\n\"b\" $c `d` <% cwd %>"]);
        assert_eq!(by_argument.stdin, "");
    }

    #[test]
    fn a_conversation_is_begun_and_continued_by_its_name() {
        let claude = MemberEngine::shipped(EngineWord::Claude, &Values::new()).unwrap().unwrap();
        let flags = |pairs: &[(&str, &str)]| {
            let argv = claude.command(&values(pairs)).unwrap().argv;
            argv.iter().skip_while(|word| *word != "--allowedTools").skip(2).cloned().collect::<Vec<_>>()
        };
        assert_eq!(flags(&[]), Vec::<String>::new());
        assert_eq!(flags(&[("newChatId", "n")]), ["--session-id", "n"]);
        assert_eq!(flags(&[("chatId", "c"), ("model", "m")]), ["--model", "m", "--resume", "c"]);
    }

    #[test]
    fn every_template_that_comes_with_us_names_known_variables_and_configured_ones_are_known_too() {
        for word in EngineWord::ALL {
            let engine = MemberEngine::shipped(*word, &Values::new());
            assert_eq!(engine.is_none(), matches!(word, EngineWord::Auto | EngineWord::Custom), "{word}");
            assert!(engine.is_none_or(|engine| engine.is_ok()), "{word}");
        }
        let custom = |known: &Values| MemberEngine::new(EngineWord::Custom, "p\n<% region %>", None, known);
        let error = custom(&Values::new()).unwrap_err().to_string();
        assert!(error.starts_with("line 2 of the template: there is no variable 'region'; there are: "));
        let told = custom(&values(&[("region", "eu")])).unwrap().command(&Values::new()).unwrap();
        assert_eq!(told.argv, ["p", "eu"]);
    }

    #[test]
    fn figures_are_read_where_an_engine_prints_them_and_priced_by_the_model_it_was_called_with() {
        let lines = r#"{"type":"thread.started","thread_id":"th"}
{"type":"turn.completed","usage":{"input_tokens":1000000,"output_tokens":100000}}"#;
        let told = |argv: &[&str], cost_usd| {
            let argv: Vec<String> = argv.iter().map(|word| (*word).to_owned()).collect();
            let usage = Usage { input_tokens: 1_000_000, output_tokens: 100_000, cost_usd };
            let expected = MemberUsage::Told { usage, conversation: Some("th".to_owned()) };
            assert_eq!(usage_told(EngineWord::Codex, &argv, lines), expected);
        };
        told(&["codex", "exec"], None);
        told(&["codex", "exec", "-m", "gpt-5", "-"], Some(2.25));
        told(&["codex", "exec", "-m", "a model of tomorrow"], None);
        assert_eq!(usage_told(EngineWord::Claude, &[], "It is done.\n"), MemberUsage::Unknown);
        assert_eq!(usage_told(EngineWord::Custom, &[], lines), MemberUsage::Unknown);
        assert_eq!(usage_told(EngineWord::Demo, &[], "words"), MemberUsage::Free);
    }
}
