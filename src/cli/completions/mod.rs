//! `forge completions`: the shell scripts, which run forge to get the candidates at the cursor.

mod candidates;
mod command_line;

use super::output::VerbOutput;
use super::verb_context::{VerbContext, VerbResult};
use crate::model::ExitCode;
use clap_complete::Shell;
use command_line::CommandLine;
use std::ffi::OsString;
use std::sync::mpsc;
use std::time::Duration;

/// Time limit for candidates at a prompt; those not found by then are not offered.
const COMPLETION_TIMEOUT: Duration = Duration::from_secs(2);

/// Print a completion script for a shell: verbs, flags, hosts, groups, steps, recipes and runs
///
/// The bash, zsh and fish scripts run forge for each completion. It reads the inventory that the command line names
/// (-i FILE, the argument, $FORGE_INVENTORY, ./inventory.yaml) and contacts no host.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Examples:
  forge completions bash > /etc/bash_completion.d/forge
  forge completions zsh > ~/.zfunc/_forge        a directory in $fpath
  forge completions fish > ~/.config/fish/completions/forge.fish
  source <(forge completions bash)               in ~/.bashrc, for your user only")]
pub struct CompletionsArgs {
    /// Shell
    pub shell: Shell,
    /// Print the candidates at this position of the words
    #[arg(long, hide = true, value_name = "POSITION", requires = "words")]
    pub complete: Option<usize>,
    /// Words of a command line
    #[arg(last = true, hide = true)]
    pub words: Vec<OsString>,
}

pub fn run_completions<B>(
    cx: &VerbContext<'_, B>,
    args: &CompletionsArgs,
    build_command: fn() -> clap::Command,
) -> VerbResult {
    let output = VerbOutput { console: cx.console, settings: cx.settings, target: None, resume: None };
    let text = match args.complete {
        None => render_script(args.shell, &mut build_command()),
        Some(at) => print_candidates(cx, args, at, build_command).into_bytes(),
    };
    output.write_raw(&|out| out.write_all(&text))?;
    Ok(ExitCode::Done)
}

fn render_script(shell: Shell, command: &mut clap::Command) -> Vec<u8> {
    match shell {
        Shell::Bash => include_bytes!("forge.bash").to_vec(),
        Shell::Zsh => include_bytes!("forge.zsh").to_vec(),
        Shell::Fish => include_bytes!("forge.fish").to_vec(),
        other => {
            // Generates into memory, because the generator panics on a closed pipe.
            let mut script = Vec::new();
            clap_complete::generate(other, command, "forge", &mut script);
            script
        }
    }
}

/// Returns one candidate per line, or none if reading the inventory takes too long.
fn print_candidates<B>(
    cx: &VerbContext<'_, B>,
    args: &CompletionsArgs,
    at: usize,
    build_command: fn() -> clap::Command,
) -> String {
    let words: Vec<String> = args.words.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    let line = CommandLine::new(args.shell, &words, at);
    let environment = cx.environment.clone();
    let (send, receive) = mpsc::channel();
    // The thread is not joined; it ends with the process.
    std::thread::spawn(move || send.send(candidates::complete_line(build_command(), &line, &environment)));
    let found = receive.recv_timeout(COMPLETION_TIMEOUT).unwrap_or_default();
    found.iter().map(|text| format!("{text}\n")).collect()
}
