//! `forge exec`.

use super::args::InventoryArg;
use super::backend::Backend;
use super::confirm;
use super::console::Console;
use super::error::CliError;
use super::interrupt::Interrupts;
use super::output::Output;
use super::run::{Cx, Ending, Loaded, block_on};
use super::settings::Settings;
use crate::engine::{Command, ExecReport};
use crate::model::HostName;
use crate::view::{count, escape, fold};
use std::io::Write;

/// Run one command on many hosts; equal outputs are shown once
///
/// One argument after `--` is text for a shell on the host, several are a program with its arguments, passed on as
/// they were typed. It runs in the home folder as `connect` says (root where it says `sudo`), with C locale, UTC and
/// nothing on stdin, and is stopped after --timeout (10m). Asks before more than one host. What it changes is not
/// known to `plan`, and it waits for no run: to change hosts for good, declare it.
#[derive(Debug, clap::Args)]
#[command(
    override_usage = "forge exec [OPTIONS] [SELECTOR] -- COMMAND...",
    after_long_help = "Examples:
  forge exec gpu-01 -- uptime
  forge exec gpu -i cluster.yaml --yes -- nvidia-smi --query-gpu=driver_version --format=csv,noheader
  forge exec gpu --yes -- 'dmesg | grep -c Xid'       a pipe runs on the hosts, in one quoted text
  forge exec 'gpu:!canary' --timeout 30s --yes -- systemctl is-active nvidia-persistenced
  forge exec --yes --format json -- uname -r | jq -r '.exec.hosts[] | [.host, .stdout] | @tsv'"
)]
pub struct Args {
    /// The hosts: names, groups, globs and ranges, as in `gpu:&rack_a:!canary`; without it all of the inventory
    pub selector: Option<String>,
    /// Do not ask; JSON output never implies it
    #[arg(long)]
    pub yes: bool,
    /// What to run: a program with its arguments, or one text for a shell
    #[arg(last = true, value_name = "COMMAND")]
    pub command: Vec<String>,
}

pub fn run<B: Backend>(cx: &Cx<'_, B>, args: &Args) -> Ending {
    let command = command(args)?;
    let settings = settings(cx, args)?;
    let cx = &cx.with(&settings);
    let target = cx.target(&InventoryArg::default())?;
    let output = cx.output(&target);
    let loaded = cx.load(&target)?;
    possible(cx.console, args.yes, &loaded.1)?;
    block_on(exec(cx, args, &command, &output, &loaded))
}

/// Hosts stand where other verbs have the inventory, and `--on` says the same.
fn settings<B: Backend>(cx: &Cx<'_, B>, args: &Args) -> Result<Settings, CliError> {
    let mut settings = cx.settings.clone();
    let Some(selector) = &args.selector else { return Ok(settings) };
    if selector.ends_with(".yaml") || selector.ends_with(".yml") {
        let error = CliError::usage(format!("`{selector}` stands where hosts are named"));
        return Err(error.hint(format!("give the inventory as `-i {selector}`")));
    }
    if let Some(on) = settings.on.replace(selector.clone()) {
        let error = CliError::usage(format!("hosts are named twice: `{selector}` and `--on {on}`"));
        return Err(error.hint("give one of them"));
    }
    Ok(settings)
}

/// One argument is what a shell reads; more are words.
fn command(args: &Args) -> Result<Command, CliError> {
    match args.command.as_slice() {
        [] => {
            Err(CliError::usage("no command is given")
                .hint("it stands after `--`, as in `forge exec gpu-01 -- uptime`"))
        }
        [text] if text.trim().is_empty() => Err(CliError::usage("the command is empty")),
        [text] => Ok(Command::Shell(text.clone())),
        words => Ok(Command::Words(words.to_vec())),
    }
}

/// Checks, before anything is contacted, that somebody can be asked.
fn possible(console: &Console, yes: bool, hosts: &[HostName]) -> Result<(), CliError> {
    match yes || console.can_ask || hosts.len() < 2 {
        true => Ok(()),
        false => Err(CliError::usage(format!(
            "exec asks before it runs on more than one host ({}), and there is no terminal to ask on",
            count(hosts.len(), "host")
        ))
        .hint("give `--yes` to run without being asked, or name one host")),
    }
}

fn question(command: &Command, hosts: &[HostName]) -> String {
    const CHARS: usize = 100;
    let text = match command {
        Command::Shell(text) => text.clone(),
        // Only a NUL, which cannot be typed, cannot be quoted.
        Command::Words(words) => shlex::try_join(words.iter().map(String::as_str)).unwrap_or_default(),
    };
    let names = fold::fold(hosts.iter().map(HostName::as_str));
    let (text, names) = (escape::short(&text, CHARS), escape::short(&names, CHARS));
    format!("run `{text}` on {}: {names}?", count(hosts.len(), "host"))
}

async fn exec<B: Backend>(
    cx: &Cx<'_, B>,
    args: &Args,
    command: &Command,
    output: &Output<'_>,
    (project, hosts): &Loaded<B::Project>,
) -> Ending {
    let mut stop = Interrupts::catch()?;
    let asks = hosts.len() > 1 && !args.yes;
    if asks && !confirm::ask(&mut stop, cx.console, &question(command, hosts)).await? {
        return Err(CliError::interrupted("not run; nothing was contacted"));
    }
    let cancel = B::Cancel::default();
    let work = cx.shown(output, |events| cx.backend.exec(project, hosts, command, cx.settings, events, cancel.clone()));
    let report = stoppable(cx, &mut stop, work, &cancel).await;
    let exit = report.exit_code();
    output.result(&|writer, out| writer.exec(&report, exit, out))?;
    Ok(exit)
}

/// As for other verbs, and says what an interrupt does: a command may run for long, and nothing picks it up again.
async fn stoppable<B: Backend>(
    cx: &Cx<'_, B>,
    stop: &mut Interrupts,
    work: impl Future<Output = ExecReport>,
    cancel: &B::Cancel,
) -> ExecReport {
    tokio::pin!(work);
    loop {
        tokio::select! {
            report = &mut work => return report,
            () = stop.next() => {
                cx.backend.stop(cancel);
                // A stderr that is gone leaves nobody to tell.
                let _ = writeln!((cx.console.err)(), "stopping after what is running; interrupt again to leave it running");
            }
        }
    }
}
