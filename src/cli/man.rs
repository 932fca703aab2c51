//! `forge man`.

use super::atomic_file;
use super::error::CliError;
use super::output::VerbOutput;
use super::verb_context::{VerbContext, VerbResult};
use crate::model::ExitCode;
use anyhow::Context as _;
use camino::{Utf8Path, Utf8PathBuf};

/// Print the manual page, or write one page per verb to a directory
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Examples:
  forge man | man -l -                           display it
  forge man --into /usr/local/share/man/man1     forge.1, forge-plan.1, …")]
pub struct ManArgs {
    /// Write forge.1 and one page per verb to this directory
    #[arg(long, value_name = "DIR")]
    pub into: Option<Utf8PathBuf>,
}

pub fn run_man<B>(cx: &VerbContext<'_, B>, args: &ManArgs, build_command: fn() -> clap::Command) -> VerbResult {
    let output = VerbOutput { console: cx.console, settings: cx.settings, target: None, resume: None };
    match &args.into {
        None => {
            let page = render_man_page(&build_command())?;
            output.write_raw(&|out| out.write_all(&page))?;
        }
        Some(folder) => write_man_pages(folder, &build_command())?,
    }
    Ok(ExitCode::Done)
}

fn render_man_page(command: &clap::Command) -> Result<Vec<u8>, CliError> {
    let mut page = Vec::new();
    let made = clap_mangen::Man::new(command.clone()).render(&mut page);
    made.context("cannot generate the page").map_err(CliError::unexpected)?;
    Ok(page)
}

fn write_man_pages(folder: &Utf8Path, all: &clap::Command) -> Result<(), CliError> {
    let write = |name: &str, command: &clap::Command| {
        let page = render_man_page(command)?;
        atomic_file::replace_file(&folder.join(format!("{name}.1")), |out| out.write_all(&page))
    };
    write("forge", all)?;
    for verb in all.get_subcommands() {
        let name = format!("forge-{}", verb.get_name());
        // `man` prints this name at the top of the page.
        write(
            &name,
            &verb
                .clone()
                .display_name(name.clone())
                .bin_name(format!("forge {}", verb.get_name()))
                .version(env!("CARGO_PKG_VERSION")),
        )?;
    }
    Ok(())
}
