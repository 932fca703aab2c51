//! Candidates at the cursor: verbs, flags, and names from the inventory of the command line.

use super::super::env::CliEnvironment;
use super::command_line::CommandLine;
use crate::config::{self, DeclaredNames, read_declared_names};
use crate::diag::DiagCode;
use crate::state;
use crate::view::{list_manual_topics, schemas};
use camino::{Utf8Path, Utf8PathBuf};
use clap::{Arg, ArgAction, Command};

/// Maximum number of offered candidates.
const MAX_CANDIDATES: usize = 1000;
/// Maximum number of offered runs; older ones have to be typed.
const MAX_RUNS: usize = 50;

/// Returns the candidates at the cursor, as the shell inserts them.
pub fn complete_line(mut command: clap::Command, line: &CommandLine, environment: &CliEnvironment) -> Vec<String> {
    command.build();
    let typed = TypedCommand::parse_words(&command, &line.before);
    let found = typed.list_candidates(&line.current, environment);
    found
        .iter()
        .filter_map(|found| line.format_candidate(&found.text, found.about.as_deref()))
        .take(MAX_CANDIDATES)
        .collect()
}

/// A candidate word at the cursor.
struct CompletionCandidate {
    text: String,
    about: Option<String>,
}

impl CompletionCandidate {
    fn without_help(text: impl Into<String>) -> Self {
        Self { text: text.into(), about: None }
    }
}

/// The parsed words before the cursor.
struct TypedCommand<'c> {
    /// The verb's command; the root command if no verb was typed.
    command: &'c Command,
    /// The flag whose value comes next, and the number of values that follow it.
    expected: Option<(&'c Arg, usize)>,
    /// Number of positional arguments so far.
    positionals: usize,
    /// Whether `--` was typed, after which no flags follow.
    closed: bool,
    inventory: Option<String>,
    state: Option<String>,
}

impl<'c> TypedCommand<'c> {
    fn parse_words(root: &'c Command, words: &[String]) -> Self {
        let mut typed =
            Self { command: root, expected: None, positionals: 0, closed: false, inventory: None, state: None };
        words.iter().for_each(|word| typed.push_word(word));
        typed
    }

    fn push_word(&mut self, word: &str) {
        if let Some((arg, more)) = self.expected.take() {
            self.expected = more.checked_sub(1).map(|more| (arg, more));
            return self.record_value(arg, word);
        }
        match (self.closed, word.strip_prefix("--"), word.strip_prefix('-')) {
            (false, Some(""), _) => self.closed = true,
            (false, Some(long), _) => {
                let (name, value) = long.split_once('=').map_or((long, None), |(name, value)| (name, Some(value)));
                let arg = self.command.get_arguments().find(|arg| arg.get_long() == Some(name));
                self.push_flag(arg, value);
            }
            (false, None, Some(short)) if !short.is_empty() => self.push_short_flags(short),
            _ => self.push_positional(word),
        }
    }

    fn push_short_flags(&mut self, letters: &str) {
        for (at, letter) in letters.char_indices() {
            let arg = self.command.get_arguments().find(|arg| arg.get_short() == Some(letter));
            if arg.is_some_and(takes_value) {
                let rest = &letters[at + letter.len_utf8()..];
                return self.push_flag(arg, Some(rest).filter(|rest| !rest.is_empty()));
            }
        }
    }

    fn push_flag(&mut self, arg: Option<&'c Arg>, value: Option<&str>) {
        match (arg.filter(|arg| takes_value(arg)), value) {
            (Some(arg), Some(value)) => self.record_value(arg, value),
            (Some(arg), None) => self.expected = Some((arg, min_value_count(arg).saturating_sub(1))),
            (None, None) => {}
            (None, Some(_)) => {}
        }
    }

    fn push_positional(&mut self, word: &str) {
        if let Some(verb) = self.command.find_subcommand(word).filter(|_| self.positionals == 0) {
            self.command = verb;
            return;
        }
        if let Some(arg) = self.next_positional() {
            self.record_value(arg, word);
        }
        self.positionals += 1;
    }

