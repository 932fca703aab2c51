//! Evaluates one step instance. Planning, the check right before a change, and the verification after it all use this.

use super::ChangeCertainty;
use super::canonical_json::{digest_text, to_canonical_json, write_canonical};
use super::cluster_warnings::advise_unread_records;
use super::declared_digest::digest_with_key;
use super::failed_reboot::mark_failed_reboot;
use super::former_secrets::{declares_secret, held_secret};
use super::host_context::{HostContext, StepInstance};
use super::package_effects::is_change_certain;
use super::required_probes::{build_effective_probe, find_restart_inputs, find_trace_path_among};
use super::undeclared::list_moved_claims;
use crate::config::{
    ConditionOutcome, DeferredStep, ExpandedStep, ExpansionState, MissingExport, MissingExports, PendingInput,
    RecipeInstance, format_first_names,
};
use crate::diag::Diag;
use crate::model::{BlockClass, DisruptionClass, SecretStore, StepId, StepScope, StepVerdict, UntrustedText, Value};
use crate::probe::{Probe, ProbeReading, UnansweredReason};
use crate::resource::{
    Assessment, AssessmentContext, AttributeChange, ChangeAspect, EarlierStepEffects, PackageChanges, ProvidedItem,
    Resource, RestartInput,
};
use serde_json::json;
use std::sync::Arc;

/// The assessment of one step instance.
#[derive(Clone, Debug, PartialEq)]
pub struct StepAssessment {
    /// The verdict on the step with its reason and changes.
    pub judgement: Assessment,
    /// Digest over the evaluated attributes and the facts that were read.
    pub basis: String,
    /// What must happen before it can be evaluated for certain.
    pub until: Option<String>,
    /// How well the change is known if something must happen first.
    pub foresight: ChangeCertainty,
}

/// Whether apt's lists on a host are older than its repositories.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PackageListsAge {
    /// `apt-get update` has just run.
    Updated,
    /// They may be.
    Unknown,
}

/// The effects that earlier step instances of a plan have on a later one.
#[derive(Clone, Debug, Default)]
pub struct StepPredictions {
    /// The state that the earlier steps produce, as far as it is declared.
    pub predicted: EarlierStepEffects,
    /// An earlier step that will change and whose effects are not fully declared: a package installs files, a command
    /// can do anything.
    pub opaque: Option<String>,
    /// The last earlier package step that this one may depend on, and the changes of all such steps.
    pub package: Option<(StepId, PackageChanges)>,
    /// Step instances that will change, in order, except those whose change is only a note of the package manager.
    pub changing: Vec<StepId>,
    /// What an earlier run still does on the host: apply waits for its end, and the state may be another one then.
    pub unfinished: Option<UnfinishedRun>,
}

/// What an earlier run still does on a host.
#[derive(Clone, Debug, PartialEq)]
pub struct UnfinishedRun {
    /// A noun phrase: "the guard of run 20261121T093015-4f2a".
    pub what: String,
    /// Steps (`recipe/step[key]`) of which it will restore the state before.
    pub restores: Vec<String>,
    /// Whether it may change what any step declares: an undo declares the state before a run.
    pub may_change_all: bool,
}

impl UnfinishedRun {
    /// Returns whether a step that matches may not match once the work has ended.
    pub(super) fn may_change(&self, step: &StepId) -> bool {
        self.may_change_all || self.restores.contains(&step.to_string())
    }
}

