//! Results of evaluating a resource, and the commands of a change.

use crate::model::{DisruptionClass, StepVerdict, UntrustedText, Value};
use crate::probe::{Probe, ProbeReading};
use crate::script::ShellFragment;
use compact_str::CompactString;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

use crate::resource::ProvidedItem;

/// One attribute that differs.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub struct AttributeChange {
    /// `content`, `mode`, `version`, `enabled` …
    #[schemars(with = "String")]
    pub attribute: CompactString,
    /// Observed value; `None` if nothing exists (or the value is secret).
    pub from: Option<UntrustedText>,
    /// Desired value; `None` for a removal (or if the value is secret).
    pub to: Option<UntrustedText>,
    /// A unified diff of a file's content, without file headers; empty if `from` and `to` are sufficient.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub diff: Option<UntrustedText>,
    /// Whether the values are withheld because they are secret.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub secret: bool,
}

impl AttributeChange {
    pub fn new(attribute: &str, from: Option<&str>, to: Option<&str>) -> Self {
        Self {
            attribute: attribute.into(),
            from: from.map(UntrustedText::from),
            to: to.map(UntrustedText::from),
            diff: None,
            secret: false,
        }
    }
}

/// The evaluation of one resource.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Assessment {
    pub verdict: StepVerdict,
    /// The reason as a lowercase fragment, also if nothing changes ("content, owner and mode match").
    pub reason: UntrustedText,
    pub changes: Vec<AttributeChange>,
    /// Disruption class of applying the changes.
    pub disruption: DisruptionClass,
    /// The compared attributes as observed, in canonical form. Its digest is the step's basis.
    pub basis: Value,
    /// Whether the verdict depends on the predicted effects of an earlier step.
    pub predicted: bool,
    /// Whether only a reboot makes it effective: a pending state, or the state after the change.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub by_reboot: bool,
    /// The container images that it runs, as far as they are known; those of a chart once it is rendered.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub images: Vec<String>,
    /// What the user should do next, for `blocked` and `unknown`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// The file that a change rewrites, if the new content is based on the observed one.
    #[serde(skip)]
    pub edit: Option<Box<FileEdit>>,
    /// API calls that make the change, in this order, for kinds of scope `cluster`.
    #[serde(skip)]
    pub calls: Vec<crate::kube::ClusterCall>,
}

/// New content based on the observed content. Steps of one script build on each other's edits.
#[derive(Clone, Debug, PartialEq)]
pub struct FileEdit {
    /// SHA-256 of the observed content; `None` if the file did not exist.
    pub old: Option<String>,
    pub body: String,
    /// The probe that it was evaluated from, and its reading after the change.
    pub probe: Probe,
    pub becomes: ProbeReading,
}

impl Assessment {
    pub fn ok(reason: impl Into<UntrustedText>, basis: Value) -> Self {
        Self {
            verdict: StepVerdict::Ok,
            reason: reason.into(),
            changes: Vec::new(),
            disruption: DisruptionClass::D0,
            basis,
            predicted: false,
            by_reboot: false,
            images: Vec::new(),
            hint: None,
            edit: None,
            calls: Vec::new(),
        }
    }

    pub fn change(
        reason: impl Into<UntrustedText>,
        changes: Vec<AttributeChange>,
        disruption: DisruptionClass,
        basis: Value,
    ) -> Self {
        Self { verdict: StepVerdict::Change, changes, disruption, ..Self::ok(reason, basis) }
    }

    /// Returns a judgement for a state that is configured, but not effective yet.
    pub fn pending(reason: impl Into<UntrustedText>, basis: Value) -> Self {
        Self { verdict: StepVerdict::Pending, ..Self::ok(reason, basis) }
    }

    /// Returns a judgement for a step that could not be evaluated.
    pub fn unknown(why: &crate::probe::UnansweredReason) -> Self {
        let said = why.said.as_ref().filter(|s| !s.is_empty()).map(|s| format!(": {}", s.raw().trim()));
        if why.barred {
            return Self::blocked(crate::model::BlockClass::Host, why.why.as_str(), Value::Null)
                .hint(crate::resource::shared::shell::UNSAFE_PATH_HINT);
        }
        Self {
            verdict: StepVerdict::Unknown,
            ..Self::ok(format!("{}{}", why.why, said.unwrap_or_default()), Value::Null)
        }
    }

    pub fn blocked(class: crate::model::BlockClass, reason: impl Into<UntrustedText>, basis: Value) -> Self {
        Self { verdict: StepVerdict::Blocked(class), ..Self::ok(reason, basis) }
    }

    /// Returns the judgement with every secret in its texts and values masked, because the state of a host may contain
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

    pub fn mark_predicted(mut self) -> Self {
        self.predicted = true;
        self
    }

    /// Marks the judgement as effective only after a reboot.
    pub fn mark_reboot_required(mut self) -> Self {
        self.by_reboot = true;
        self
    }

    pub fn edit(mut self, edit: FileEdit) -> Self {
        self.edit = Some(Box::new(edit));
        self
    }

    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
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
    /// The run's name for backups and units: `20261121T093015-4f2a`.
    pub run: &'a str,
    /// The host's key for digests of secret values (hex), if known.
    pub key: Option<&'a str>,
    /// Reveals placeholders for digests of secret content.
    pub secrets: Option<&'a crate::model::SecretStore>,
}

/// Predicted effects of earlier steps of the plan.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EarlierStepEffects {
    /// Things that will exist.
    pub will_exist: BTreeSet<ProvidedItem>,
    /// Paths that earlier steps will remove.
    pub will_go: BTreeSet<String>,
    /// Whether an earlier step may remove things that cannot be predicted: a package, a command.
    pub takes_more: bool,
    /// The name of an earlier step with changes that this one may depend on, if any. A command's check, for example,
    /// may then have another result.
    pub after: Option<String>,
    /// Recipes, on any host, with a step that will change and exports values.
    pub exporters: BTreeSet<String>,
}

impl EarlierStepEffects {
    /// Reports whether a step of `recipe` will produce its exports.
    pub fn will_export(&self, recipe: &str) -> bool {
        self.exporters.contains(recipe)
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
}

impl RestartInput {
    /// Returns every path whose ctime indicates a change, the trace last.
    pub fn watched_paths(&self) -> impl Iterator<Item = &str> {
        self.paths.iter().chain(&self.trace).map(String::as_str)
    }

    pub fn is_trace(&self, path: &str) -> bool {
        self.trace.as_deref() == Some(path)
    }
}

/// A file that the controller sends over the session.
#[derive(Clone, Debug)]
pub struct ArtifactDelivery {
    pub artifact: crate::artifact::Artifact,
    /// Prints size and SHA-256 of the partial file that an earlier attempt left on the host, `0 -` for none.
    pub part: ShellFragment,
    /// Reads the rest from descriptor 7, verifies the whole file and installs it. Reads `$FORGE_OFFSET` and
    /// `$FORGE_SIZE`.
    pub body: ShellFragment,
}

/// The commands of a change.
#[derive(Clone, Debug, Default)]
pub struct Action {
    /// Shell code of the change; exits with a non-zero code on failure.
    pub body: ShellFragment,
    /// Whether it runs as a transient unit on the host, with a log and reattachment.
    pub long: bool,
    /// Substrings of its output, each with a hint to print.
    pub explain: &'static [(&'static str, &'static str)],
}
