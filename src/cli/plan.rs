//! `forge plan`.

use super::backend::{Backend, ObservePurpose};
use super::engine_args::EngineArgs;
use super::error::CliError;
use super::interrupt::InterruptSignals;
use super::inventory::quote_argument;
use super::output::VerbOutput;
use super::recording_args::RecordingArgs;
use super::saved_plan::PlanOutputArgs;
use super::shared_args::{InventoryArg, PolicyArgs};
use super::verb_context::{VerbContext, VerbResult, block_on};

/// Show the changes that apply would make (read-only)
///
/// Observes the hosts and compares them with the declared state. Identical changes are shown once, with the hosts that
/// share them: `+` creates, `~` changes, `-` removes, `!` disrupts, `?` is not known yet.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Examples:
  forge plan cluster.yaml                      all changes
  forge plan cluster.yaml --on gpu -v          also unchanged steps, and where each is declared
  forge plan cluster.yaml --detailed-exitcode  exit 2 if there are changes, for pipelines
  forge plan cluster.yaml -o plan.json         save it for review, then run `forge apply plan.json`
  forge plan cluster.yaml --format markdown    for a comment in a code review
  forge plan cluster.yaml --images             list the required container images, for a mirror
  forge plan cluster.yaml --images --kubernetes 1.34 --format skopeo
                                               the same before the cluster exists, for `skopeo sync`
  forge plan cluster.yaml --engine local --workers 8   hosts are observed by worker processes
  forge plan cluster.yaml --record seen.json   save the hosts' answers
  forge plan cluster.yaml --observed seen.json plan from saved answers, without contacting a host")]
pub struct PlanArgs {
    #[command(flatten)]
    pub inventory: InventoryArg,
    /// Exit 2 if something would change, 10 if something is pending or held back, 5 if a verification fails
    #[arg(long)]
    pub detailed_exitcode: bool,
    /// Print the container images of charts, objects and jobs instead, one per line, to fill a registry mirror
    #[arg(long)]
    pub images: bool,
    /// List the images for this release of Kubernetes (`1.34`) without asking the cluster's API, before it exists
    #[arg(long, value_name = "VERSION", requires = "images", conflicts_with_all = ["observed", "record", "output"])]
    pub kubernetes: Option<String>,
    #[command(flatten)]
    pub policy: PolicyArgs,
    #[command(flatten)]
    pub recorded: RecordingArgs,
    #[command(flatten)]
    pub engine: EngineArgs,
    #[command(flatten)]
    pub keep: PlanOutputArgs,
}

pub fn run_plan<B: Backend>(base: &VerbContext<'_, B>, args: &PlanArgs) -> VerbResult {
    let settings = args.recorded.apply_to_settings(base.settings)?.with_policy(args.policy.to_policy(), None);
    let mut settings = args.engine.apply_to_settings(&args.keep.apply_to_settings(&settings)?)?;
    settings.replay.assumed_kubernetes = args.kubernetes.as_deref().map(parse_kubernetes_release).transpose()?;
    let target = base.with_settings(&settings).resolve_target(&args.inventory)?;
    let loaded = base.with_settings(&settings).load_project(&target)?;
    block_on(async {
        let mut stop = InterruptSignals::start_listening()?;
        let cx = &base.with_settings(&settings);
        let seen = cx.observe_hosts(&mut stop, &cx.output_for(&target), &loaded, ObservePurpose::Declared).await?;
        args.recorded.write_recording(cx.backend, &loaded.0, &seen)?;
        if args.keep.output.is_none() {
            settings.replay.release_answers();
        }
        let cx = &base.with_settings(&settings);
        let output = cx.output_for(&target);
        let plan = cx.backend.plan(&loaded.0, &seen, cx.settings);
        let exit = plan.exit_code(args.detailed_exitcode);
        let saved = args.keep.build_saved_plan(cx, &loaded, &seen, &plan).await;
        args.keep.write_saved_plan(saved.as_ref())?;
        match args.images {
            true => output.write_images(&plan, exit)?,
            false => {
                cx.write_recordings(&output)?;
                let digest = saved.as_ref().map(|saved| saved.digest.as_str());
                output_for_saved_plan(&output, args).write_plan(&plan, exit, digest, &cx.list_recordings())?;
            }
        }
        args.keep.report_saved_plan(cx, saved.as_ref());
        Ok(exit)
    })
}

/// Checks a release of Kubernetes: numbers that helm and the rules of recipes compare.
fn parse_kubernetes_release(text: &str) -> Result<String, CliError> {
    let parts: Vec<&str> = text.trim_start_matches('v').split('.').collect();
    let number = |part: &&str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    match (2..=3).contains(&parts.len()) && parts.iter().all(number) {
        true => Ok(text.to_owned()),
        false => Err(CliError::usage(format!("`{text}` is not a release of Kubernetes")).hint("write it like `1.34`")),
    }
}

/// Returns the output whose suggested next command applies the saved plan, if the plan is saved.
fn output_for_saved_plan<'o>(output: &VerbOutput<'o>, args: &PlanArgs) -> VerbOutput<'o> {
    let kept = args.keep.output.as_ref().map(|path| quote_argument(path.as_str()));
    VerbOutput {
        console: output.console,
        settings: output.settings,
        target: kept.or_else(|| output.target.clone()),
        resume: None,
    }
}