/// Evaluates `turn` against the observed state of its host.
pub fn assess_step(
    case: &HostContext<'_>,
    turn: &StepInstance<'_>,
    turns: &[StepInstance<'_>],
    ahead: &StepPredictions,
) -> StepAssessment {
    let (judgement, until, foresight) = match (&turn.expanded.state, &case.seen.missing) {
        (ExpansionState::NotApplicable(why), _) => {
            (not_applicable_assessment(why.describe()), None, ChangeCertainty::Predicted)
        }
        (ExpansionState::Invalid(diags), _) => (invalid_assessment(case, diags), None, ChangeCertainty::Predicted),
        (_, Some(missing)) => {
            let (judgement, until) = missing.assess_cluster_step(turn.expanded.absent, turn.step.disruption);
            (judgement, until, ChangeCertainty::Predicted)
        }
        (ExpansionState::Deferred(deferred), None) => {
            let (judgement, until) = assess_deferred(deferred, case, turn, ahead);
            (judgement, until, ChangeCertainty::Predicted)
        }
        (ExpansionState::Resource(resource), None) => assess_resource(case, turn, turns, ahead, resource.as_ref()),
    };
    let basis = digest_basis(case, turn, &judgement);
    let judgement = match &turn.expanded.state {
        // Kinds withhold by themselves what is secret in their own declaration.
        ExpansionState::Resource(resource)
            if !judgement.changes.is_empty()
                && held_secret(case, &turn.expanded.id, resource.as_ref())
                && !declares_secret(resource.as_ref()) =>
        {
            judgement.withhold_content()
        }
        _ => judgement,
    };
    let mut judgement = match case.seen.cluster_records_failure() {
        // Its records may list objects and marks that the step does not declare any more.
        Some(why) if judgement.verdict == StepVerdict::Ok => assess_without_records(case, &why, judgement.basis),
        _ => judgement,
    };
    judgement = judgement.mask_secrets(case.ground.secrets);
    if case.ground.project.generated && !judgement.hint_for_host {
        judgement.hint = None;
    }
    StepAssessment { judgement, basis, until, foresight }
}

/// Evaluates a step of the cluster whose declared objects match, but whose records could not be read.
fn assess_without_records(case: &HostContext<'_>, why: &UnansweredReason, basis: Value) -> Assessment {
    let why = format!("the declared objects match, but forge's records in the cluster could not be read: {}", why.why);
    let hint = Some(advise_unread_records(case.ground.project));
    Assessment { basis, hint, ..Assessment::unknown(&UnansweredReason::new(why)) }
}

fn assess_resource(
    case: &HostContext<'_>,
    turn: &StepInstance<'_>,
    turns: &[StepInstance<'_>],
    ahead: &StepPredictions,
    resource: &dyn Resource,
) -> (Assessment, Option<String>, ChangeCertainty) {
    let inputs = collect_restart_inputs(case, turn, turns, ahead);
    let cx = build_resource_context(case, turn, &inputs, Some(&ahead.predicted));
    if let Some(why) = missing_key_reason(case, &inputs) {
        return (unknown_assessment(why), None, ChangeCertainty::Predicted);
    }
    let mut judgement = resource.assess(&case.seen.observation, &cx);
    if judgement.verdict == StepVerdict::Change && !judgement.notes_only {
        judgement.disruption = judgement.disruption.max(turn.step.disruption.unwrap_or(DisruptionClass::D0));
    }
    let redirected = match ahead.predicted.redirected.is_empty() {
        true => None,
        false => ahead.predicted.find_redirection(&resource.deciding_probes()),
    };
    if judgement.verdict == StepVerdict::Change {
        let renumbered = find_renumbered_owner(&judgement, &ahead.predicted);
        if redirected.is_some() || renumbered.is_some() {
            judgement = judgement.mark_predicted();
        }
        let until =
            renumbered.map(ToString::to_string).or_else(|| find_uncertain_dependency(&judgement, &inputs, ahead));
        if judgement.matches_now {
            return (judgement, until, ChangeCertainty::Precaution);
        }
        let is_seen = ahead.unfinished.is_none() && !judgement.predicted && !inputs.iter().any(|input| input.changing);
        // If nothing must happen first, `foresight` is not read.
        return match until.is_some() && is_seen && is_change_certain(resource, &case.seen.observation) {
            true => (judgement, until, ChangeCertainty::Certain),
            false => (judgement, until, ChangeCertainty::Predicted),
        };
    }
    if judgement.verdict == StepVerdict::Ok {
        judgement = assess_effectiveness(case, turn, judgement);
    }
    judgement = mark_failed_reboot(case, turn, resource, judgement);
    if let (Some(step), StepVerdict::Ok) = (redirected, judgement.verdict) {
        return (
            as_precaution(judgement, &format!("`{step}`")),
            Some(format!("{step} has run")),
            ChangeCertainty::Precaution,
        );
    }
    if let Some(unfinished) = &ahead.unfinished
        && judgement.verdict == StepVerdict::Ok
        && unfinished.may_change(&turn.expanded.id)
    {
        let until = Some(format!("{} has ended", unfinished.what));
        return (as_precaution(judgement, &unfinished.what), until, ChangeCertainty::Precaution);
    }
    match &ahead.package {
        Some((package, changes)) if judgement.verdict == StepVerdict::Ok && changes.may_undo(turn, resource) => (
            as_precaution(judgement, &format!("`{package}`")),
            Some(format!("{package} has run")),
            ChangeCertainty::Precaution,
        ),
        _ => (judgement, None, ChangeCertainty::Predicted),
    }
}

/// Returns the earlier step that gives another number to an account or a group that owns what a change is about, or will
/// own it: then the owner has another name, or none, or is the declared one without a change.
fn find_renumbered_owner<'e>(judgement: &Assessment, earlier: &'e EarlierStepEffects) -> Option<&'e StepId> {
    if earlier.redirected.is_empty() {
        return None;
    }
    let find = |name: &str| {
        let items = [ProvidedItem::User(name.to_owned()), ProvidedItem::Group(name.to_owned())];
        items.iter().find_map(|item| earlier.redirected.get(item))
    };
    let owns =
        |change: &&AttributeChange| matches!(change.mark.aspect, ChangeAspect::Owner | ChangeAspect::Permissions);
    let names = |change: &AttributeChange| {
        let before = change.from.as_ref()?;
        [Some(before), change.to.as_ref()].into_iter().flatten().find_map(|name| find(name.raw()))
    };
    judgement.changes.iter().filter(owns).find_map(names)
}

