//! Results of evaluating a resource, and the commands of a change.

use crate::model::{DisruptionClass, StepVerdict, UntrustedText, Value};
use crate::probe::{Probe, ProbeReading};
use crate::script::ShellFragment;
use serde::Serialize;
use std::any::Any;
use std::sync::Arc;

use super::attribute_change::AttributeChange;
use super::earlier_effects::{EarlierStepEffects, ProvidedItem};
use std::collections::{BTreeMap, BTreeSet};

/// What differs between a declaration and a host, in the terms of one kind. A diff holds the state before the change as
/// far as it was observed.
pub trait ResourceDiff: Clone + std::fmt::Debug + PartialEq + Serialize + Send + Sync + 'static {
    /// Renders the differences for plans, reports and records. The result is for people and is never read back.
    fn render_changes(&self) -> Vec<AttributeChange>;

    /// Returns the reading of a probe after the change, if it is known: later steps of the same script that edit the
    /// same file build on it.
    fn reading_after(&self) -> Option<(Probe, ProbeReading)> {
        None
    }

    /// Returns whether what the resource provides leads elsewhere after the change: a link or a mount point to other files,
    /// an account to another home or number. Later steps about it were observed where it leads now.
    fn leads_elsewhere(&self) -> bool {
        false
    }

    /// Returns what the change changes besides the resource. Later steps about it were observed before that.
    fn other_changed_items(&self) -> Vec<ProvidedItem> {
        Vec::new()
    }

    /// Returns the units that the change stops.
    fn stopped_units(&self) -> Vec<String> {
        Vec::new()
    }

    /// Returns whether the change can bar a login that was possible before it, and no guard restores the state before.
    fn may_bar_login(&self) -> bool {
        false
    }

    /// Returns what the change does to packages: they bring files and restart services that later steps depend on.
    fn package_changes(&self) -> PackageChanges {
        PackageChanges::default()
    }
}

/// What changes do to packages.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PackageChanges {
    /// A package is newly installed.
    pub installs: bool,
    /// A package changes its version, or an unfinished installation of it is completed.
    pub upgrades: bool,
}

/// A diff of any kind.
#[derive(Clone, Debug)]
pub struct ErasedDiff(Arc<dyn AnyDiff>);

impl ErasedDiff {
    fn new<D: ResourceDiff>(diff: D) -> Self {
        Self(Arc::new(diff))
    }

    /// Returns the reading of a probe after the change, if it is known.
    fn reading_after(&self) -> Option<(Probe, ProbeReading)> {
        self.0.predict_reading()
    }

    /// Returns the diff if it is one of the kind `D`.
    pub fn downcast<D: ResourceDiff>(&self) -> Option<&D> {
        self.0.as_any().downcast_ref()
    }
}

impl PartialEq for ErasedDiff {
    fn eq(&self, other: &Self) -> bool {
        self.0.is_equal(other.0.as_any())
    }
}

trait AnyDiff: std::fmt::Debug + Send + Sync {
    fn as_any(&self) -> &dyn Any;
    fn is_equal(&self, other: &dyn Any) -> bool;
    fn predict_reading(&self) -> Option<(Probe, ProbeReading)>;
    fn changes_of_packages(&self) -> PackageChanges;
    fn moves_what_it_provides(&self) -> bool;
    fn changes_other_items(&self) -> Vec<ProvidedItem>;
    fn stops_units(&self) -> Vec<String>;
    fn can_bar_login(&self) -> bool;
}

impl<D: ResourceDiff> AnyDiff for D {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn is_equal(&self, other: &dyn Any) -> bool {
        other.downcast_ref::<D>() == Some(self)
    }

    fn predict_reading(&self) -> Option<(Probe, ProbeReading)> {
        self.reading_after()
    }

    fn changes_of_packages(&self) -> PackageChanges {
        self.package_changes()
    }

    fn moves_what_it_provides(&self) -> bool {
        self.leads_elsewhere()
    }

    fn changes_other_items(&self) -> Vec<ProvidedItem> {
        self.other_changed_items()
    }

    fn stops_units(&self) -> Vec<String> {
        self.stopped_units()
    }

    fn can_bar_login(&self) -> bool {
        self.may_bar_login()
    }
}

