//! `forge drift`.

use super::args::{Format, InventoryArg};
use super::backend::{Ask, Backend};
use super::duration;
use super::error::CliError;
use super::interrupt::Interrupts;
use super::notify::{self, NotifyArgs};
use super::output::{Output, Render};
use super::recorded::Recorded;
use super::report::{self, Found, Report};
use super::run::{Cx, Ending, block_on};
use super::saved::Keep;
use super::timer::{self, TimerArgs};
use crate::config::OutlierMode;
use crate::engine;
use crate::model::{ExitCode, HostName, Level};
use crate::view::escape;
use camino::{Utf8Path, Utf8PathBuf};
use jiff::civil::Date;
use std::io::Write as _;
use std::str::FromStr;
use std::time::Duration;

/// Tell what is not as declared any more, why, and change nothing
///
/// Compares what is declared with what hosts show and with what they remember of the last apply: that tells a machine
/// that was changed from a recipe that was changed. Nothing is written on a host, and nothing is asked that would
/// change one. One line where everything is as declared. Ends with 0 when it is, 2 when something is not; what is
/// pending or blocked is not.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Examples:
  forge drift cluster.yaml                     what moved, equal findings once
  forge drift cluster.yaml -v                  also who applied it last, when, and where it is declared
  forge drift cluster.yaml --on gpu --format json
  forge drift cluster.yaml --format ndjson     one message a line, the version first
  forge drift cluster.yaml --report html=drift.html --report prometheus=/var/lib/node_exporter/forge.prom
  forge drift cluster.yaml --history --since 7d   what came and went, how long it took, who is found most often
  forge drift cluster.yaml --plan-out fix.json    keep the plan of the repair, for `forge apply fix.json`
  forge drift cluster.yaml --outliers          also which host is unlike the others of its kind
  forge drift cluster.yaml --notify-dry-run    what those in `drift.notify` would be sent
  forge drift cluster.yaml --install-timer     every 15 minutes, by systemd on this machine
  forge drift cluster.yaml --record seen.json  also keep what hosts answered; `plan --observed` reads it")]
pub struct Args {
    #[command(flatten)]
    pub inventory: InventoryArg,
    #[command(flatten)]
    pub recorded: Recorded,
    /// Keep the plan that would repair what was found in a file, which `forge apply FILE` carries out; secrets are left out
    #[arg(long, value_name = "FILE", conflicts_with_all = ["history", "install_timer"])]
    pub plan_out: Option<Utf8PathBuf>,
    /// Write what was found to a file too: text, json, ndjson, markdown, junit, sarif, prometheus or html; may be given several times
    #[arg(long, value_name = "FORMAT=FILE", conflicts_with = "history")]
    pub report: Vec<Report>,
    /// Look as deep as this: L0 present, L1 versions agree, L2 loaded and active, L3 hardware, L4 in Kubernetes, L5 how fast
    #[arg(long, value_name = "LEVEL", default_value = "L4", value_parser = level)]
    pub level: Level,
    /// Show what earlier runs found; no host is contacted
    #[arg(long, conflicts_with_all = ["record", "observed"])]
    pub history: bool,
    /// With --history: from then on: 12h, 7d, or a day as in 2026-11-21
    #[arg(long, value_name = "TIME", requires = "history")]
    pub since: Option<Since>,
    /// Also show what few of the hosts that are alike have, against the majority of them; `count`: as found, so that forge ends with 2
    #[arg(long, value_name = "HOW", num_args = 0..=1, require_equals = true, default_missing_value = "show")]
    pub outliers: Option<OutlierMode>,
    #[command(flatten)]
    pub notify: NotifyArgs,
    #[command(flatten)]
    pub timer: TimerArgs,
}

fn level(text: &str) -> Result<Level, String> {
    Level::parse(text).ok_or_else(|| "a level is `L0`, `L1`, `L2`, `L3`, `L4` or `L5`".to_owned())
}

/// From when on a history is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Since {
    Ago(Duration),
    Day(Date),
}

