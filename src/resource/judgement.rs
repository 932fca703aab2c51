//! What a judge says, and what an actor renders.

use crate::model::{Disruption, Untrusted, Value, Verdict};
use crate::probe::{Probe, Reading};
use crate::script::Fragment;
use compact_str::CompactString;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

use super::Provision;

/// One attribute that differs.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub struct Change {
    /// `content`, `mode`, `version`, `enabled` …
    #[schemars(with = "String")]
    pub attribute: CompactString,
    /// What was seen, `None` for nothing there (or secret).
    pub from: Option<Untrusted>,
    /// What is desired, `None` for removal (or secret).
    pub to: Option<Untrusted>,
    /// A unified diff of a body, without file headers; empty when `from` and `to` say it all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub diff: Option<Untrusted>,
    /// Whether the values are withheld because they are secret.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub secret: bool,
}

impl Change {
    pub fn new(attribute: &str, from: Option<&str>, to: Option<&str>) -> Self {
        Self {
            attribute: attribute.into(),
            from: from.map(Untrusted::from),
            to: to.map(Untrusted::from),
            diff: None,
            secret: false,
        }
    }
}

/// What a judge says of one resource.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Judgement {
    pub verdict: Verdict,
    /// Why, as a lowercase fragment; also for a no-op ("content, owner and mode are as declared").
    pub reason: Untrusted,
    pub changes: Vec<Change>,
    /// Of carrying the changes out.
    pub disruption: Disruption,
    /// The judged attributes as they were seen, in canonical form. Its digest is the step's basis.
    pub basis: Value,
    /// Whether the verdict rests on what an earlier step is going to bring about.
    pub predicted: bool,
    /// Whether only a reboot brings it into force: what is pending, or what is once the change is made.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub by_reboot: bool,
    /// The container images that it runs, as far as they are known: of a chart once it was rendered.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub images: Vec<String>,
    /// What to do about it next, for `blocked` and `unknown`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// The file that a change rewrites, where it is made from the one that was seen.
    #[serde(skip)]
    pub edit: Option<Box<Edit>>,
    /// What brings it about through the cluster's API, for kinds of scope `cluster`: in this order.
    #[serde(skip)]
    pub calls: Vec<crate::kube::Call>,
}

/// A new body that was made from the one that was seen. Steps of one script build on each other's.
#[derive(Clone, Debug, PartialEq)]
pub struct Edit {
    /// SHA-256 of the body that was seen; `None` when there was no file.
    pub old: Option<String>,
    pub body: String,
    /// The question that it was judged from, and its answer once the change is made.
    pub probe: Probe,
    pub becomes: Reading,
}

impl Judgement {
    pub fn ok(reason: impl Into<Untrusted>, basis: Value) -> Self {
        Self {
            verdict: Verdict::Ok,
            reason: reason.into(),
            changes: Vec::new(),
            disruption: Disruption::D0,
            basis,
            predicted: false,
            by_reboot: false,
            images: Vec::new(),
            hint: None,
            edit: None,
            calls: Vec::new(),
        }
    }

    pub fn change(reason: impl Into<Untrusted>, changes: Vec<Change>, disruption: Disruption, basis: Value) -> Self {
        Self { verdict: Verdict::Change, changes, disruption, ..Self::ok(reason, basis) }
    }

    /// What is configured and waits to come into force.
    pub fn pending(reason: impl Into<Untrusted>, basis: Value) -> Self {
        Self { verdict: Verdict::Pending, ..Self::ok(reason, basis) }
    }

    /// A step that could not be judged.
    pub fn unknown(why: &crate::probe::Unknown) -> Self {
        let said = why.said.as_ref().filter(|s| !s.is_empty()).map(|s| format!(": {}", s.raw().trim()));
        if why.barred {
            return Self::blocked(crate::model::BlockClass::Host, why.why.as_str(), Value::Null)
                .hint(super::shell::ELSEWHERE);
        }
        Self { verdict: Verdict::Unknown, ..Self::ok(format!("{}{}", why.why, said.unwrap_or_default()), Value::Null) }
    }

    pub fn blocked(class: crate::model::BlockClass, reason: impl Into<Untrusted>, basis: Value) -> Self {
        Self { verdict: Verdict::Blocked(class), ..Self::ok(reason, basis) }
    }