/// The evaluation of one resource. Kinds return it with their own type of differences.
#[derive(Clone, Debug, PartialEq)]
pub struct Assessment<D = ErasedDiff> {
    /// Whether the step matches, can change, is pending, is impossible or could not be evaluated.
    pub verdict: StepVerdict,
    /// The reason as a lowercase fragment, also if nothing changes ("content, owner and mode match").
    pub reason: UntrustedText,
    /// The differing attributes, for people.
    pub changes: Vec<AttributeChange>,
    /// Disruption class of applying the changes.
    pub disruption: DisruptionClass,
    /// The compared attributes as observed, in canonical form. Its digest is the step's basis.
    pub basis: Value,
    /// Whether the verdict depends on the predicted effects of an earlier step.
    pub predicted: bool,
    /// Whether the state matches now, and only an earlier step of the run may end that.
    pub matches_now: bool,
    /// Whether only a reboot makes it effective: a pending state, or the state after the change.
    pub by_reboot: bool,
    /// Whether forge rebooted the host for the state, and it is still not effective.
    pub reboot_failed: bool,
    /// Whether the change concerns only a note of the package manager, such as a hold: everything in force stays.
    pub notes_only: bool,
    /// The container images that it runs, as far as they are known; those of a chart once it is rendered.
    pub images: Vec<String>,
    /// For images in a mirror, the images that they are copies of, as far as they are known.
    pub image_sources: BTreeMap<String, String>,
    /// Whether it also runs container images that the declaration does not determine.
    pub runs_unknown_images: bool,
    /// What the user should do next, for `blocked` and `unknown`.
    pub hint: Option<String>,
    /// Whether the hint does not tell how to write a recipe. Users do not write the recipe of an undo.
    pub hint_for_host: bool,
    /// What differs, for a change that an action can carry out. A change that is only predicted may have none.
    pub diff: Option<D>,
}

impl<D> Assessment<D> {
    /// Returns an assessment for a state that matches the declaration.
    pub fn ok(reason: impl Into<UntrustedText>, basis: Value) -> Self {
        Self {
            verdict: StepVerdict::Ok,
            reason: reason.into(),
            changes: Vec::new(),
            disruption: DisruptionClass::D0,
            basis,
            predicted: false,
            matches_now: false,
            by_reboot: false,
            reboot_failed: false,
            notes_only: false,
            images: Vec::new(),
            image_sources: BTreeMap::new(),
            runs_unknown_images: false,
            hint: None,
            hint_for_host: false,
            diff: None,
        }
    }

    /// Returns an assessment for a change that cannot be carried out as it is: it is evaluated again before it runs.
    pub fn change(
        reason: impl Into<UntrustedText>,
        changes: Vec<AttributeChange>,
        disruption: DisruptionClass,
        basis: Value,
    ) -> Self {
        Self { verdict: StepVerdict::Change, changes, disruption, ..Self::ok(reason, basis) }
    }

    /// Returns an assessment for a state that is configured, but not effective yet.
    pub fn pending(reason: impl Into<UntrustedText>, basis: Value) -> Self {
        Self { verdict: StepVerdict::Pending, ..Self::ok(reason, basis) }
    }

    /// Returns an assessment for a step that could not be evaluated.
    pub fn unknown(why: &crate::probe::UnansweredReason) -> Self {
        let said = why.said.as_ref().filter(|s| !s.is_empty()).map(|s| format!(": {}", s.raw().trim()));
        if why.barred {
            return Self::blocked(crate::model::BlockClass::Host, why.why.as_str(), Value::Null)
                .host_hint(crate::resource::shared::shell::UNSAFE_PATH_HINT);
        }
        Self {
            verdict: StepVerdict::Unknown,
            ..Self::ok(format!("{}{}", why.why, said.unwrap_or_default()), Value::Null)
        }
    }

    /// Returns an assessment for a step that is impossible on this host.
    pub fn blocked(class: crate::model::BlockClass, reason: impl Into<UntrustedText>, basis: Value) -> Self {
        Self { verdict: StepVerdict::Blocked(class), ..Self::ok(reason, basis) }
    }

    /// Returns the assessment without the content of what differs, because that may be secret. Who owns an object and who
    /// may read it, versions and states are no content.
    pub fn withhold_content(mut self) -> Self {
        for change in
            self.changes.iter_mut().filter(|change| change.mark.aspect.tells_content() || change.diff.is_some())
        {
            (change.from, change.to, change.diff, change.secret) = (None, None, None, true);
        }
        self
    }

    /// Returns the assessment with every secret in its texts and values masked, because the state of a host may contain
    /// the secret itself.
    pub fn mask_secrets(mut self, secrets: &crate::model::SecretStore) -> Self {
        if secrets.is_empty() {
            return self;
        }
        let scrub = |text: &mut UntrustedText| *text = secrets.scrub_secrets(text.raw()).into();
        scrub(&mut self.reason);
        for change in &mut self.changes {
            [&mut change.from, &mut change.to, &mut change.diff].into_iter().flatten().for_each(scrub);
        }
        self
    }

    /// Marks the verdict as dependent on the predicted effects of an earlier step.
    pub fn mark_predicted(mut self) -> Self {
        self.predicted = true;
        self
    }

