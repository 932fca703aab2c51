//! `forge apply`.

use super::args::{Format, InventoryArg, PolicyArgs};
use super::backend::{Ask, Backend};
use super::confirm;
use super::console::Console;
use super::error::CliError;
use super::interrupt::Interrupts;
use super::output::Output;
use super::plan;
use super::recorded::Recorded;
use super::run::{Cx, Ending, Loaded, block_on};
use super::saved::Keep;
use super::{carry, saved};
use crate::engine::{ArtifactLine, Had, Report, Workload};
use crate::model::ExitCode;
use crate::plan::{HostPlan, Plan};
use crate::view::progress::RunState;
use crate::view::{count, places};
use camino::Utf8PathBuf;

/// Carry out what is declared, and prove it
///
/// Plans, shows the plan, asks, carries it out in order and verifies every step. One bad host never stops a
/// good one. Ctrl-C finishes the steps that are running and stops; a second Ctrl-C leaves them running on
/// their hosts, where the next run picks them up. A terminal that is closed counts as one Ctrl-C.
///
/// In place of the inventory a saved plan may be given. It is carried out only if its inputs are what they were (65
/// otherwise, and nothing is contacted), and only on hosts that are as it saw them: others are stale, are left alone
/// and told (6). It runs once on each host.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Examples:
  forge apply cluster.yaml                    plan, ask, change, prove
  forge apply cluster.yaml --yes              without being asked, for scripts
  forge apply cluster.yaml --on 'gpu:!canary' --step nvidia-driver
  forge apply cluster.yaml --offline          artifacts from the cache only
  forge apply cluster.yaml --dry-run          the plan only
  forge apply plan.json                       the plan that `forge plan cluster.yaml -o plan.json` kept")]
pub struct Args {
    /// The inventory, or a saved plan; else -i, else $FORGE_INVENTORY, else ./inventory.yaml
    #[arg(value_name = "INVENTORY|PLAN")]
    pub given: Option<Utf8PathBuf>,
    /// Do not ask; JSON output never implies it
    #[arg(long)]
    pub yes: bool,
    /// Fetch no artifact: what is not in the cache is an error
    #[arg(long)]
    pub offline: bool,
    /// Show the plan and stop, as `forge plan` does
    #[arg(long)]
    pub dry_run: bool,
    #[command(flatten)]
    pub policy: PolicyArgs,
    /// Refuse a plan in which something could not be told: a step, a verification, a host that does not answer
    #[arg(long)]
    pub no_unknown: bool,
    /// Carry a saved plan out also on hosts that it ran on before
    #[arg(long)]
    pub replay: bool,
    /// Carry a saved plan out only if somebody of this list signed it: see `forge sign`
    #[arg(long, value_name = "ALLOWED_SIGNERS")]
    pub require_signature: Option<Utf8PathBuf>,
    /// End processes that hold GPU or RDMA devices before a window opens; the reason is kept with the run
    #[arg(long, value_name = "WHY", value_parser = reason)]
    pub evict_busy: Option<String>,
}

/// A forced action says why.
fn reason(text: &str) -> Result<String, String> {
    match text.trim() {
        "" => Err("say why".to_owned()),
        why => Ok(why.to_owned()),
    }
}

pub fn run<B: Backend>(cx: &Cx<'_, B>, args: &Args) -> Ending {
    let given = args.given.as_deref();
    if let Some((path, text)) = given.zip(saved::given(given)) {
        return carry::run(cx, args, path, &text);
    }
    let flags = [(args.replay, "--replay"), (args.require_signature.is_some(), "--require-signature")];
    if let Some((_, flag)) = flags.iter().find(|(given, _)| *given) {
        return Err(CliError::usage(format!("`{flag}` is for a saved plan, and none is given"))
            .hint("`forge plan INVENTORY -o FILE` makes one, `forge apply FILE` carries it out"));
    }
    let inventory = InventoryArg { inventory: args.given.clone() };
    if args.dry_run {
        let policy = args.policy.clone();
        let (recorded, keep) = (Recorded::default(), Keep::default());
        return plan::run(
            cx,
            &plan::Args { inventory, detailed_exitcode: false, images: false, policy, recorded, keep },
        );
    }
    let settings = cx.settings.allowing(args.policy.policy(), args.evict_busy.clone());
    let cx = &cx.with(&settings);
    let settings = cx.settings.offline(args.offline);
    let cx = &Cx { settings: &settings, ..*cx };
    let target = cx.target(&inventory)?;
    let output = cx.output(&target);
    let loaded = cx.load(&target)?;
    possible(cx.console, args.yes)?;
    block_on(apply(cx, args, &output, &loaded))
}