    /// Returns the next positional argument; the last one can repeat.
    fn next_positional(&self) -> Option<&'c Arg> {
        let all: Vec<&Arg> = self.command.get_positionals().filter(|arg| !arg.is_last_set()).collect();
        let several = all.last().filter(|arg| matches!(arg.get_action(), ArgAction::Append));
        all.get(self.positionals).or(several).copied()
    }

    fn record_value(&mut self, arg: &Arg, value: &str) {
        match arg.get_id().as_str() {
            "inventory" | "inventory_flag" | "given" => self.inventory = Some(value.to_owned()),
            "state" => self.state = Some(value.to_owned()),
            _ => {}
        }
    }

    fn list_candidates(&self, current: &str, environment: &CliEnvironment) -> Vec<CompletionCandidate> {
        if let Some((arg, _)) = self.expected {
            return self.list_values(arg, current, environment);
        }
        match (self.closed, current.split_once('=')) {
            (false, Some((flag, value))) if flag.starts_with("--") => {
                let arg = self.command.get_arguments().find(|arg| arg.get_long() == flag.get(2..));
                let values = arg.map(|arg| self.list_values(arg, value, environment)).unwrap_or_default();
                values
                    .into_iter()
                    .map(|value| CompletionCandidate::without_help(format!("{flag}={}", value.text)))
                    .collect()
            }
            (false, _) if current.starts_with('-') => list_flags(self.command),
            (true, _) => Vec::new(),
            _ => {
                let mut found = if self.positionals == 0 { list_verbs(self.command) } else { Vec::new() };
                found.extend(self.next_positional().iter().flat_map(|arg| self.list_values(arg, current, environment)));
                found
            }
        }
    }

    /// Returns the values of an argument; none for a file argument, which the shell completes.
    fn list_values(&self, arg: &Arg, current: &str, environment: &CliEnvironment) -> Vec<CompletionCandidate> {
        let names = || read_declared_names(&self.inventory_path(environment), config::builtin_data::BUILTIN_RECIPES);
        match (self.command.get_name(), arg.get_id().as_str()) {
            (_, "on") | ("exec", "selector") => list_selectors(&names(), current),
            (_, "step" | "skip") => list_steps(&names()),
            ("recipes", "name") => list_recipes(&names()),
            ("explain", "thing") => list_explain_topics(&names()),
            ("schema", "name") => {
                schemas::list_schemas().map(|schema| candidate_with_help(schema.name, schema.what)).collect()
            }
            ("show" | "undo" | "resume", "run") | ("runs", "compare") => self.list_runs(environment),
            _ => arg
                .get_possible_values()
                .iter()
                .filter(|value| !value.is_hide_set())
                .map(candidate_from_value)
                .collect(),
        }
    }

    fn inventory_path(&self, environment: &CliEnvironment) -> Utf8PathBuf {
        let typed = self.inventory.as_deref().map(|path| expand_home(path, environment));
        typed.or_else(|| environment.inventory.clone()).unwrap_or_else(|| "inventory.yaml".into())
    }

    fn list_runs(&self, environment: &CliEnvironment) -> Vec<CompletionCandidate> {
        let typed =
            self.state.as_deref().map(|path| expand_home(path, environment)).or_else(|| environment.state.clone());
        let beside = || self.inventory_path(environment).parent().unwrap_or(Utf8Path::new("")).join(".forge");
        let runs = state::list_runs(&typed.unwrap_or_else(beside)).unwrap_or_default();
        let last = (!runs.is_empty()).then(|| CompletionCandidate::without_help("last"));
        let runs = runs.into_iter().take(MAX_RUNS).map(|run| candidate_with_help(&run.run, &run.cluster));
        last.into_iter().chain(runs).collect()
    }
}

/// Expands `~` to the home directory, because the shell has not done so yet.
fn expand_home(path: &str, environment: &CliEnvironment) -> Utf8PathBuf {
    match (path.strip_prefix("~/"), &environment.home) {
        (Some(rest), Some(home)) => home.join(rest),
        _ => path.into(),
    }
}

fn min_value_count(arg: &Arg) -> usize {
    arg.get_num_args().map_or(1, |count| count.min_values())
}

fn takes_value(arg: &Arg) -> bool {
    arg.get_num_args().is_some_and(|count| count.takes_values())
}

fn candidate_with_help(text: &str, about: &str) -> CompletionCandidate {
    CompletionCandidate { text: text.to_owned(), about: Some(about.to_owned()) }
}

fn candidate_from_value(value: &clap::builder::PossibleValue) -> CompletionCandidate {
    CompletionCandidate { text: value.get_name().to_owned(), about: value.get_help().map(ToString::to_string) }
}

fn list_verbs(command: &Command) -> Vec<CompletionCandidate> {
    let shown = command.get_subcommands().filter(|verb| !verb.is_hide_set());
    shown
        .map(|verb| CompletionCandidate {
            text: verb.get_name().to_owned(),
            about: verb.get_about().map(ToString::to_string),
        })
        .collect()
}

fn list_flags(command: &Command) -> Vec<CompletionCandidate> {
    let shown = command.get_arguments().filter(|arg| !arg.is_hide_set());
    let long = |arg: &Arg| {
        Some(CompletionCandidate {
            text: format!("--{}", arg.get_long()?),
            about: arg.get_help().map(ToString::to_string),
        })
    };
    shown.filter_map(long).collect()
}

/// Returns hosts and groups for the last term of a selector.
fn list_selectors(names: &DeclaredNames, current: &str) -> Vec<CompletionCandidate> {
    let term = current.rfind(':').map_or(0, |at| at + 1);
    let sign = current[term..].chars().take_while(|c| matches!(c, '&' | '!')).count();
    let head = &current[..term + sign];
    names
        .groups
        .iter()
        .chain(&names.hosts)
        .map(|name| CompletionCandidate::without_help(format!("{head}{name}")))
        .collect()
}

fn list_steps(names: &DeclaredNames) -> Vec<CompletionCandidate> {
    let one = |recipe: &config::DeclaredRecipe| {
        let steps =
            recipe.steps.iter().map(|step| CompletionCandidate::without_help(format!("{}/{step}", recipe.name)));
        std::iter::once(CompletionCandidate::without_help(recipe.name.as_str())).chain(steps).collect::<Vec<_>>()
    };
    names.recipes.iter().flat_map(one).collect()
}

fn list_recipes(names: &DeclaredNames) -> Vec<CompletionCandidate> {
    let own = names.recipes.iter().map(|recipe| recipe.name.as_str());
    let all: std::collections::BTreeSet<&str> =
        own.chain(config::builtin_data::BUILTIN_RECIPES.iter().map(|(name, _)| *name)).collect();
    all.into_iter().map(CompletionCandidate::without_help).collect()
}

fn list_explain_topics(names: &DeclaredNames) -> Vec<CompletionCandidate> {
    let steps = list_steps(names).into_iter().filter(|step| step.text.contains('/'));
    let codes = DiagCode::ALL.iter().map(|code| candidate_with_help(code.id(), code.title()));
    steps.chain(list_manual_topics().map(CompletionCandidate::without_help)).chain(codes).collect()
}