    /// Marks the change as one that is evaluated again after an earlier step, although the state matches now.
    pub fn mark_matching_now(mut self) -> Self {
        (self.predicted, self.matches_now) = (true, true);
        self
    }

    /// Marks the assessment as effective only after a reboot.
    pub fn mark_reboot_required(mut self) -> Self {
        self.by_reboot = true;
        self
    }

    /// Returns the assessment with its diff converted.
    pub fn map_diff<E>(mut self, convert: impl FnOnce(D) -> E) -> Assessment<E> {
        let diff = self.diff.take().map(convert);
        self.with_diff(diff)
    }

    /// Returns the assessment with another diff.
    pub fn with_diff<E>(self, diff: Option<E>) -> Assessment<E> {
        Assessment {
            verdict: self.verdict,
            reason: self.reason,
            changes: self.changes,
            disruption: self.disruption,
            basis: self.basis,
            predicted: self.predicted,
            matches_now: self.matches_now,
            by_reboot: self.by_reboot,
            reboot_failed: self.reboot_failed,
            notes_only: self.notes_only,
            images: self.images,
            image_sources: self.image_sources,
            runs_unknown_images: self.runs_unknown_images,
            hint: self.hint,
            hint_for_host: self.hint_for_host,
            diff,
        }
    }

    /// Adds what the user should do next.
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self.hint_for_host = false;
        self
    }

    /// Like [`hint`](Self::hint), for what the user should do on the host, whatever the recipe declares.
    pub fn host_hint(self, hint: impl Into<String>) -> Self {
        Self { hint_for_host: true, ..self.hint(hint) }
    }
}

impl Assessment {
    /// Returns what the change does to packages.
    pub fn package_changes(&self) -> PackageChanges {
        self.diff.as_ref().map(|diff| diff.0.changes_of_packages()).unwrap_or_default()
    }
}

impl<D: ResourceDiff> Assessment<D> {
    /// Returns an assessment for differences that an action carries out.
    pub fn differs(reason: impl Into<UntrustedText>, diff: D, disruption: DisruptionClass, basis: Value) -> Self {
        let changes = diff.render_changes();
        Self { diff: Some(diff), ..Self::change(reason, changes, disruption, basis) }
    }

    /// Returns the assessment as the planner and the engine see it.
    pub fn erase_diff(self) -> Assessment {
        self.map_diff(ErasedDiff::new)
    }
}

impl Assessment {
    /// Returns whether what the resource provides leads elsewhere after the change.
    pub fn leads_elsewhere(&self) -> bool {
        self.diff.as_ref().is_some_and(|diff| diff.0.moves_what_it_provides())
    }

    /// Returns what the change changes besides the resource.
    pub fn other_changed_items(&self) -> Vec<ProvidedItem> {
        self.diff.as_ref().map(|diff| diff.0.changes_other_items()).unwrap_or_default()
    }

    /// Returns the units that the change stops.
    pub fn stopped_units(&self) -> Vec<String> {
        self.diff.as_ref().map(|diff| diff.0.stops_units()).unwrap_or_default()
    }

    /// Returns whether the change can bar a login that was possible before it.
    pub fn may_bar_login(&self) -> bool {
        self.diff.as_ref().is_some_and(|diff| diff.0.can_bar_login())
    }

    /// Returns the reading of a probe after the change, if the differences determine it.
    pub fn reading_after(&self) -> Option<(Probe, ProbeReading)> {
        self.diff.as_ref()?.reading_after()
    }
}

/// Everything that an evaluation may use in addition to the observation.
#[derive(Clone, Debug, Default)]
pub struct AssessmentContext<'a> {
    /// Predicted effects of earlier steps with the verdict `change`.
    pub predicted: Option<&'a EarlierStepEffects>,
    /// The record of the last verified apply of this step on this host, as JSON.
    pub record: Option<&'a Value>,
    /// For services: the inputs listed in `restart_on`.
    pub inputs: &'a [RestartInput],
    /// What the record names and another step declares now, as kind and name. Only kinds of the cluster read it: they
    /// delete what their records name.
    pub declared_elsewhere: BTreeSet<(String, String)>,
    /// The run's name for backups and units: `20261121T093015-4f2a`.
    pub run: &'a str,
    /// The host's key for digests of secret values (hex), if known.
    pub key: Option<&'a str>,
    /// Reveals placeholders for digests of secret content.
    pub secrets: Option<&'a crate::model::SecretStore>,
}

impl AssessmentContext<'_> {
    /// Reports whether another step declares this: it was moved and must stay.
    pub(crate) fn is_declared_elsewhere(&self, kind: &str, name: &str) -> bool {
        self.declared_elsewhere.contains(&(kind.to_owned(), name.to_owned()))
    }
}

