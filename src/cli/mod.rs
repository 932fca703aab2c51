//! The command line: one file per verb, each a thin layer over the library.

mod apply;
mod apply_args;
mod apply_saved;
mod args;
mod atomic_file;
mod backend;
mod backend_hosts;
mod completions;
mod confirm;
mod console;
mod core_dumps;
mod doctor;
mod drift;
mod duration;
mod engine_args;
mod engine_driver;
mod engine_settings;
mod env;
mod error;
mod exec;
mod execute_plan;
mod explain;
mod facts;
mod fetch;
mod foreign_flags;
mod graph;
mod help;
mod history_start;
mod hold;
mod init;
mod interrupt;
mod inventory;
mod library_backend;
mod library_engine;
mod load_options;
mod logs;
mod man;
mod notify;
mod output;
mod past_runs;
mod plan;
mod recipes;
mod recording_args;
pub mod reference;
mod rehearse;
mod report_files;
mod resume;
mod runs;
mod sandbox;
mod saved_plan;
mod schema;
mod secret_programs;
mod settings;
mod shared_args;
mod show;
mod sign;
mod test;
#[cfg(test)]
mod tests;
mod timer;
mod undo;
mod validate;
mod verb_context;
mod verify;
mod watch_run;
mod why_slow;
mod worker;

use crate::model::ExitCode;
use args::{Cli, Verb};
use backend::Backend;
use clap::{CommandFactory, FromArgMatches};
use console::Console;
use env::CliEnvironment;
use error::CliError;
use settings::CliSettings;
use shared_args::GlobalArgs;
use std::ffi::OsString;
use verb_context::{VerbContext, VerbResult};

/// Parses argv and runs a verb. Only verbs that need the async runtime build it.
pub fn main() -> std::process::ExitCode {
    core_dumps::forbid_core_dumps();
    // The panic's message is already on stderr; only the documented exit code is left to return.
    let exit = std::panic::catch_unwind(|| match parse_arguments(std::env::args_os()) {
        Ok(cli) => start_verb(&cli),
        Err(exit) => exit,
    });
    exit.unwrap_or(ExitCode::Unexpected).into()
}

/// Returns the whole command definition with its help.
fn build_cli_command() -> clap::Command {
    Cli::command().after_long_help(help::render_help_footer())
}

/// Parses argv. Prints help, versions and errors, and returns their exit code as the error.
fn parse_arguments(argv: impl IntoIterator<Item = OsString>) -> Result<Cli, ExitCode> {
    let argv: Vec<OsString> = argv.into_iter().collect();
    let known = foreign_flags::reject_terraform_flags(&argv, &build_cli_command());
    let parsed = known.and_then(|()| build_cli_command().try_get_matches_from(argv));
    let parsed = parsed.and_then(|matches| Cli::from_arg_matches(&matches));
    parsed.map_err(|error| foreign_flags::add_foreign_flag_hint(error, &build_cli_command())).map_err(|error| {
        // Ignore a closed output: no other stream could report it.
        let _ = error.print();
        match error.use_stderr() {
            true => ExitCode::Usage,
            false => ExitCode::Done,
        }
    })
}

fn start_verb(cli: &Cli) -> ExitCode {
    let environment = CliEnvironment::from_process();
    let mut settings = CliSettings::new(&cli.global, &environment);
    settings.secrets = cli.verb.secret_need();
    let console = Console::new(settings.color);
    logs::start_logging(&settings, console.live_colour);
    let cx = VerbContext {
        backend: &library_backend::LibraryBackend::new(),
        console: &console,
        typed: &cli.global,
        environment: &environment,
        settings: &settings,
    };
    finish_verb(&cx, run_verb(&cx, &cli.verb))
}

/// Rejects `--step` and `--skip` for a verb that would work on whole hosts in spite of them.
fn reject_step_selection(typed: &GlobalArgs, verb: &Verb) -> Result<(), CliError> {
    let given = [("--step", &typed.step), ("--skip", &typed.skip)].into_iter().find(|(_, given)| !given.is_empty());
    match given.filter(|_| !verb.selects_steps()) {
        None => Ok(()),
        Some((flag, _)) => Err(CliError::usage(format!("`{flag}` is not supported by this verb")).hint(
            "`--step` and `--skip` select steps for plan, rehearse, apply, resume, verify, undo, drift, test, validate, \
             fetch and graph",
        )),
    }
}

fn run_verb<B: Backend>(cx: &VerbContext<'_, B>, verb: &Verb) -> VerbResult {
    if !verb.supports_format(cx.settings.format) {
        let format = cx.settings.format.name();
        let error = CliError::usage(format!("`--format {format}` is not supported by this verb"));
        return Err(
            error.hint("`dot` and `mermaid` require `forge graph`; `ndjson`, `sarif` and `prometheus` require `forge drift`; `junit` and `html` require `forge drift` or `forge test`; `schema`, `completions` and `man` write text only")
        );
    }
    reject_step_selection(cx.typed, verb)?;
    match verb {
        Verb::Init(args) => init::run_init(cx, args),
        Verb::Plan(args) => plan::run_plan(cx, args),
        Verb::Apply(args) => apply::run_apply(cx, args),
        Verb::Rehearse(args) => rehearse::run_rehearse(cx, args),
        Verb::Resume(args) => resume::run_resume(cx, args),
        Verb::Verify(args) => verify::run_verify(cx, args),
        Verb::Undo(args) => undo::run_undo(cx, args),
        Verb::Drift(args) => drift::run_drift(cx, args),
        Verb::Validate(args) => validate::run_validate(cx, args),
        Verb::Facts(args) => facts::run_facts(cx, args),
        Verb::Fetch(args) => fetch::run_fetch(cx, args),
        Verb::Doctor(args) => doctor::run_doctor(cx, args),
        Verb::Test(args) => test::run_test(cx, args),
        Verb::WhySlow(args) => why_slow::run_why_slow(cx, args),
        Verb::Exec(args) => exec::run_exec(cx, args),
        Verb::Hold(args) => hold::run_hold(cx, args),
        Verb::Release(args) => hold::run_release(cx, args),
        Verb::Graph(args) => graph::run_graph(cx, args),
        Verb::Recipes(args) => recipes::run_recipes(cx, args),
        Verb::Explain(args) => explain::run_explain(cx, args),
        Verb::Runs(args) => runs::run_runs(cx, args),
        Verb::Show(args) => show::run_show(cx, args),
        Verb::Sign(args) => sign::run_sign(cx, args),
        Verb::Schema(args) => schema::run_schema(cx, args),
        Verb::Completions(args) => completions::run_completions(cx, args, build_cli_command),
        Verb::Man(args) => man::run_man(cx, args, build_cli_command),
        Verb::Sandbox(args) => sandbox::run_sandbox(cx, args),
        Verb::Worker(args) => worker::run_worker(cx, args),
    }
}

/// Reports the error, if any, and returns the exit code.
fn finish_verb<B>(cx: &VerbContext<'_, B>, ending: VerbResult) -> ExitCode {
    match ending {
        Ok(exit) => exit,
        Err(error) => {
            // Ignore a closed stderr: no other stream could report it.
            let _ = error.write_to(&mut *(cx.console.err)());
            error.exit
        }
    }
}
