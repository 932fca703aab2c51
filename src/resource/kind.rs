//! What a kind is: the declaration, the comparison with a host, and the action that follows from the differences.

use super::assessment::{
    Action, ActionBatch, ArtifactDelivery, Assessment, AssessmentContext, ErasedDiff, ResourceDiff,
};
use super::change_mark::{ChangeMark, ChangedObject};
use super::earlier_effects::ProvidedItem;
use super::field::{FieldSpec, FieldValues};
use super::membership::DeclaredMembership;
use crate::diag::Diag;
use crate::model::{GuardEffect, UndoEffect, Value};
use crate::probe::{Observation, Probe};
use crate::resource::traits::KindTraits;

/// What a step declares: all templates are rendered and all values are typed. Independent of any observation.
pub trait DeclaredResource: std::fmt::Debug + Send + Sync {
    /// Returns the kind's name as spelled in recipes: `file`, `package` …
    fn kind(&self) -> &'static str;

    /// Returns the subject of the resource, for output and for conflict checks: `/etc/motd`, `nginx`.
    fn title(&self) -> String;

    /// Returns the probes whose results [`assess`](Resource::assess) reads.
    fn probes(&self) -> Vec<Probe>;

    /// Returns the probes whose answers decide whether the state matches. The others only explain it.
    fn deciding_probes(&self) -> Vec<Probe> {
        self.probes()
    }

    /// Returns the artifact that the resource installs on the host, if any.
    fn artifact(&self) -> Option<&crate::model::Artifact> {
        None
    }

    /// Returns a warning about the declaration itself, independent of any host.
    fn declaration_warning(&self) -> Option<Diag> {
        None
    }

    /// Returns the declared meaning of an exit status of its commands, if any.
    fn explain_exit_status(&self, _status: i32) -> Option<&str> {
        None
    }

    /// Returns the declared timeout of its change in seconds, if any.
    fn time_limit_s(&self) -> Option<u64> {
        None
    }

    /// Returns the canonical desired value for the applied record, secrets as placeholders.
    fn desired_value(&self) -> Value;

    /// Returns probes of objects that the record of the last verified apply names and this resource no longer declares:
    /// a resource removes the objects that it made.
    fn obsolete_probes(&self, _record: &Value) -> Vec<Probe> {
        Vec::new()
    }

    /// Returns the things that later steps may rely on once it is applied: paths, units, users, packages.
    fn provided_items(&self) -> Vec<ProvidedItem>;

    /// Returns the inputs that a service depends on if its `restart_on` lists a step of this resource: paths whose
    /// ctime and digest show a change.
    fn restart_input_paths(&self) -> Vec<String> {
        Vec::new()
    }

    /// Reports whether a process gets a change only when it starts: that of a file that may be executed, or of its account.
    fn is_read_at_start(&self) -> bool {
        false
    }

    /// Returns the part of [`desired_value`](Self::desired_value) that a process can notice. Restarts are derived from its digest,
    /// so a hold or a backup does not cause a restart.
    fn restart_input_value(&self) -> Value {
        self.desired_value()
    }

    /// Returns the data about a verified start that the applied record stores, so that the next evaluation can tell
    /// whether the running process has its inputs. Only services have one. `None` while it is not known.
    fn started_record(&self, _seen: &Observation, _cx: &AssessmentContext<'_>) -> Option<crate::model::RecordedStart> {
        None
    }

    /// Returns the unit that it declares as running, with its type, if any.
    fn running_unit(&self) -> Option<&str> {
        None
    }

    /// Returns the kernel module that it declares as loaded, if any.
    fn loaded_module(&self) -> Option<&str> {
        None
    }

    /// Returns the object that a change of this resource concerns, as a host's logs name it.
    fn changed_object(&self, _mark: &ChangeMark) -> ChangedObject {
        ChangedObject::Nameless
    }

    /// Returns whether plans show no content of the resource, although the step declares no secret.
    fn withholds_content(&self) -> bool {
        false
    }