impl FromStr for Since {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let ago = duration::parse(text).map(Self::Ago);
        ago.or_else(|_| text.parse().map(Self::Day))
            .map_err(|_: jiff::Error| "a time is `30m`, `12h`, `7d` or a day as in `2026-11-21`".to_owned())
    }
}

pub fn run<B: Backend>(cx: &Cx<'_, B>, args: &Args) -> Ending {
    let keep = Keep { output: args.plan_out.clone() };
    // A repair is of all levels, as every plan is.
    let repair = &keep.settings(&args.recorded.settings(cx.settings)?)?;
    let mut settings = repair.clone();
    settings.filter = settings.filter.down_to(args.level);
    let (repair, cx) = (&cx.with(repair), &cx.with(&settings));
    let target = cx.target(&args.inventory)?;
    report::check(&args.report)?;
    let output = cx.output(&target);
    let loaded = cx.load(&target)?;
    args.notify.check(&cx.backend.project(&loaded.0).drift.notify)?;
    if args.timer.install_timer {
        return install(cx, &output, args, &target.path, &loaded.0);
    }
    if args.history {
        return history(cx, &output, &loaded.0, args.since);
    }
    block_on(async {
        let mut stop = Interrupts::catch()?;
        let mode = args.outliers.or(cx.backend.project(&loaded.0).drift.outliers);
        let seen = cx.observe(&mut stop, &output, &loaded, Ask::Drift { outliers: mode.is_some() }).await?;
        args.recorded.write(cx.backend, &loaded.0, &seen)?;
        let mut drift = cx.backend.drift(&loaded.0, &seen, cx.settings);
        drift.outliers = mode.map(|_| engine::outliers(cx.backend.project(&loaded.0), seen.as_ref()));
        drift.outliers_count = mode == Some(OutlierMode::Count);
        tokio::select! {
            () = cx.backend.accuse(&loaded.0, &seen, &mut drift, cx.settings) => {}
            () = stop.next() => {
                return Err(CliError::interrupted("interrupted while asking who it was; nothing was changed"));
            }
        }
        tokio::select! {
            unkept = cx.backend.keep(&loaded.0, &seen, cx.settings) => say_unkept(cx, &unkept),
            () = stop.next() => return Err(CliError::interrupted("interrupted while hosts keep their findings")),
        }
        tokio::select! {
            notified = notify::tell(cx, args.notify, &loaded.0, &drift) => drift.notified = notified,
            () = stop.next() => return Err(CliError::interrupted("interrupted while telling people; who was not told is with the next run")),
        }
        notify::say(cx, &drift.notified);
        let formats = args.report.iter().map(|report| report.format).chain([cx.settings.format]);
        let found = Found::new(cx, &loaded.0, drift, &formats.collect::<Vec<_>>());
        told(cx, &output, &found)?;
        found.write_all(&args.report, &output.text())?;
        if args.notify.notify_dry_run {
            people(cx, &notify::dry(cx, &loaded.0, &found.drift)?)?;
        }
        if keep.output.is_some() {
            let plan = repair.backend.plan(&loaded.0, &seen, repair.settings);
            let saved = keep.bind(repair, &loaded, &seen, &plan).await;
            keep.write(saved.as_ref())?;
            keep.tell(repair, saved.as_ref());
        }
        Ok(found.exit)
    })
}

/// Writes to stdout, and to the file of `--json-into`.
fn told<B>(cx: &Cx<'_, B>, output: &Output<'_>, found: &Found) -> Result<(), CliError> {
    let render: Render<'_> = &|writer, out| writer.drift(&found.drift, found.exit, out);
    match cx.settings.format {
        Format::Text | Format::Json => output.result(render),
        format => {
            output.drawn(&|out| found.write(format, &output.text(), out))?;
            output.file_beside(render)
        }
    }
}

/// Says which hosts could not keep their findings: the result is as good without, and the next run tries again.
fn say_unkept<B>(cx: &Cx<'_, B>, unkept: &[(HostName, String)]) {
    let mut err = (cx.console.err)();
    for (host, why) in unkept {
        // A stderr that is gone leaves nobody to tell.
        let _ =
            writeln!(err, "warning: {host} could not keep since when its findings are there: {}", escape::line(why));
    }
}