/// Plans to check a resource that matches now again after something that may change that.
fn as_precaution(judgement: Assessment, what: &str) -> Assessment {
    let reason = format!("{}; {what} may change that", judgement.reason.raw());
    Assessment::change(reason, Vec::new(), DisruptionClass::D0, judgement.basis).mark_predicted()
}

/// Returns why inputs cannot be compared: digests keyed with the host's key show whether a service started with the
/// secrets that are declared now, and a recording may lack that key.
fn missing_key_reason(case: &HostContext<'_>, inputs: &[RestartInput]) -> Option<&'static str> {
    let is_secret = inputs.iter().any(|input| input.digest.starts_with("keyed:"));
    let left_out = case.seen.key.as_deref() == Some(crate::probe::KEY_LEFT_OUT);
    (is_secret && left_out).then_some("the recording lacks the host's key, and an input of `restart_on` is secret")
}

/// Returns the earlier step on which the prediction of a change depends.
fn find_uncertain_dependency(
    judgement: &Assessment,
    inputs: &[RestartInput],
    ahead: &StepPredictions,
) -> Option<String> {
    let input = || inputs.iter().rfind(|input| input.changing).map(|input| input.step.clone());
    let before = || ahead.predicted.after.clone().unwrap_or_else(|| "an earlier step".to_owned());
    let unfinished = || ahead.unfinished.as_ref().map(|unfinished| format!("{} has ended", unfinished.what));
    input().or_else(|| judgement.predicted.then(before)).or_else(|| ahead.opaque.clone()).or_else(unfinished)
}

/// Returns the context in which the resource of a step instance is evaluated and applied.
pub fn build_resource_context<'c>(
    case: &HostContext<'c>,
    turn: &StepInstance<'_>,
    inputs: &'c [RestartInput],
    predicted: Option<&'c EarlierStepEffects>,
) -> AssessmentContext<'c> {
    AssessmentContext {
        predicted,
        record: case.find_record(&turn.expanded.id),
        inputs,
        declared_elsewhere: list_moved_claims(case, turn),
        run: "",
        key: case.seen.key.as_deref(),
        secrets: Some(case.ground.secrets),
    }
}

