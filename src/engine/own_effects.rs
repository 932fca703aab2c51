//! Whether the earlier steps of a run explain that a step would now make another change than its plan shows.

use super::event::StepResult;
use super::report::StepReport;
use crate::config::ExpansionState;
use crate::model::{StepId, Value};
use crate::plan::{self, HostContext, StepInstance, StepPlan, StepStage};
use crate::probe::Probe;
use crate::resource::{AttributeChange, ChangeAspect, EffectReach, ProvidedItem};

/// A run, as the records of a host name it.
pub(super) struct RecordedRun<'a> {
    pub run: &'a str,
    /// The digest of the plan that it carries out.
    pub plan: &'a str,
    /// Whether another process may have begun it and been stopped before it recorded what it changed, or an earlier run
    /// still worked on the host when it was planned.
    pub resumes: bool,
}

/// The steps that changed a host since the plan was made, as far as they belong to its plan.
pub(super) struct OwnEffects<'a> {
    acted: Vec<&'a StepInstance<'a>>,
    /// Whether a step may have acted that is not among these.
    has_others: bool,
}

impl<'a> OwnEffects<'a> {
    /// Collects the steps that this run changed, by their reports so far, and those that the plan changed before, by the
    /// records on the host.
    pub fn collect(
        case: &HostContext<'_>,
        turns: &'a [StepInstance<'a>],
        reports: &[StepReport],
        run: &RecordedRun<'_>,
    ) -> Self {
        let changed = |report: &&StepReport| {
            use StepResult::{Changed, Failed, Pending, Unknown};
            matches!(report.result, Changed | Failed { .. } | Pending { .. } | Unknown { .. })
        };
        let ids: Vec<&StepId> = reports.iter().filter(changed).map(|report| &report.id).collect();
        let text = |record: &Value, key: &str| record.get(key).and_then(Value::as_str).map(str::to_owned);
        let is_recorded = |turn: &StepInstance<'_>| {
            case.find_record(&turn.expanded.id).is_some_and(|record| {
                text(record, "run").as_deref() == Some(run.run) || text(record, "plan").as_deref() == Some(run.plan)
            })
        };
        let acted: Vec<_> = turns.iter().filter(|turn| ids.contains(&&turn.expanded.id) || is_recorded(turn)).collect();
        let has_others = run.resumes || ids.iter().any(|id| !turns.iter().any(|turn| turn.expanded.id == **id));
        Self { acted, has_others }
    }

    /// Reports whether they may have changed what the resource of a step is compared with. After a reboot, anything may
    /// differ.
    pub fn may_concern(&self, turn: &StepInstance<'_>, planned: &StepPlan) -> bool {
        if self.has_others || planned.stage != StepStage::Before {
            return true;
        }
        let ExpansionState::Resource(resource) = &turn.expanded.state else { return true };
        let probes = resource.probes();
        // Accounts and groups share memberships.
        let paths = list_paths(&probes).filter(|paths| !paths.is_empty());
        let Some(paths) = paths else { return !self.acted.is_empty() };
        self.acted.iter().any(|acted| {
            let traits = acted.step.traits();
            let ExpansionState::Resource(other) = &acted.expanded.state else { return true };
            let probes = other.probes();
            let Some(mut touched) = list_paths(&probes) else { return true };
            // The home of a new account comes with files.
            let provided = plan::list_provisions(acted);
            touched.extend(provided.iter().filter_map(|item| match item {
                ProvidedItem::Path(path) => Some(path.as_str()),
                _ => None,
            }));
            traits.reach != EffectReach::Resource
                || traits.may_touch_other_files()
                || touched
                    .iter()
                    .any(|path| paths.iter().any(|own| is_same_or_below(own, path) || is_same_or_below(path, own)))
        })
    }

    /// Reports whether a step would only make changes now that its plan shows. A step that creates an account gives its
    /// files another owner.
    pub fn are_planned(&self, planned: &[AttributeChange], now: &[AttributeChange]) -> bool {
        let counts = |change: &&AttributeChange| {
            self.acted.is_empty() || !matches!(change.mark.aspect, ChangeAspect::Owner | ChangeAspect::Permissions)
        };
        let same = |one: &AttributeChange, other: &AttributeChange| {
            (&one.attribute, &one.from, &one.to) == (&other.attribute, &other.from, &other.to)
        };
        now.iter().filter(counts).all(|now| planned.iter().any(|shown| same(shown, now)))
    }
}

/// Returns the paths that probes read, if they read only paths and accounts.
fn list_paths(probes: &[Probe]) -> Option<Vec<&str>> {
    let mut paths = Vec::new();
    for probe in probes {
        match probe {
            Probe::Path { path, .. } => paths.push(path.as_str()),
            Probe::User { .. } | Probe::Group { .. } | Probe::Account => {}
            _ => return None,
        }
    }
    Some(paths)
}

fn is_same_or_below(path: &str, above: &str) -> bool {
    path.strip_prefix(above).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}
