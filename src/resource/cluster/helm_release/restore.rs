//! `restore_release`: a Helm release as it was before a run: an earlier revision, or none.

use super::release_diff::{ReleaseDiff, UpgradeDiff};
use super::undo::RESTORING_KIND;
use crate::diag::Diag;
use crate::model::{BlockClass, DisruptionClass, UndoEffect, Value};
use crate::object::{ClusterCall, ReleaseAction, ReleaseCall, ReleaseInfo, ReleaseQuery, ReleaseState, ReleaseStatus};
use crate::probe::{Observation, Probe};
use crate::resource::shared::support::{bad_value, join_words, release_state};
use crate::resource::traits::KindTraits;
use crate::resource::{
    Action, Assessment, AssessmentContext, AttributeChange, DeclaredResource, FieldSpec, FieldType, FieldValues,
    ProvidedItem, Resource, ResourceDiff, ResourceKind, TypedResource,
};
use serde::Serialize;
use serde_json::json;

pub(in crate::resource) const KIND: ResourceKind = ResourceKind {
    name: RESTORING_KIND,
    summary: "A Helm release as it was before a run.",
    example: include_str!("../../examples/restore_release.yaml"),
    doc: "\
`forge undo` declares this kind; recipes rarely need it. Before a run upgrades a release, it notes its revision.

**Compares** values and manifest of the installed revision with those of `revision`. **A change** is `helm rollback` to
that revision, which adds a new one. It runs no hooks and does not wait for pods. A release that the run installed is
removed with `helm uninstall`: CustomResourceDefinitions in the chart's `crds` directory stay, and so do objects that the
chart annotates with `helm.sh/resource-policy: keep`.

**Blocked** is a release whose last revision is not the one that the run made, a pending release, and a removal that would
delete objects of CustomResourceDefinitions. **Unknown** is a release of which Helm no longer keeps the revision.

**Disruption** is D1.",
    fields: &[
        FieldSpec::required("name", FieldType::Name, "Release name."),
        FieldSpec::required("namespace", FieldType::Name, "Namespace of the release."),
        FieldSpec::optional(
            "revision",
            FieldType::Int { min: 1, max: MAX_REVISION },
            "The revision before the run. Default: the release did not exist.",
        ),
        FieldSpec::required("after", FieldType::Int { min: 1, max: MAX_REVISION }, "The revision that the run made."),
        FieldSpec::optional(
            "overwrite",
            FieldType::Bool,
            "Whether later revisions are rolled back, too. Default `false`.",
        ),
    ],
    build,
    traits: KindTraits::IN_CLUSTER,
};

const MAX_REVISION: i64 = 1_000_000_000;

/// Seconds that helm may take.
const TIMEOUT_S: u64 = 600;

#[derive(Debug)]
struct ReleaseRestoration {
    asked: ReleaseQuery,
    after: u64,
    overwrite: bool,
    absent: bool,
}

/// How a release differs from its state before the run.
#[derive(Clone, Debug, PartialEq, Serialize)]
struct RestorationDiff {
    /// The installed revision.
    revision: u64,
    /// The revision to return to; `None` if the release is removed.
    former: Option<u64>,
    chart: String,
    changes: UpgradeDiff,
}

impl ResourceDiff for RestorationDiff {
    fn render_changes(&self) -> Vec<AttributeChange> {
        let (from, to) = (self.revision.to_string(), self.former.map(|former| format!("as revision {former}")));
        match &to {
            None => vec![AttributeChange::new("release", Some(&self.chart), None)],
            Some(to) => {
                let mut all = vec![AttributeChange::new("revision", Some(&from), Some(to))];
                all.extend(ReleaseDiff::Upgrade(Box::new(self.changes.clone())).render_changes());
                all
            }
        }
    }
}

fn build(fields: &FieldValues, absent: bool) -> Result<Box<dyn Resource>, Diag> {
    let text = |key| fields.get_text(key).unwrap_or_default().to_owned();
    let number = |key| fields.get_int(key).and_then(|number| u64::try_from(number).ok());
    let revision = number("revision");
    if revision.is_none() && !absent {
        return Err(bad_value("a release that did not exist is removed").hint("set `revision`, or `otherwise: absent`"));
    }
    let asked = ReleaseQuery {
        name: text("name"),
        namespace: text("namespace"),
        chart: None,
        values: "{}".to_owned(),
        upstream: None,
        absent,
        revision: revision.filter(|_| !absent),
    };
    let overwrite = fields.get_bool("overwrite").unwrap_or(false);
    Ok(Box::new(ReleaseRestoration { asked, after: number("after").unwrap_or_default(), overwrite, absent }))
}