/// Returns the inputs that `restart_on` of a step instance names, with the digests of their declarations.
pub fn collect_restart_inputs(
    case: &HostContext<'_>,
    turn: &StepInstance<'_>,
    turns: &[StepInstance<'_>],
    ahead: &StepPredictions,
) -> Vec<RestartInput> {
    find_restart_inputs(turn, turns)
        .into_iter()
        .filter_map(|input| {
            let ExpansionState::Resource(resource) = &input.expanded.state else { return None };
            let paths = resource.restart_input_paths();
            Some(RestartInput {
                step: input.expanded.id.to_string(),
                changing: ahead.changing.contains(&input.expanded.id)
                    || paths.iter().any(|path| ahead.predicted.will_touch.contains(path)),
                trace: find_trace_path_among(&paths, input, resource.as_ref()),
                paths,
                digest: digest_input(case, &input.expanded, resource.as_ref()),
                is_read_at_start: resource.is_read_at_start(),
            })
        })
        .collect()
}

/// Returns those inputs of a step instance that are observed to match: a process cannot have read any other.
pub fn collect_settled_inputs(
    case: &HostContext<'_>,
    turn: &StepInstance<'_>,
    turns: &[StepInstance<'_>],
) -> Vec<RestartInput> {
    let ahead = StepPredictions::default();
    let verdict = |input: &StepInstance<'_>| assess_step(case, input, turns, &ahead).judgement.verdict;
    let named = find_restart_inputs(turn, turns);
    let holds = named.into_iter().filter(|input| matches!(verdict(input), StepVerdict::Ok | StepVerdict::Pending));
    let holds: Vec<String> = holds.map(|input| input.expanded.id.to_string()).collect();
    collect_restart_inputs(case, turn, turns, &ahead).into_iter().filter(|input| holds.contains(&input.step)).collect()
}

/// Returns the digest of an input's declaration. Hosts that share a step instance also share the digest, unless it is
/// keyed.
fn digest_input(case: &HostContext<'_>, turn: &ExpandedStep, resource: &dyn Resource) -> String {
    if let Some(known) = turn.input_digest.get() {
        return known.clone();
    }
    let text = to_canonical_json(&resource.restart_input_value());
    match SecretStore::has_placeholder(&text) {
        true => digest_with_key(&text, case.ground.secrets, case.seen.key.as_deref()),
        false => turn.input_digest.get_or_init(|| digest_text(&text)).clone(),
    }
}

/// Turns the verdict of a configured step into pending if it still waits for a reload or a reboot.
fn assess_effectiveness(case: &HostContext<'_>, turn: &StepInstance<'_>, configured: Assessment) -> Assessment {
    // A removal is complete once nothing is configured any more: `effective` is about the declared presence.
    let Some(effective) = turn.step.effective.as_ref().filter(|_| !turn.expanded.absent) else { return configured };
    let judged = case.ground.expander.evaluate_effective(
        case.host,
        turn.instance,
        turn.step,
        &turn.expanded.id,
        &case.known_values(),
    );
    let pending = |basis| Assessment {
        verdict: StepVerdict::Pending,
        hint: advise_activation(&effective.by),
        ..Assessment::ok(format!("needs {}", effective.by.join(" or ")), basis)
    };
    match judged {
        ConditionOutcome::Holds { .. } | ConditionOutcome::NotApplicable => configured,
        ConditionOutcome::Fails { .. } => pending(configured.basis),
        ConditionOutcome::Unknown { why, .. } => {
            Assessment { basis: configured.basis, ..unknown_assessment(&format!("effective state unknown: {why}")) }
        }
        ConditionOutcome::Check { .. } => match build_effective_probe(case, turn)
            .map(|probe| read_check_status(case, &probe))
        {
            Some(Ok(0)) | None => configured,
            Some(Ok(_)) => pending(configured.basis),
            Some(Err(why)) => {
                Assessment { basis: configured.basis, ..unknown_assessment(&format!("effective state unknown: {why}")) }
            }
        },
    }
}

/// Returns what the user does to make a change effective. `None` if forge does so itself in the host's window, or with
/// an apply that may reboot.
fn advise_activation(by: &[String]) -> Option<String> {
    let (mut restart, mut login) = (false, false);
    for way in by {
        match way.as_str() {
            "restart" => restart = true,
            "login" => login = true,
            _ => return None,
        }
    }
    match (restart, login) {
        (true, _) => {
            Some("restart the service when its work allows it, unless a later step does (`restart_on`)".to_owned())
        }
        (false, true) => Some("log in again: sessions and services keep what they started with".to_owned()),
        (false, false) => None,
    }
}

/// The exit status by which a read-only command reports that it cannot tell, as `grep` does after an error.
const CANNOT_TELL_STATUS: i32 = 2;

/// From here on, the shell reports that a command could not be run, or that a signal ended it.
const NOT_RUN_STATUS: i32 = 126;

/// Returns the exit status of a read-only command: 0 if the check holds, another one if it fails.
///
/// # Errors
/// Why the result is unknown: the command cannot tell, was not run to its end, or gave no answer.
pub fn read_check_status(case: &HostContext<'_>, probe: &Probe) -> Result<i32, String> {
    match case.seen.observation.get(probe) {
        Ok(ProbeReading::Output(output)) if matches!(output.status, CANNOT_TELL_STATUS | NOT_RUN_STATUS..) => {
            let said = last_line(&output.stderr).map(|line| format!(": {line}")).unwrap_or_default();
            Err(format!("the check exited with {}{said}", output.status))
        }
        Ok(ProbeReading::Output(output)) => Ok(output.status),
        Ok(_) => Err("unexpected type of answer to the check".to_owned()),
        Err(unknown) => Err(unknown.why),
    }
}

fn last_line(text: &UntrustedText) -> Option<&str> {
    text.raw().lines().rev().map(str::trim).find(|line| !line.is_empty())
}

fn not_applicable_assessment(why: &str) -> Assessment {
    Assessment { verdict: StepVerdict::NotApplicable, ..Assessment::ok(why, Value::Null) }
}

pub(super) fn unknown_assessment(why: &str) -> Assessment {
    Assessment { verdict: StepVerdict::Unknown, ..Assessment::ok(why, Value::Null) }
}

/// Blocks a step whose declaration is invalid for the facts of this host. The reason names the location, which may lie
/// outside of the step.
fn invalid_assessment(case: &HostContext<'_>, diags: &[Diag]) -> Assessment {
    let one = |diag: &Diag| match diag.span {
        Some(span) => format!("{} (at {})", diag.message, case.ground.project.sources.format_location(span)),
        None => diag.message.clone(),
    };
    let reason = diags.iter().map(one).collect::<Vec<_>>().join("; ");
    let hint = diags.iter().find_map(|diag| diag.hint.clone());
    Assessment { hint, ..Assessment::blocked(BlockClass::Declaration, reason, Value::Null) }
}

/// Evaluates a step whose templates need a value that is not known yet: predicted if an earlier step will provide it.
fn assess_deferred(
    deferred: &DeferredStep,
    case: &HostContext<'_>,
    turn: &StepInstance<'_>,
    ahead: &StepPredictions,
) -> (Assessment, Option<String>) {
    match &deferred.need {
        PendingInput::Facts => (unknown_assessment("facts were not observed"), None),
        PendingInput::UnknownFact { path, why } => {
            (unknown_assessment(&format!("`facts.{path}` is unknown: {why}")), None)
        }
        PendingInput::Export { missing, .. } if !missing.is_empty() => {
            (unknown_assessment(&deferred.need.describe()).hint(hint_missing_export(missing)), None)
        }
        PendingInput::Export { recipe, name, .. } => {
            let export = format!("`{name}` of `{recipe}`");
            if !ahead.predicted.will_export(recipe) {
                let why = format!("{export} is not known, and no step of this plan will export it");
                let hint = hint_unobserved_exporter(case, recipe, name);
                return (Assessment { hint, ..unknown_assessment(&why) }, None);
            }
            let disruption = turn.step.disruption.unwrap_or(DisruptionClass::D0);
            let reason = format!("cannot be evaluated before {export} is exported");
            (
                Assessment::change(reason, Vec::new(), disruption, Value::Null).mark_predicted(),
                Some(format!("{export} is exported")),
            )
        }
    }
}

/// Returns what to do about the value of a `one` or `fleet` step if no host that could run the step is observed.
fn hint_unobserved_exporter(case: &HostContext<'_>, recipe: &str, name: &str) -> Option<String> {
    let ground = case.ground;
    let step = ground.project.recipes.get(recipe)?.steps.iter().find(|step| step.exports.contains_key(name))?;
    let index = case.graph.find_step(recipe, &step.name)?;
    // The values of a step of every host are missing with a reason of their own.
    if step.scope == StepScope::Host || !ground.filter.admits_step(recipe, &step.name) {
        return None;
    }
    if ground.chosen.get(&index).is_some_and(|chosen| !chosen.is_empty()) {
        return None;
    }
    let has_recipe = |instance: &Arc<RecipeInstance>| instance.recipe.name == recipe && !instance.absent;
    let hosts = ground.project.instances.iter().filter(|(_, instances)| instances.iter().any(has_recipe));
    let names: Vec<&str> = hosts.map(|(host, _)| host.as_str()).collect();
    (!names.is_empty()).then(|| {
        format!(
            "`{recipe}` runs on {}, which this run leaves out or could not observe: include it with `--on`, or run \
             without `--on`",
            format_first_names(&names)
        )
    })
}

/// Returns what to do about an exported value that hosts lack in this run.
fn hint_missing_export(missing: &MissingExports) -> &'static str {
    let has = |reason| missing.values().any(|why| *why == reason);
    match has(MissingExport::NotInRun) {
        _ if has(MissingExport::Secret) => {
            "run `forge apply` without `--engine` and without a saved plan: values with secrets are in no recording"
        }
        true => {
            "run without `--on`, or set `partial: true` in the export: a step that reads this value of all hosts waits for each of them"
        }
        false => {
            "exclude hosts that are gone with `on:` in the entry, or set `partial: true` in the export: a step that reads this value of all hosts waits for each of them"
        }
    }
}

/// Returns the basis of a step: a digest over the evaluated attributes and the facts that its templates, `when` and
/// rules read.
fn digest_basis(case: &HostContext<'_>, turn: &StepInstance<'_>, judgement: &Assessment) -> String {
    let facts: Vec<Value> = turn.expanded.reads.iter().map(|path| json!([path, read_fact(case, path)])).collect();
    // The canonical text of `{ facts, seen }`, without copying the observed attributes.
    let mut text = "{\"facts\":".to_owned();
    write_canonical(&Value::Array(facts), &mut text);
    text.push_str(",\"seen\":");
    write_canonical(&judgement.basis, &mut text);
    text.push('}');
    digest_text(&text)
}

/// Returns a fact by its path; null if it is not known.
pub(super) fn read_fact(case: &HostContext<'_>, path: &str) -> Value {
    let mut parts = path.split('.');
    let Some(Ok(root)) = parts.next().and_then(|name| case.seen.facts.0.get(name)) else { return Value::Null };
    parts.try_fold(root, |value, part| value.get(part)).cloned().unwrap_or(Value::Null)
}
