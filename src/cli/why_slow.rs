//! `forge why-slow`.

use super::backend::{Backend, SetRequest};
use super::confirm;
use super::error::CliError;
use super::interrupt::InterruptSignals;
use super::output::VerbOutput;
use super::recording_args::ReplayArgs;
use super::shared_args::InventoryArg;
use super::verb_context::{VerbContext, VerbResult, block_on};
use crate::engine::{AcceptanceReport, SlowDiagnosis};
use crate::model::HostName;
use crate::view::{escape, fold, format_count};
use std::time::Duration;

/// The set of tests that `--measure` runs.
const SET: &str = "quick";

/// Find out why a job on several hosts is slow (read-only, except with `--measure`)
///
/// Asks each host the same questions in a fixed order: whether RDMA and GPUDirect are used at all, whether links, slots,
/// clocks and settings are what they should be, whether counters of lost packets grow. Prints the causes that it
/// found or excluded, with the evidence, and the most likely cause with its repair. With `--job`, only the hosts of its
/// pods are asked, and the pods' definitions and NCCL's log are read too. Run it while the job runs. `--measure` then runs
/// the set `quick` of `forge test` between the suspects; hosts whose devices are in use are not measured. Exits 2 if a
/// cause was found.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Examples:
  forge why-slow cluster.yaml --on gpu
  forge why-slow cluster.yaml --job ml/llama-train       the hosts of a Job, PyTorchJob, Volcano job or JobSet
  forge why-slow cluster.yaml --on gpu --measure         also measure the network between the suspects
  forge why-slow cluster.yaml -v                         also show the excluded causes of each host
  forge why-slow cluster.yaml --observed seen.json       answers of `forge facts --record seen.json`")]
pub struct WhySlowArgs {
    #[command(flatten)]
    pub inventory: InventoryArg,
    #[command(flatten)]
    pub from: ReplayArgs,
    /// Ask the hosts of this job, and read its pods
    #[arg(long, value_name = "NAMESPACE/NAME", value_parser = parse_job, conflicts_with = "observed")]
    pub job: Option<JobName>,
    /// Seconds between the two readings of the counters, at least
    #[arg(long, value_name = "N", default_value = "5", value_parser = clap::value_parser!(u64).range(1..=600))]
    pub seconds: u64,
    /// Then run the tests of the set `quick` between the suspects and two other hosts
    #[arg(long, conflicts_with = "observed")]
    pub measure: bool,
    /// Skip the confirmation prompt of `--measure`; JSON output never implies this
    #[arg(long, requires = "measure")]
    pub yes: bool,
}

/// A job of the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobName {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

fn parse_job(text: &str) -> Result<JobName, String> {
    match text.split_once('/') {
        Some((namespace, name)) if !namespace.is_empty() && !name.is_empty() && !name.contains('/') => {
            Ok(JobName { namespace: namespace.to_owned(), name: name.to_owned() })
        }
        _ => Err("expected NAMESPACE/NAME, as in `ml/llama-train`".to_owned()),
    }
}

pub fn run_why_slow<B: Backend>(cx: &VerbContext<'_, B>, args: &WhySlowArgs) -> VerbResult {
    let settings = args.from.apply_to_settings(cx.settings)?;
    let cx = &VerbContext { settings: &settings, ..*cx };
    if args.measure && !args.yes && !cx.console.can_ask {
        let error = CliError::usage("measurements require confirmation, but there is no terminal");
        return Err(error.hint("pass `--yes` to skip the confirmation, or leave out `--measure`"));
    }
    let target = cx.resolve_target(&args.inventory)?;
    let output = cx.output_for(&target);
    let loaded = match args.measure {
        true => cx.load_project_with(&target, B::load_for_tests)?,
        false => cx.load_project(&target)?,
    };
    let (project, hosts) = &loaded;
    let job = args.job.as_ref().map(|job| (job.namespace.as_str(), job.name.as_str()));
    block_on(async {
        let mut stop = InterruptSignals::start_listening()?;
        let pause = Duration::from_secs(args.seconds);
        let work = cx.run_with_progress(&output, |events| {
            cx.backend.find_slow_causes(project, hosts, job, pause, cx.settings, events)
        });
        let found = tokio::select! {
            found = work => found,
            () = stop.next_interrupt() => {
                return Err(CliError::interrupted("interrupted while asking; nothing was changed"));
            }
        };
        let mut diagnosis = found.map_err(CliError::usage)?;
        if args.measure {
            diagnosis.measured = measure_suspects(cx, args.yes, &mut stop, &output, project, &diagnosis).await?;
        }
        let exit = diagnosis.exit_code();
        cx.write_recordings(&output)?;
        output.write_result(&|writer, out| writer.write_diagnosis(&diagnosis, exit, out))?;
        Ok(exit)
    })
}

/// Runs the tests between the suspects, if the user agrees.
async fn measure_suspects<B: Backend>(
    cx: &VerbContext<'_, B>,
    yes: bool,
    stop: &mut InterruptSignals,
    output: &VerbOutput<'_>,
    project: &B::Project,
    diagnosis: &SlowDiagnosis,
) -> Result<Option<AcceptanceReport>, CliError> {
    let hosts = diagnosis.list_measured_hosts();
    if hosts.is_empty() {
        return Ok(None);
    }
    let names = fold::fold_names(hosts.iter().map(HostName::as_str));
    let names = escape::escape_truncated(&names, 100);
    let question = format!("run the tests of `{SET}` on {}: {names}?", format_count(hosts.len(), "host"));
    if !yes && !confirm::ask_yes_no(stop, cx.console, &question).await? {
        return Ok(None);
    }
    let cancel = B::Cancel::default();
    let work = cx.run_with_progress(output, |events| {
        let request = SetRequest { set: SET, hosts: &hosts, skipped: Vec::new(), against: None, drain: false };
        cx.backend.run_tests(project, request, cx.settings, events, cancel.clone())
    });
    cx.run_stoppable(stop, work, &cancel).await.map(Some).map_err(super::test::baseline_error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn job_is_named_with_its_namespace() {
        assert_eq!(parse_job("ml/a"), Ok(JobName { namespace: "ml".to_owned(), name: "a".to_owned() }));
        for wrong in ["a", "/a", "ml/", "ml/a/b"] {
            assert_eq!(parse_job(wrong).unwrap_err(), "expected NAMESPACE/NAME, as in `ml/llama-train`");
        }
    }
}