    /// Returns the judgement with every secret in its words and values masked: what a host holds may well be
    /// the secret itself.
    pub fn scrubbed(mut self, secrets: &crate::model::SecretStore) -> Self {
        if secrets.is_empty() {
            return self;
        }
        let scrub = |text: &mut Untrusted| *text = secrets.scrub(text.raw()).into();
        scrub(&mut self.reason);
        for change in &mut self.changes {
            [&mut change.from, &mut change.to, &mut change.diff].into_iter().flatten().for_each(scrub);
        }
        self
    }

    pub fn predicted(mut self) -> Self {
        self.predicted = true;
        self
    }

    /// Says that only a reboot brings it into force.
    pub fn by_reboot(mut self) -> Self {
        self.by_reboot = true;
        self
    }

    pub fn edit(mut self, edit: Edit) -> Self {
        self.edit = Some(Box::new(edit));
        self
    }

    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

/// What a judge may know beside the observation.
#[derive(Clone, Debug, Default)]
pub struct Context<'a> {
    /// What earlier steps with the verdict `change` will bring into being.
    pub predicted: Option<&'a Predicted>,
    /// The record of the last verified apply of this very step on this host, as JSON.
    pub record: Option<&'a Value>,
    /// For services: the inputs that its `restart_on` names.
    pub inputs: &'a [Input],
    /// Names the run for backups and units: `20261121T093015-4f2a`.
    pub run: &'a str,
    /// The host's key for digests of secret values (hex), when known.
    pub key: Option<&'a str>,
    /// Reveals placeholders for digests of secret bodies.
    pub secrets: Option<&'a crate::model::SecretStore>,
}

/// What earlier steps of the plan will bring into being or change.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Predicted {
    /// Things that will exist.
    pub will_exist: BTreeSet<Provision>,
    /// Paths that earlier steps are going to remove.
    pub will_go: BTreeSet<String>,
    /// Whether some earlier step may remove what cannot be named before: a package, a command.
    pub takes_more: bool,
    /// Whether some earlier step that this one may depend on has changes (for commands: their check may
    /// answer differently then). Holds the step's name.
    pub after: Option<String>,
    /// Recipes, on any host, with a step that is going to change and exports values.
    pub exporters: BTreeSet<String>,
}

impl Predicted {
    /// Returns whether a step of `recipe` is going to make its exports.
    pub fn will_export(&self, recipe: &str) -> bool {
        self.exporters.contains(recipe)
    }
}

/// One thing a service's running state depends on.
#[derive(Clone, Debug, PartialEq)]
pub struct Input {
    /// The step in `restart_on`, as `recipe/step`.
    pub step: String,
    /// Paths whose ctime counts, each of which is among the service's probes.
    pub paths: Vec<String>,
    /// File that is touched before the step is applied, where its own paths may not tell that it was.
    pub trace: Option<String>,
    /// Digest of what the step declares.
    pub digest: String,
    /// Whether the plan changes this input.
    pub changing: bool,
}

impl Input {
    /// Returns every path whose ctime tells of a change, the trace last.
    pub fn watched(&self) -> impl Iterator<Item = &str> {
        self.paths.iter().chain(&self.trace).map(String::as_str)
    }

    pub fn is_trace(&self, path: &str) -> bool {
        self.trace.as_deref() == Some(path)
    }
}

/// A file that the controller sends over the session.
#[derive(Clone, Debug)]
pub struct Delivery {
    pub artifact: crate::artifact::Artifact,
    /// Prints how many bytes of it an earlier try left on the host, and their SHA-256: `0 -` for none.
    pub part: Fragment,
    /// Takes the rest from descriptor 7, checks the whole and puts it in place. Reads `$FORGE_OFFSET` and `$FORGE_SIZE`.
    pub body: Fragment,
}

/// The commands of a change.
#[derive(Clone, Debug, Default)]
pub struct Action {
    /// Shell that carries it out; ends with a non-zero status on failure.
    pub body: Fragment,
    /// Whether it runs as a transient unit on the host, with log and reattachment.
    pub long: bool,
    /// What texts in its output mean: a substring and the hint to print with it.
    pub explain: &'static [(&'static str, &'static str)],
}
