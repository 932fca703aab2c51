//! `forge why-slow`.

use super::backend::Backend;
use super::error::CliError;
use super::interrupt::InterruptSignals;
use super::recording_args::ReplayArgs;
use super::shared_args::InventoryArg;
use super::verb_context::{VerbContext, VerbResult, block_on};
use std::time::Duration;

/// Find out why a job on several hosts is slow (read-only)
///
/// Asks each host the same questions in a fixed order: whether RDMA and GPUDirect are used at all, whether links, slots,
/// clocks and settings are what they should be, whether counters of lost packets grow. Prints the causes that it
/// found or excluded, with the evidence, and the most likely cause with its repair. With `--job`, only the hosts of its
/// pods are asked, and the pods' definitions and NCCL's log are read too. Run it while the job runs. Exits 2 if a cause
/// was found.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Examples:
  forge why-slow cluster.yaml --on gpu
  forge why-slow cluster.yaml --job ml/llama-train       the hosts of a Job, PyTorchJob, Volcano job or JobSet
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
    let target = cx.resolve_target(&args.inventory)?;
    let output = cx.output_for(&target);
    let (project, hosts) = cx.load_project(&target)?;
    let job = args.job.as_ref().map(|job| (job.namespace.as_str(), job.name.as_str()));
    block_on(async {
        let mut stop = InterruptSignals::start_listening()?;
        let pause = Duration::from_secs(args.seconds);
        let work = cx.run_with_progress(&output, |events| {
            cx.backend.find_slow_causes(&project, &hosts, job, pause, cx.settings, events)
        });
        let found = tokio::select! {
            found = work => found,
            () = stop.next_interrupt() => {
                return Err(CliError::interrupted("interrupted while asking; nothing was changed"));
            }
        };
        let diagnosis = found.map_err(CliError::usage)?;
        let exit = diagnosis.exit_code();
        output.write_result(&|writer, out| writer.write_diagnosis(&diagnosis, exit, out))?;
        Ok(exit)
    })
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
