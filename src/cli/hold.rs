//! `forge hold` and `forge release`.

use super::backend::Backend;
use super::duration::parse_positive_duration;
use super::error::CliError;
use super::interrupt::InterruptSignals;
use super::shared_args::InventoryArg;
use super::verb_context::{VerbContext, VerbResult, block_on};
use crate::engine::HoldEnd;

/// Keep hosts out of `apply`, with a reason that every plan shows
///
/// The hold is noted on each host, so it applies to every controller. `apply` changes nothing there, holds the changes
/// back and exits 10 if there are any; `plan` and `drift` show the hold and go on comparing. A run that already works on
/// a host finishes, and is named; one that has not begun there leaves it alone. `forge release` ends the hold.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Examples:
  forge hold gpu-17 --why 'waits for a new adapter, ticket 4711'
  forge hold rack_b -i cluster.yaml --why 'the rack is moved' --until 2d
  forge release rack_b -i cluster.yaml")]
pub struct HoldArgs {
    /// Hosts: names, groups, globs and ranges, as in `gpu:&rack_a:!canary`
    pub selector: String,
    /// The reason, for everybody who reads a plan
    #[arg(long, value_name = "TEXT", value_parser = parse_reason)]
    pub why: String,
    /// When it ends by itself, by the clock of the host: a duration, `2d`, or a time, `2026-12-01T08:00Z`
    #[arg(long, value_name = "TIME", value_parser = parse_hold_end)]
    pub until: Option<HoldEnd>,
}

/// End the hold of hosts: `apply` changes them again
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Examples:
  forge release gpu-17
  forge release rack_b -i cluster.yaml")]
pub struct ReleaseArgs {
    /// Hosts: names, groups, globs and ranges, as in `gpu:&rack_a:!canary`
    pub selector: String,
}

fn parse_hold_end(text: &str) -> Result<HoldEnd, String> {
    if let Ok(time) = parse_positive_duration(text) {
        return Ok(HoldEnd::After(time));
    }
    // Without seconds, as people write it.
    let with_seconds = || text.strip_suffix('Z').map(|start| format!("{start}:00Z"));
    let at = text.parse().ok().or_else(|| with_seconds()?.parse().ok());
    at.map(HoldEnd::At)
        .ok_or_else(|| "expected a duration, as in `2d`, or a time, as in `2026-12-01T08:00Z`".to_owned())
}

fn parse_reason(text: &str) -> Result<String, String> {
    match text.trim() {
        "" => Err("the reason is empty".to_owned()),
        text => Ok(text.to_owned()),
    }
}

pub fn run_hold<B: Backend>(cx: &VerbContext<'_, B>, args: &HoldArgs) -> VerbResult {
    set_holds(cx, &args.selector, Some((&args.why, args.until)))
}

pub fn run_release<B: Backend>(cx: &VerbContext<'_, B>, args: &ReleaseArgs) -> VerbResult {
    set_holds(cx, &args.selector, None)
}

fn set_holds<B: Backend>(cx: &VerbContext<'_, B>, selector: &str, hold: Option<(&str, Option<HoldEnd>)>) -> VerbResult {
    let settings = cx.settings.select_hosts(selector)?;
    let cx = &cx.with_settings(&settings);
    let target = cx.resolve_target(&InventoryArg::default())?;
    let output = cx.output_for(&target);
    let (project, mut hosts) = cx.load_project(&target)?;
    hosts.retain(|host| !host.is_cluster());
    if hosts.is_empty() {
        return Err(CliError::usage(format!("`{selector}` selects no machine: only machines can be put on hold")));
    }
    block_on(async {
        let mut stop = InterruptSignals::start_listening()?;
        let cancel = B::Cancel::default();
        let work = cx.run_with_progress(&output, |events| {
            cx.backend.set_hold(&project, &hosts, hold, cx.settings, events, cancel.clone())
        });
        let report = cx.run_stoppable(&mut stop, work, &cancel).await.map_err(CliError::usage)?;
        let exit = report.exit_code();
        output.write_result(&|writer, out| writer.write_holds(&report, exit, out))?;
        Ok(exit)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn end_is_a_duration_or_a_time() {
        let at: jiff::Timestamp = "2026-12-01T08:00:00Z".parse().unwrap();
        assert_eq!(parse_hold_end("2d"), Ok(HoldEnd::After(Duration::from_secs(172_800))));
        assert_eq!(parse_hold_end("2026-12-01T08:00Z"), Ok(HoldEnd::At(at)));
        assert_eq!(parse_hold_end("2026-12-01T09:00:00+01:00"), Ok(HoldEnd::At(at)));
        let wrong = Err("expected a duration, as in `2d`, or a time, as in `2026-12-01T08:00Z`".to_owned());
        assert_eq!(parse_hold_end("tomorrow"), wrong);
        assert_eq!(parse_hold_end("0s"), wrong);
    }
}