/// One input that the running state of a service depends on.
#[derive(Clone, Debug, PartialEq)]
pub struct RestartInput {
    /// The step in `restart_on`, as `recipe/step`.
    pub step: String,
    /// Paths whose ctime is compared, each of which is among the service's probes.
    pub paths: Vec<String>,
    /// A file that is touched before the step is applied, for steps whose own paths may not show that it was.
    pub trace: Option<String>,
    /// Digest of the step's declaration.
    pub digest: String,
    /// Whether the plan changes this input.
    pub changing: bool,
    /// Whether a process gets a change of it only when it starts: an executable file, or its account.
    pub is_read_at_start: bool,
}

impl RestartInput {
    /// Returns every path whose ctime indicates a change, the trace last.
    pub(crate) fn watched_paths(&self) -> impl Iterator<Item = &str> {
        self.paths.iter().chain(&self.trace).map(String::as_str)
    }

    /// Reports whether `path` is the trace.
    pub(crate) fn is_trace(&self, path: &str) -> bool {
        self.trace.as_deref() == Some(path)
    }
}

/// A file that the controller sends over the session.
#[derive(Clone, Debug)]
pub struct ArtifactDelivery {
    /// The file, by its digest.
    pub artifact: crate::model::Artifact,
    /// Prints size and SHA-256 of the partial file that an earlier attempt left on the host, `0 -` for none.
    pub part: ShellFragment,
    /// Reads the rest from descriptor 7, verifies the whole file and installs it. Reads `$FORGE_OFFSET` and
    /// `$FORGE_SIZE`.
    pub body: ShellFragment,
}

/// The part of an action that one command can do for several actions of a script: packages of one transaction. The
/// first of them gets the words of those after it in `$FORGE_ALSO`, separated by blanks; those after it find
/// `$FORGE_JOINED` set. Directories of files are synced once for all of them, and new files are written together. An action
/// stays complete without the others: it checks the remaining work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ActionBatch {
    /// Consecutive actions with the same key share the command.
    pub key: &'static str,
    /// What the command gets for this action: words without blanks.
    pub words: Vec<String>,
    /// The directory that the action leaves to be synced with those of the others, if `$FORGE_LATER` is set.
    pub directory: Option<String>,
    /// The file or directory that the whole action makes if nothing is at its path.
    pub new_path: Option<NewPath>,
}

impl ActionBatch {
    /// Returns a batch that shares nothing yet.
    pub fn new(key: &'static str) -> Self {
        Self { key, words: Vec::new(), directory: None, new_path: None }
    }
}

/// A file or directory that does not exist yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewPath {
    /// Its absolute path.
    pub path: String,
    /// The account that owns it.
    pub owner: String,
    /// Its group.
    pub group: String,
    /// Its permission bits.
    pub mode: u32,
    /// The run that makes it.
    pub run: String,
    /// The content of a file; `None` for a directory.
    pub body: Option<Vec<u8>>,
}

impl NewPath {
    /// Reports whether this is the directory `path`, and only root can place entries in it.
    pub fn is_private_directory(&self, path: &str) -> bool {
        self.body.is_none() && self.path == path && self.owner == "root" && self.mode & 0o022 == 0
    }
}

/// What carries out a change.
#[derive(Clone, Debug)]
pub enum Action {
    /// Commands on the host.
    Script(ActionScript),
    /// Calls of the cluster's API, in this order.
    Calls(Vec<crate::object::ClusterCall>),
}

/// The commands of a change.
#[derive(Clone, Debug, Default)]
pub struct ActionScript {
    /// Shell code of the change; exits with a non-zero code on failure.
    pub body: ShellFragment,
    /// Whether it runs as a transient unit on the host, with a log and reattachment.
    pub long: bool,
    /// Substrings of its output, each with a hint to print.
    pub explain: &'static [(&'static str, &'static str)],
}

impl Default for Action {
    fn default() -> Self {
        Self::Script(ActionScript::default())
    }
}

impl Action {
    /// Returns an action that fails with `why` and changes nothing.
    pub fn fail(why: &str) -> Self {
        Self::Script(ActionScript { body: super::shared::shell::failing_action(why), ..ActionScript::default() })
    }

    /// Returns the commands, unless the action calls the cluster's API.
    pub fn script(&self) -> Option<&ActionScript> {
        match self {
            Self::Script(script) => Some(script),
            Self::Calls(_) => None,
        }
    }

    /// Returns the commands; none if the action calls the cluster's API.
    pub fn into_script(self) -> ActionScript {
        match self {
            Self::Script(script) => script,
            Self::Calls(_) => ActionScript::default(),
        }
    }

    /// Returns the calls of the cluster's API.
    pub fn calls(&self) -> &[crate::object::ClusterCall] {
        match self {
            Self::Script(_) => &[],
            Self::Calls(calls) => calls,
        }
    }
}