    /// Returns those of its exclusive claims that stay on the host if the step is not declared any longer.
    fn lasting_claims(&self) -> Vec<(&'static str, String)> {
        self.exclusive_claims()
    }

    /// Returns the claims that no other step of the host may declare differently: `("path", "/etc/motd")`.
    fn exclusive_claims(&self) -> Vec<(&'static str, String)> {
        vec![(self.kind(), self.title())]
    }

    /// Returns the read-only script that reports a difference, if one does: its output may say which.
    fn failed_check(&self, _seen: &Observation) -> Option<Probe> {
        None
    }

    /// Returns a unit that it installs in targets in which the observed file of the unit does not install it, with these
    /// targets.
    fn new_install(&self, _seen: &Observation) -> Option<(String, Vec<String>)> {
        None
    }

    /// Returns the directories that it removes with everything in them: no other step of the host may declare something
    /// there.
    fn removed_trees(&self) -> Vec<String> {
        Vec::new()
    }

    /// Returns the path of the link that it declares, and the target as declared.
    fn declared_link(&self) -> Option<(&str, &str)> {
        None
    }

    /// Returns the paths whose absence it declares although its step is not `absent`.
    fn absent_paths(&self) -> Vec<String> {
        Vec::new()
    }

    /// Returns what it declares about the membership of accounts in groups, if anything.
    fn declared_membership(&self) -> Option<DeclaredMembership> {
        None
    }

    /// Returns the paths whose SELinux context an action may have to set: those that the resource claims, and its
    /// inputs of services.
    fn labeled_paths(&self) -> Vec<String> {
        let claims = self.exclusive_claims().into_iter().chain(self.shared_claims());
        let paths = claims.filter(|(what, _)| *what == "path").map(|(_, path)| path);
        let mut paths: Vec<String> = paths.chain(self.restart_input_paths()).collect();
        paths.sort();
        paths.dedup();
        paths
    }

    /// Returns the declared value of the [`exclusive_claims`](Self::exclusive_claims): if there are several, the value of each.
    fn claimed_value(&self) -> Value {
        self.desired_value()
    }

    /// Returns the fields of [`claimed_value`](Self::claimed_value) that are not compared if they are not declared: another
    /// step may declare them for the same resource.
    fn open_fields(&self) -> &'static [&'static str] {
        &[]
    }

    /// Returns the claims that this resource shares: steps that declare other parts of it may exist, but no step that
    /// claims the whole.
    fn shared_claims(&self) -> Vec<(&'static str, String)> {
        Vec::new()
    }
}

