//! `forge plan`.

use super::args::{InventoryArg, PolicyArgs};
use super::backend::{Ask, Backend};
use super::interrupt::Interrupts;
use super::inventory::quoted;
use super::output::Output;
use super::recorded::Recorded;
use super::run::{Cx, Ending, block_on};
use super::saved::Keep;

/// Show what apply would change, and change nothing
///
/// Observes the hosts and compares them with what is declared. Equal changes are shown once, with the hosts
/// that share them: `+` creates, `~` changes, `-` removes, `!` disturbs, `?` is not known yet.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Examples:
  forge plan cluster.yaml                      everything that would change
  forge plan cluster.yaml --on gpu -v          also what is as declared, and where it is declared
  forge plan cluster.yaml --detailed-exitcode  2 where something would change, for pipelines
  forge plan cluster.yaml -o plan.json         keep it: review it, then `forge apply plan.json`
  forge plan cluster.yaml --format markdown    for a comment under the change that is reviewed
  forge plan cluster.yaml --images             the container images that it needs, for a mirror
  forge plan cluster.yaml --record seen.json   keep what the hosts answered
  forge plan cluster.yaml --observed seen.json from that, without contacting a host")]
pub struct Args {
    #[command(flatten)]
    pub inventory: InventoryArg,
    /// Exit with 2 when something would change, 10 when something is pending, 5 when a verification does not hold
    #[arg(long)]
    pub detailed_exitcode: bool,
    /// Print the container images that charts, objects and jobs run instead, one per line: what a mirror has to hold
    #[arg(long)]
    pub images: bool,
    #[command(flatten)]
    pub policy: PolicyArgs,
    #[command(flatten)]
    pub recorded: Recorded,
    #[command(flatten)]
    pub keep: Keep,
}

pub fn run<B: Backend>(cx: &Cx<'_, B>, args: &Args) -> Ending {
    let settings = args.recorded.settings(cx.settings)?.allowing(args.policy.policy(), None);
    let settings = args.keep.settings(&settings)?;
    let cx = &cx.with(&settings);
    let target = cx.target(&args.inventory)?;
    let output = cx.output(&target);
    let loaded = cx.load(&target)?;
    block_on(async {
        let mut stop = Interrupts::catch()?;
        let seen = cx.observe(&mut stop, &output, &loaded, Ask::Declared).await?;
        args.recorded.write(cx.backend, &loaded.0, &seen)?;
        let plan = cx.backend.plan(&loaded.0, &seen, cx.settings);
        let exit = plan.exit_code(args.detailed_exitcode);
        let saved = args.keep.bind(cx, &loaded, &seen, &plan).await;
        args.keep.write(saved.as_ref())?;
        match args.images {
            true => output.images(&plan, exit)?,
            false => shown(&output, args).plan(&plan, exit, saved.as_ref().map(|saved| saved.digest.as_str()))?,
        }
        args.keep.tell(cx, saved.as_ref());
        Ok(exit)
    })
}

/// A plan that is kept is what the next command carries out.
fn shown<'o>(output: &Output<'o>, args: &Args) -> Output<'o> {
    let kept = args.keep.output.as_ref().map(|path| quoted(path.as_str()));
    Output { console: output.console, settings: output.settings, target: kept.or_else(|| output.target.clone()) }
}
