//! `forge apply`.

use super::backend::{Backend, ObservePurpose};
use super::shared_args::InventoryArg;

use super::error::CliError;
use super::interrupt::InterruptSignals;
use super::output::VerbOutput;
use super::recording_args::RecordingArgs;
use super::saved_plan::PlanOutputArgs;
use super::verb_context::{LoadedProject, VerbContext, VerbResult, block_on};
use super::{apply_saved, plan, saved_plan};

use crate::model::ExitCode;
use crate::plan::HostPlan;

use super::apply_args::ApplyArgs;
use super::execute_plan::{check_can_ask, check_engine, confirm_apply, execute_plan, format_question};

pub fn run_apply<B: Backend>(cx: &VerbContext<'_, B>, args: &ApplyArgs) -> VerbResult {
    let settings = args.engine.apply_to_settings(cx.settings)?;
    let cx = &cx.with_settings(&settings);
    let given = args.given.as_deref();
    if let Some((path, text)) = given.zip(saved_plan::read_given_plan(given)) {
        return apply_saved::run_saved_plan(cx, args, path, &text);
    }
    let flags = [(args.replay, "--replay"), (args.options.require_signature.is_some(), "--require-signature")];
    if let Some((_, flag)) = flags.iter().find(|(given, _)| *given) {
        return Err(CliError::usage(format!("`{flag}` requires a saved plan"))
            .hint("save one with `forge plan INVENTORY -o FILE`, then run `forge apply FILE`"));
    }
    let inventory = InventoryArg { inventory: args.given.clone() };
    if args.options.dry_run {
        let policy = args.options.policy.clone();
        let (recorded, keep) = (RecordingArgs::default(), PlanOutputArgs::default());
        return plan::run_plan(
            cx,
            &plan::PlanArgs {
                inventory,
                detailed_exitcode: false,
                images: false,
                kubernetes: None,
                policy,
                engine: args.engine.clone(),
                recorded,
                keep,
            },
        );
    }
    let settings = cx.settings.with_policy(args.options.policy.to_policy(), args.options.evict_busy.clone());
    let cx = &cx.with_settings(&settings);
    let settings = cx.settings.with_offline(args.options.offline);
    let cx = &VerbContext { settings: &settings, ..*cx };
    let target = cx.resolve_target(&inventory)?;
    let output = cx.output_for(&target);
    let loaded = cx.load_project(&target)?;
    check_can_ask(cx.console, "apply", args.options.yes)?;
    block_on(plan_and_apply(cx, args, &output, &loaded))
}

async fn plan_and_apply<B: Backend>(
    cx: &VerbContext<'_, B>,
    args: &ApplyArgs,
    output: &VerbOutput<'_>,
    loaded: &LoadedProject<B::Project>,
) -> VerbResult {
    let mut stop = InterruptSignals::start_listening()?;
    let seen = cx.observe_hosts(&mut stop, output, loaded, ObservePurpose::Change).await?;
    let plan = cx.backend.plan(&loaded.0, &seen, cx.settings);
    output.write_for_people(&|writer, out| writer.write_plan(&plan, ExitCode::Done, out))?;
    apply_saved::check_no_unknown(&plan, args.options.no_unknown)?;
    check_engine(cx, &loaded.0, &plan, &seen)?;
    if plan.hosts.iter().any(HostPlan::will_run) {
        confirm_apply(cx, args.options.yes, &format_question(&plan), &mut stop).await?;
    }
    execute_plan(cx, &mut stop, output, loaded, &plan, seen).await
}