/// Writes for people: to stdout, or to stderr where a program reads that.
fn people<B: Backend>(cx: &Cx<'_, B>, text: &str) -> Result<(), CliError> {
    let mut out = if cx.settings.format == Format::Text { (cx.console.out)() } else { (cx.console.err)() };
    let written = write!(out, "{text}").and_then(|()| out.flush());
    written.map_err(|error| CliError::unexpected(format!("the output cannot be written: {error}")))
}

fn history<B: Backend>(cx: &Cx<'_, B>, output: &Output<'_>, project: &B::Project, since: Option<Since>) -> Ending {
    let history = cx.backend.drift_history(project, since, cx.settings).map_err(|why| {
        CliError::unexpected(format!("the history of drift cannot be read: {why}"))
            .hint("name another state folder with `--state`")
    })?;
    match cx.settings.format {
        Format::Text | Format::Json => output.result(&|writer, out| writer.drift_history(&history, out))?,
        format => {
            let error = CliError::usage(format!("a history is not written as `--format {}`", format.name()));
            return Err(error.hint("`--format json` writes it as one document"));
        }
    }
    Ok(ExitCode::Done)
}

fn install<B: Backend>(
    cx: &Cx<'_, B>,
    output: &Output<'_>,
    args: &Args,
    inventory: &Utf8Path,
    project: &B::Project,
) -> Ending {
    let command = command(cx, args, inventory)?;
    let said = timer::install(cx, &args.timer, &cx.backend.project(project).cluster, &command)?;
    output.drawn(&|out| timer::tell(&said, out))?;
    Ok(ExitCode::Done)
}

/// Returns the command that the timer runs: this one, by absolute paths.
fn command<B>(cx: &Cx<'_, B>, args: &Args, inventory: &Utf8Path) -> Result<Vec<String>, CliError> {
    let absolute = |path: &Utf8Path| {
        let path = camino::absolute_utf8(path);
        path.map(Utf8PathBuf::into_string).map_err(|error| CliError::unexpected(error.to_string()))
    };
    let program = std::env::current_exe().map_err(|error| CliError::unexpected(error.to_string()))?;
    let program = program.into_os_string().into_string();
    let program = program.map_err(|_| CliError::unexpected("the path of forge itself is not text"))?;
    let mut words = vec![program, "drift".to_owned(), absolute(inventory)?, "--quiet".to_owned()];
    let mut flag = |name: &str, value: String| words.extend([name.to_owned(), value]);
    flag("--state", absolute(&cx.settings.state(inventory))?);
    let typed = cx.typed;
    typed.on.iter().for_each(|on| flag("--on", on.clone()));
    typed.step.iter().for_each(|step| flag("--step", step.clone()));
    typed.skip.iter().for_each(|skip| flag("--skip", skip.clone()));
    for (name, path) in [("--json-into", &typed.json_into), ("--record", &args.recorded.record)] {
        path.iter().try_for_each(|path| absolute(path).map(|path| flag(name, path)))?;
    }
    for report in &args.report {
        flag("--report", format!("{}={}", report.format.name(), absolute(&report.path)?));
    }
    if args.level != Level::L4 {
        flag("--level", format!("{:?}", args.level));
    }
    words.extend(args.outliers.map(|mode| format!("--outliers={}", mode.name())));
    if args.notify.no_notify {
        words.push("--no-notify".to_owned());
    }
    if typed.trust {
        words.push("--trust".to_owned());
    }
    Ok(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_a_span_or_a_day() {
        assert_eq!("7d".parse(), Ok(Since::Ago(Duration::from_secs(7 * 86_400))));
        assert_eq!("12h".parse(), Ok(Since::Ago(Duration::from_secs(12 * 3600))));
        assert_eq!("2026-11-21".parse(), Ok(Since::Day(Date::constant(2026, 11, 21))));
        for text in ["", "7", "d", "yesterday", "-7d"] {
            assert!(text.parse::<Since>().is_err(), "{text}");
        }
    }
}