/// Checks, before anything is contacted, that somebody can be asked.
pub fn possible(console: &Console, yes: bool) -> Result<(), CliError> {
    match yes || console.can_ask {
        true => Ok(()),
        false => Err(CliError::usage("apply asks before it changes hosts, and there is no terminal to ask on")
            .hint("give `--yes` to apply without being asked, or `--dry-run` to see the plan")),
    }
}

fn question(plan: &Plan) -> String {
    let counts = plan.counts();
    let changes = match counts.change {
        1 => "this change".to_owned(),
        many => format!("these {}", count(many, "change")),
    };
    format!("apply {changes} to {}?", places(counts.changing, counts.cluster_changing))
}

async fn apply<B: Backend>(cx: &Cx<'_, B>, args: &Args, output: &Output<'_>, loaded: &Loaded<B::Project>) -> Ending {
    let mut stop = Interrupts::catch()?;
    let seen = cx.observe(&mut stop, output, loaded, Ask::Change).await?;
    let plan = cx.backend.plan(&loaded.0, &seen, cx.settings);
    output.people(&|writer, out| writer.plan(&plan, ExitCode::Done, out))?;
    carry::known(&plan, args.no_unknown)?;
    if plan.hosts.iter().any(HostPlan::acts) {
        confirmed(cx, args, &mut stop, &plan).await?;
    }
    carry_out(cx, &mut stop, output, loaded, &plan, seen).await
}

/// Asks whether to go on, unless that was answered on the command line.
///
/// # Errors
/// Interrupted: another answer than yes.
pub async fn confirmed<B>(cx: &Cx<'_, B>, args: &Args, stop: &mut Interrupts, plan: &Plan) -> Result<(), CliError> {
    match args.yes || confirm::ask(stop, cx.console, &question(plan)).await? {
        true => Ok(()),
        false => Err(CliError::interrupted("not applied; nothing was changed")),
    }
}

/// Carries out a plan that was agreed to, and reports.
pub async fn carry_out<B: Backend>(
    cx: &Cx<'_, B>,
    stop: &mut Interrupts,
    output: &Output<'_>,
    loaded: &Loaded<B::Project>,
    plan: &Plan,
    seen: B::Seen,
) -> Ending {
    provision(cx, stop, output, loaded, plan, &seen).await?;
    let cancel = B::Cancel::default();
    let past = cx.backend.past_durations(&loaded.0, cx.settings);
    let state = RunState::applying(Workload::new(plan, cx.settings.parallel, &past));
    let work = cx.shown_from(state, output, |events| {
        cx.backend.apply(&loaded.0, plan, seen, cx.settings, events, cancel.clone())
    });
    let report = cx.stoppable(stop, work, &cancel).await;
    write(cx, output, plan, &report)
}

/// Has everything at hand that is going to be sent, before a host is touched.
async fn provision<B: Backend>(
    cx: &Cx<'_, B>,
    stop: &mut Interrupts,
    output: &Output<'_>,
    loaded: &Loaded<B::Project>,
    plan: &Plan,
    seen: &B::Seen,
) -> Result<(), CliError> {
    let work = cx.shown(output, |events| cx.backend.provision(&loaded.0, plan, seen, cx.settings, events));
    let lacking = tokio::select! {
        lacking = work => lacking,
        () = stop.next() => return Err(CliError::interrupted("interrupted while fetching; nothing was changed")),
    };
    let Some(first) = lacking.first() else { return Ok(()) };
    let what = count(lacking.len(), "artifact");
    let error = lacking.iter().fold(CliError::artifact(format!("{what} cannot be had; nothing was changed")), told);
    Err(match &first.had {
        Had::Failed { hint: Some(hint), .. } => error.hint(hint.raw()),
        _ => error,
    })
}

fn told(error: CliError, lacking: &ArtifactLine) -> CliError {
    let Had::Failed { why, .. } = &lacking.had else { return error };
    let steps: Vec<String> = lacking.steps.iter().map(|step| format!("`{step}`")).collect();
    error.note(format!("{}; {} needs it on {}", why.raw(), steps.join(", "), count(lacking.hosts.len(), "host")))
}

/// Where nothing was to be done, the plan has said all that a person wants to read.
fn write<B>(cx: &Cx<'_, B>, output: &Output<'_>, plan: &Plan, report: &Report) -> Ending {
    let exit = report.exit_code();
    let said = exit == ExitCode::Done && plan.counts().change == 0 && cx.settings.format == Format::Text;
    match said {
        true => output.file_beside(&|writer, out| writer.report(report, exit, out))?,
        false => output.result(&|writer, out| writer.report(report, exit, out))?,
    }
    Ok(exit)
}
