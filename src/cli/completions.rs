//! `forge completions`.

use super::args::Cli;
use super::output::Output;
use super::run::{Cx, Ending};
use crate::model::ExitCode;
use clap::CommandFactory;

/// Print a script that completes forge's verbs and flags in a shell
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Examples:
  forge completions bash > /etc/bash_completion.d/forge
  forge completions zsh > ~/.zfunc/_forge        a folder of $fpath
  forge completions fish > ~/.config/fish/completions/forge.fish")]
pub struct Args {
    /// The shell
    pub shell: clap_complete::Shell,
}

pub fn run<B>(cx: &Cx<'_, B>, args: &Args) -> Ending {
    let output = Output { console: cx.console, settings: cx.settings, target: None };
    // Made in memory: the generator panics where a pipe is closed on it.
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "forge", &mut script);
    output.drawn(&|out| out.write_all(&script))?;
    Ok(ExitCode::Done)
}
