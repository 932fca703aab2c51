//! `forge runs --watch`: shows what a run of another process does, from its journal.

use super::error::CliError;
use super::interrupt::InterruptSignals;
use super::output::VerbOutput;
use super::past_runs;
use super::verb_context::{VerbContext, VerbResult, block_on};
use crate::engine::JournalEntry;
use crate::model::ExitCode;
use crate::state::{JOURNAL, RunFolder};
use crate::view::progress::{ProgressDetail, ProgressDisplay, ProgressState};
use anyhow::anyhow;
use std::io::{Read, Write};
use std::time::{Duration, Instant};

/// How often the journal is read.
const POLL_INTERVAL: Duration = Duration::from_millis(200);

/// Watches the newest run in progress until it ends, then prints it. Without one, prints the newest run.
///
/// # Errors
/// Usage: no run is in progress. Interrupted: the user stopped watching. Unexpected: the journal cannot be read.
pub fn watch_run<B>(cx: &VerbContext<'_, B>, output: &VerbOutput<'_>, folders: &[RunFolder]) -> VerbResult {
    let Some(newest) = folders.first() else {
        return Err(CliError::usage("no run is in progress").hint("`forge apply` starts one"));
    };
    if let Some(active) = folders.iter().find(|folder| folder.is_active()) {
        block_on(follow_run(output, active))?;
        return print_run(output, active);
    }
    if cx.settings.detail > ProgressDetail::Quiet {
        // Ignore a closed stderr: no other stream could report it.
        let _ = writeln!((cx.console.err)(), "no run is in progress on this machine; the newest run:");
    }
    print_run(output, newest)
}

fn print_run(output: &VerbOutput<'_>, folder: &RunFolder) -> VerbResult {
    let run = past_runs::read_run(folder)?;
    output.write_result(&|writer, out| writer.write_run(&run, out))?;
    Ok(ExitCode::Done)
}

async fn follow_run(output: &VerbOutput<'_>, folder: &RunFolder) -> VerbResult {
    let failed = |why: String| CliError::unexpected(anyhow!("cannot read run `{}`: {why}", folder.run));
    let mut stop = InterruptSignals::start_listening()?;
    let info = folder.read_info().map_err(failed)?;
    let hosts = info.hosts.iter().filter(|host| !host.is_cluster()).count();
    let mut display = output.create_progress(ProgressState::for_watch(hosts));
    let mut tail = JournalTail::open(folder).map_err(failed)?;
    let mut polls = tokio::time::interval(POLL_INTERVAL.min(display.tick_interval()));
    loop {
        tokio::select! {
            _ = polls.tick() => {}
            () = stop.next_interrupt() => {
                display.finish();
                return Err(CliError::interrupted(format!("stopped watching; run `{}` continues", folder.run)));
            }
        }
        // Asked first: entries that are written before the end are then read after it.
        let active = folder.is_active();
        tail.show_new_entries(display.as_mut()).map_err(failed)?;
        display.tick(Instant::now());
        if !active {
            display.finish();
            return Ok(ExitCode::Done);
        }
    }
}

/// A journal that another process appends to.
struct JournalTail {
    journal: fs_err::File,
    /// The line that is not complete yet.
    rest: Vec<u8>,
}

impl JournalTail {
    fn open(folder: &RunFolder) -> Result<Self, String> {
        let journal = fs_err::File::open(folder.path.join(JOURNAL)).map_err(|error| error.to_string())?;
        Ok(Self { journal, rest: Vec::new() })
    }

    fn show_new_entries(&mut self, display: &mut dyn ProgressDisplay) -> Result<(), String> {
        self.journal.read_to_end(&mut self.rest).map_err(|error| error.to_string())?;
        let complete = self.rest.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        let lines: Vec<u8> = self.rest.drain(..complete).collect();
        for line in lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            let entry: JournalEntry =
                serde_json::from_slice(line).map_err(|error| format!("a line of the journal is invalid: {error}"))?;
            display.show_event(&entry.event, find_instant(&entry));
        }
        Ok(())
    }
}

/// Returns when an event happened; now if that is unknown.
#[expect(
    clippy::disallowed_methods,
    reason = "the journal has times of the wall clock, the display has those of a process"
)]
fn find_instant(entry: &JournalEntry) -> Instant {
    let now = Instant::now();
    let then = entry.at.as_deref().and_then(|at| at.parse::<jiff::Timestamp>().ok());
    let age = then.and_then(|then| Duration::try_from(jiff::Timestamp::now().duration_since(then)).ok());
    age.and_then(|age| now.checked_sub(age)).unwrap_or(now)
}
