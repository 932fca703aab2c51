//! `forge exec`.

use super::backend::Backend;
use super::confirm;
use super::console::Console;
use super::error::CliError;
use super::interrupt::InterruptSignals;
use super::output::VerbOutput;
use super::shared_args::InventoryArg;
use super::verb_context::{LoadedProject, VerbContext, VerbResult, block_on};
use crate::engine::{ExecCommand, ExecReport};
use crate::model::HostName;
use crate::view::{escape, fold, format_count};
use std::io::Write;

/// Run one command on many hosts; identical outputs are shown once
///
/// A single argument after `--` is a script for the shell on the host; several arguments are a program and its
/// arguments, passed on unchanged. The command runs in the home directory of the `connect` user (of root with `sudo`),
/// with the C locale, UTC and an empty stdin, and is stopped after --timeout (default 10m). Asks for confirmation
/// before it runs on more than one host. `plan` does not know what the command changes, and the command does not wait
/// for other runs: declare permanent changes in the inventory instead.
#[derive(Debug, clap::Args)]
#[command(
    override_usage = "forge exec [OPTIONS] [SELECTOR] -- COMMAND...",
    after_long_help = "Examples:
  forge exec gpu-01 -- uptime
  forge exec gpu -i cluster.yaml --yes -- nvidia-smi --query-gpu=driver_version --format=csv,noheader
  forge exec gpu --yes -- 'dmesg | grep -c Xid'       quoted as one argument, the pipe runs on the hosts
  forge exec 'gpu:!canary' --timeout 30s --yes -- systemctl is-active nvidia-persistenced
  forge exec --yes --format json -- uname -r | jq -r '.exec.hosts[] | [.host, .stdout] | @tsv'"
)]
pub struct ExecArgs {
    /// Hosts: names, groups, globs and ranges, as in `gpu:&rack_a:!canary`; defaults to all hosts of the inventory
    pub selector: Option<String>,
    /// Skip the confirmation prompt; JSON output never implies this
    #[arg(long)]
    pub yes: bool,
    /// Program with its arguments, or one argument for a shell
    #[arg(last = true, value_name = "COMMAND")]
    pub command: Vec<String>,
}

pub fn run_exec<B: Backend>(cx: &VerbContext<'_, B>, args: &ExecArgs) -> VerbResult {
    let command = parse_command(args)?;
    let settings = match &args.selector {
        Some(selector) => cx.settings.select_hosts(selector)?,
        None => cx.settings.clone(),
    };
    let cx = &cx.with_settings(&settings);
    let target = cx.resolve_target(&InventoryArg::default())?;
    let output = cx.output_for(&target);
    let loaded = cx.load_project(&target)?;
    check_exec_can_ask(cx.console, args.yes, &loaded.1)?;
    block_on(exec_on_hosts(cx, args, &command, &output, &loaded))
}

/// Returns the command: one argument is a script for a shell, several are words.
fn parse_command(args: &ExecArgs) -> Result<ExecCommand, CliError> {
    match args.command.as_slice() {
        [] => Err(CliError::usage("no command given").hint("pass it after `--`, as in `forge exec gpu-01 -- uptime`")),
        [text] if text.trim().is_empty() => Err(CliError::usage("the command is empty")),
        [text] => Ok(ExecCommand::Shell(text.clone())),
        words => Ok(ExecCommand::Words(words.to_vec())),
    }
}

/// Checks before contacting a host that the user can be asked for confirmation.
fn check_exec_can_ask(console: &Console, yes: bool, hosts: &[HostName]) -> Result<(), CliError> {
    match yes || console.can_ask || hosts.len() < 2 {
        true => Ok(()),
        false => Err(CliError::usage(format!(
            "exec on more than one host ({}) requires confirmation, but there is no terminal",
            format_count(hosts.len(), "host")
        ))
        .hint("pass `--yes` to skip the confirmation, or select one host")),
    }
}

fn format_question(command: &ExecCommand, hosts: &[HostName]) -> String {
    const CHARS: usize = 100;
    let text = match command {
        ExecCommand::Shell(text) => text.clone(),
        // Quoting fails only for a NUL byte, which cannot be typed.
        ExecCommand::Words(words) => shlex::try_join(words.iter().map(String::as_str)).unwrap_or_default(),
    };
    let names = fold::fold_names(hosts.iter().map(HostName::as_str));
    let (text, names) = (escape::escape_truncated(&text, CHARS), escape::escape_truncated(&names, CHARS));
    format!("run `{text}` on {}: {names}?", format_count(hosts.len(), "host"))
}

async fn exec_on_hosts<B: Backend>(
    cx: &VerbContext<'_, B>,
    args: &ExecArgs,
    command: &ExecCommand,
    output: &VerbOutput<'_>,
    (project, hosts): &LoadedProject<B::Project>,
) -> VerbResult {
    let mut stop = InterruptSignals::start_listening()?;
    let asks = hosts.len() > 1 && !args.yes;
    if asks && !confirm::ask_yes_no(&mut stop, cx.console, &format_question(command, hosts)).await? {
        return Err(CliError::interrupted("not run; nothing was contacted"));
    }
    let cancel = B::Cancel::default();
    let work = cx.run_with_progress(output, |events| {
        cx.backend.exec_command(project, hosts, command, cx.settings, events, cancel.clone())
    });
    let report = run_stoppable(cx, &mut stop, work, &cancel).await;
    let exit = report.exit_code();
    output.write_result(&|writer, out| writer.write_exec_report(&report, exit, out))?;
    Ok(exit)
}

/// Runs `work` and stops it on interrupts. Prints how to abandon it: a command may run for long, and no later run
/// resumes it.
async fn run_stoppable<B: Backend>(
    cx: &VerbContext<'_, B>,
    stop: &mut InterruptSignals,
    work: impl Future<Output = ExecReport>,
    cancel: &B::Cancel,
) -> ExecReport {
    tokio::pin!(work);
    loop {
        tokio::select! {
            report = &mut work => return report,
            () = stop.next_interrupt() => {
                cx.backend.request_stop(cancel);
                // Ignore a closed stderr: no other stream could report it.
                let text = "stopping after the running commands; interrupt again to leave them running";
                let _ = writeln!((cx.console.err)(), "{text}");
            }
        }
    }
}
