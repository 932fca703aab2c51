//! `forge rehearse`.

use super::backend::{Backend, ObservePurpose};
use super::error::CliError;
use super::interrupt::InterruptSignals;
use super::saved_plan::PlanOutputArgs;
use super::shared_args::{InventoryArg, PolicyArgs};
use super::verb_context::{LoadedProject, VerbContext, VerbResult, block_on};
use crate::view::fold::fold_names;

/// Run the plan of hosts in a copy-on-write view of each host, and report what it would do beyond the plan
///
/// Each host makes a view of itself in memory: the same packages, files, accounts and package sources, in its own
/// namespaces. The steps of its plan run there, with the real package manager, scripts of packages and checks of
/// configurations. The report names what would fail, and every file, package, unit and account that would change although
/// no step declares it, such as a service that the script of a package restarts. Nothing of the host changes, and the
/// view ends with the rehearsal.
///
/// In the view, units are simulated, there are no devices and no kernel modules can be loaded; only apt and dnf have a
/// network, while they download. `forge explain rehearsal` describes what is real. Requires root on the hosts (or
/// `connect: { sudo: … }`), util-linux and overlayfs.
///
/// Exits 0 if every step ran as declared, 3 if one failed, 5 if a verification failed, 9 if a step could not be
/// rehearsed or another run works on a host, 4 if a host is unreachable.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Examples:
  forge rehearse cluster.yaml --on node-01                      before an apply to the whole cluster
  forge rehearse cluster.yaml --on 'gpu-01,cpu-01' --step base  two hosts, the steps of one recipe
  forge rehearse cluster.yaml --on node-01 --detailed-exitcode  exit 2 if something changes beyond the plan
  forge rehearse cluster.yaml --on node-01 --format markdown    for a comment in a code review
  forge rehearse cluster.yaml --on node-01 -o plan.json         save the plan that was rehearsed, with the result")]
pub struct RehearseArgs {
    #[command(flatten)]
    pub inventory: InventoryArg,
    /// Exit 2 if something changed beyond the plan
    #[arg(long)]
    pub detailed_exitcode: bool,
    #[command(flatten)]
    pub policy: PolicyArgs,
    #[command(flatten)]
    pub keep: PlanOutputArgs,
}

pub fn run_rehearse<B: Backend>(cx: &VerbContext<'_, B>, args: &RehearseArgs) -> VerbResult {
    let settings = cx.settings.with_policy(args.policy.to_policy(), None);
    let settings = args.keep.apply_to_settings(&settings)?;
    let cx = &cx.with_settings(&settings);
    if cx.settings.on.is_none() {
        return Err(CliError::usage("rehearse requires `--on`")
            .hint("name one host of each kind: a rehearsal takes memory on each of its hosts"));
    }
    let target = cx.resolve_target(&args.inventory)?;
    let output = cx.output_for(&target);
    let loaded = cx.load_project(&target)?;
    check_hosts(cx, &loaded)?;
    block_on(async {
        let mut stop = InterruptSignals::start_listening()?;
        let seen = cx.observe_hosts(&mut stop, &output, &loaded, ObservePurpose::Declared).await?;
        let plan = cx.backend.plan(&loaded.0, &seen, cx.settings);
        let saved = args.keep.build_saved_plan(cx, &loaded, &seen, &plan).await;
        let cancel = B::Cancel::default();
        let work = cx.run_with_progress(&output, |events| {
            cx.backend.rehearse(loaded.0, &plan, &seen, cx.settings, events, cancel.clone())
        });
        let report = cx.run_stoppable(&mut stop, work, &cancel).await;
        let exit = report.exit_code(args.detailed_exitcode);
        let saved = saved.map(|saved| saved.with_rehearsal(&report));
        args.keep.write_saved_plan(saved.as_ref())?;
        output.write_rehearsal(&report, exit)?;
        args.keep.report_saved_plan(cx, saved.as_ref());
        Ok(exit)
    })
}

/// Rejects hosts that are not machines of their own.
fn check_hosts<B: Backend>(
    cx: &VerbContext<'_, B>,
    (project, hosts): &LoadedProject<B::Project>,
) -> Result<(), CliError> {
    let project = cx.backend.project(project);
    let sandboxes: Vec<&str> =
        hosts.iter().filter(|host| project.is_simulated(host)).map(|host| host.as_str()).collect();
    match sandboxes.is_empty() {
        true => Ok(()),
        false => {
            let names = fold_names(sandboxes);
            Err(CliError::usage(format!("cannot rehearse on sandboxes: {names}"))
                .hint("a sandbox is a view already: `forge apply` changes nothing outside of it"))
        }
    }
}