impl ReleaseRestoration {
    fn probe(&self) -> Probe {
        Probe::Release(Box::new(self.asked.clone()))
    }

    fn qualified_name(&self) -> String {
        format!("{}/{}", self.asked.namespace, self.asked.name)
    }

    fn assess_state(&self, state: &ReleaseState) -> Assessment<RestorationDiff> {
        let title = self.qualified_name();
        let basis = json!({
            "revision": state.release.as_ref().map(|info| info.revision),
            "status": state.release.as_ref().map(|info| info.status.name()),
            "differs": !state.values.is_empty() || !state.manifest.is_empty(),
        });
        let block = |reason: String| Assessment::blocked(BlockClass::Host, reason, basis.clone());
        let Some(info) = state.release.as_ref().filter(|info| info.status != ReleaseStatus::Uninstalled) else {
            return match self.absent {
                true => Assessment::ok(format!("release `{title}` does not exist"), basis),
                false => block(format!("release `{title}` was uninstalled after the run")),
            };
        };
        if info.status.is_pending() {
            return block(format!("another Helm operation is in progress: `{title}` is {}", info.status.name()));
        }
        let is_former = info.status == ReleaseStatus::Deployed && state.values.is_empty() && state.manifest.is_empty();
        if let Some(former) = self.asked.revision.filter(|_| is_former) {
            return Assessment::ok(format!("release `{title}` matches revision {former}"), basis);
        }
        if info.revision != self.after && !self.overwrite {
            let (now, run) = (info.revision, self.after);
            return block(format!("release `{title}` was changed after the run: revision {now}, the run made {run}"));
        }
        let lost: Vec<&str> = state.doomed.iter().filter(|crd| crd.objects > 0).map(|crd| crd.name.as_str()).collect();
        if !lost.is_empty() {
            return block(format!("uninstalling `{title}` deletes all objects of {}", join_words(&lost)));
        }
        self.differ(info, state, basis)
    }

    fn differ(&self, info: &ReleaseInfo, state: &ReleaseState, basis: Value) -> Assessment<RestorationDiff> {
        let title = self.qualified_name();
        let reason = match self.asked.revision {
            Some(former) => format!("release `{title}` has revision {} and differs from {former}", info.revision),
            None if state.kept.is_empty() => format!("release `{title}` is {}", info.status.name()),
            None => {
                format!("release `{title}` is {}; uninstalling keeps {}", info.status.name(), join_words(&state.kept))
            }
        };
        let changes =
            UpgradeDiff { values: state.values.clone(), manifest: state.manifest.clone(), ..UpgradeDiff::default() };
        let diff = RestorationDiff {
            revision: info.revision,
            former: self.asked.revision,
            chart: format!("{} {}", info.chart, info.version),
            changes,
        };
        Assessment::differs(reason, diff, DisruptionClass::D1, basis)
    }
}

impl DeclaredResource for ReleaseRestoration {
    fn kind(&self) -> &'static str {
        KIND.name
    }

    fn title(&self) -> String {
        self.qualified_name()
    }

    fn probes(&self) -> Vec<Probe> {
        vec![self.probe()]
    }

    fn time_limit_s(&self) -> Option<u64> {
        Some(2 * TIMEOUT_S)
    }

    fn desired_value(&self) -> Value {
        json!({ "name": self.asked.name, "namespace": self.asked.namespace, "revision": self.asked.revision })
    }

    fn provided_items(&self) -> Vec<ProvidedItem> {
        Vec::new()
    }
}

impl TypedResource for ReleaseRestoration {
    type Diff = RestorationDiff;

    fn diff(&self, seen: &Observation, _cx: &AssessmentContext<'_>) -> Assessment<RestorationDiff> {
        match release_state(seen, &self.probe()) {
            Ok(state) => self.assess_state(state),
            Err(why) => Assessment::unknown(&why),
        }
    }

    fn act(&self, diff: &RestorationDiff, _cx: &AssessmentContext<'_>) -> Action {
        let deed = match diff.former {
            Some(revision) => ReleaseAction::Rollback { revision },
            None => ReleaseAction::Uninstall,
        };
        Action::Calls(vec![ClusterCall::Release(Box::new(ReleaseCall {
            asked: self.asked.clone(),
            deed,
            timeout_s: TIMEOUT_S,
            wait: self.absent,
            hooks: false,
            stale_s: u64::MAX,
            adopt: false,
        }))])
    }

    fn undo(&self, diff: &RestorationDiff) -> UndoEffect {
        match diff.former {
            Some(_) => UndoEffect::declare(vec![super::undo::declare_revision(&self.asked, diff.revision)]),
            None => UndoEffect::irreversible(super::undo::UNINSTALLED),
        }
    }
}