/// A resource of any kind, as the planner and the engine handle it. Kinds implement [`TypedResource`].
pub trait Resource: DeclaredResource {
    /// Compares the desired state with the observed state. Pure; a no-op gives its reason in `reason`.
    fn assess(&self, seen: &Observation, cx: &AssessmentContext<'_>) -> Assessment;

    /// Returns what carries out the differences that [`assess`](Self::assess) found. Pure.
    fn render_action(&self, judgement: &Assessment, cx: &AssessmentContext<'_>) -> Action;

    /// Returns what one command can do for this action and for others of its script.
    fn action_batch(&self, _judgement: &Assessment, _cx: &AssessmentContext<'_>) -> Option<ActionBatch> {
        None
    }

    /// Returns how the controller sends the artifact if a change needs it.
    fn artifact_delivery(&self, _judgement: &Assessment) -> Option<ArtifactDelivery> {
        None
    }

    /// Returns how the change can be undone. Pure.
    fn undo_effect(&self, judgement: &Assessment) -> UndoEffect;

    /// Returns what a guard of the change restores. Pure.
    fn guard_effect(&self, judgement: &Assessment) -> GuardEffect;
}

/// The path of one kind from the observation to the action. The action is made from the kind's own differences; their
/// rendered form (labels, reasons, JSON) is for people and is never read back.
pub trait TypedResource: DeclaredResource {
    /// What can differ between the declaration and a host.
    type Diff: ResourceDiff;

    /// Compares the desired state with the observed state. Pure; a no-op gives its reason in `reason`.
    fn diff(&self, seen: &Observation, cx: &AssessmentContext<'_>) -> Assessment<Self::Diff>;

    /// Returns what carries out the differences. Pure.
    fn act(&self, diff: &Self::Diff, cx: &AssessmentContext<'_>) -> Action;

    /// Returns what one command can do for this action and for others of its script.
    fn batch(&self, _diff: &Self::Diff, _cx: &AssessmentContext<'_>) -> Option<ActionBatch> {
        None
    }

    /// Returns how the controller sends the artifact if the differences need it.
    fn deliver(&self, _diff: &Self::Diff) -> Option<ArtifactDelivery> {
        None
    }

    /// Returns how the change can be undone. The state before it is in the differences, or on the host until the
    /// action begins. Pure.
    fn undo(&self, _diff: &Self::Diff) -> UndoEffect {
        UndoEffect::irreversible(&format!("kind `{}` has no undo", self.kind()))
    }

    /// Returns what a guard of the change restores: by default, the paths that an undo restores. Pure.
    fn guard(&self, diff: &Self::Diff) -> GuardEffect {
        GuardEffect::restore_paths(self.undo(diff).paths)
    }
}

impl<T: TypedResource> Resource for T {
    fn assess(&self, seen: &Observation, cx: &AssessmentContext<'_>) -> Assessment {
        self.diff(seen, cx).erase_diff()
    }

    fn render_action(&self, judgement: &Assessment, cx: &AssessmentContext<'_>) -> Action {
        // A change that was only predicted has no differences yet: it is evaluated again before it runs.
        match judgement.diff.as_ref().and_then(ErasedDiff::downcast) {
            Some(diff) => self.act(diff, cx),
            None => Action::fail("the differences are not known"),
        }
    }

    fn action_batch(&self, judgement: &Assessment, cx: &AssessmentContext<'_>) -> Option<ActionBatch> {
        self.batch(judgement.diff.as_ref().and_then(ErasedDiff::downcast)?, cx)
    }

    fn artifact_delivery(&self, judgement: &Assessment) -> Option<ArtifactDelivery> {
        self.deliver(judgement.diff.as_ref().and_then(ErasedDiff::downcast)?)
    }

    fn undo_effect(&self, judgement: &Assessment) -> UndoEffect {
        match judgement.diff.as_ref().and_then(ErasedDiff::downcast) {
            Some(diff) => self.undo(diff),
            None => UndoEffect::irreversible("the differences are not known before earlier steps ran"),
        }
    }

    fn guard_effect(&self, judgement: &Assessment) -> GuardEffect {
        let diff = judgement.diff.as_ref().and_then(ErasedDiff::downcast);
        diff.map(|diff| self.guard(diff)).unwrap_or_default()
    }
}

/// A registered kind: its name, fields and constructor.
pub struct ResourceKind {
    /// The key of a step in YAML: `file`, `package`.
    pub name: &'static str,
    /// One sentence for the reference.
    pub summary: &'static str,
    /// Example steps in YAML, in the form of a recipe's `steps:`.
    pub example: &'static str,
    /// Several paragraphs of Markdown for the reference: behaviour, meaning of a no-op, proof.
    pub doc: &'static str,
    /// Its fields, in the order of the reference.
    pub fields: &'static [FieldSpec],
    /// Builds the resource from checked fields. `ensure: absent` and `otherwise: absent` set `absent`.
    pub build: fn(&FieldValues, absent: bool) -> ResourceBuildResult,
    /// What holds for every step of the kind.
    pub traits: KindTraits,
}

/// A resource, or the error in its fields.
pub type ResourceBuildResult = Result<Box<dyn Resource>, crate::diag::Diag>;
