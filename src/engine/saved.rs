//! A plan that is kept: the plan, what it was made from, and the answers of the hosts that it was made from.
//!
//! Architecture Invariant: it carries no commands and no secrets. Whoever carries it out reads the same inputs, plans
//! again from the same answers, and goes on only if that gives the same plan.

use super::observe::Observed;
use super::recording::Recording;
use super::run::Options;
use crate::config::{Expander, InputFile, Project, State, changed_inputs};
use crate::model::{Disruption, HostName};
use crate::plan::{self, Case, Counts, Plan, Policy, digest_of};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// The form of a saved plan. 1 is the bare plan of `--json-into` and of runs, which is shown and not carried out.
pub const SAVED_VERSION: u32 = 2;

/// What `result` says in a saved plan.
pub const SAVED: &str = "saved-plan";

/// A plan that is kept for a review and carried out later.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SavedPlan {
    /// Of the form of this file.
    pub version: u32,
    /// `saved-plan`.
    pub result: String,
    /// The version of forge that made it, and that carries it out.
    pub forge: String,
    /// Over everything else: what a host remembers of the plan once it ran there.
    pub digest: String,
    pub made: Made,
    pub selection: Selection,
    /// The files that were read.
    pub inputs: Vec<InputFile>,
    /// The artifacts that its steps declare.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub artifacts: Vec<InputArtifact>,
    /// Hosts whose plan rests on secrets of theirs, which are not in here: only the hosts can tell whether it is the
    /// same plan.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub withheld: Vec<HostName>,
    pub counts: Counts,
    pub plan: Plan,
    /// What the hosts answered.
    pub observed: Recording,
}

/// Who made a plan, and when.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Made {
    /// RFC 3339, UTC.
    pub time: String,
    pub user: String,
    pub controller: String,
}

/// What was asked for on the command line.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Selection {
    /// The hosts of `--on`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on: Option<String>,
    /// The patterns of `--step`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub step: Vec<String>,
    /// The patterns of `--skip`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub skip: Vec<String>,
    pub max_disruption: Disruption,
}

/// An artifact that steps declare.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct InputArtifact {
    /// Its URL, or its path in the inventory's tree.
    pub name: String,
    /// In hex.
    pub sha256: String,
}

/// Why a plan of `--json-into`, or of a run, is not carried out.
const NOT_BOUND: &str = "it is a plan to be read only: it does not hold what it was made from";

/// Keys that tell a plan from an inventory. What they hold is not kept: it may be large, and is not known to be a plan.
#[derive(Deserialize)]
struct Keys {
    result: Option<serde::de::IgnoredAny>,
    id: Option<serde::de::IgnoredAny>,
    forge: Option<serde::de::IgnoredAny>,
    cluster: Option<serde::de::IgnoredAny>,
}

/// What the version is read from before the rest is.
#[derive(Deserialize)]
struct Head {
    version: u32,
    #[serde(default)]
    result: String,
    /// Of a bare plan.
    id: Option<String>,
}

impl SavedPlan {
    /// Builds from a plan and what it was made from. `again` is the plan that `recording` alone gives.
    pub fn new(
        project: &Project,
        plan: Plan,
        again: &Plan,
        observed: &Observed,
        recording: Recording,
        on: Option<&str>,
        options: &Options,
    ) -> Self {
        let saved = Self {
            version: SAVED_VERSION,
            result: SAVED.to_owned(),
            forge: env!("CARGO_PKG_VERSION").to_owned(),
            digest: String::new(),
            made: Made {
                time: (options.clock)().to_string(),
                user: options.user.clone(),
                controller: options.controller.clone(),
            },
            selection: Selection::of(on, options),
            inputs: project.inputs(),
            artifacts: artifacts(project, observed, options),
            withheld: apart(&plan, again),
            counts: plan.counts(),
            plan,
            observed: recording,
        };
        saved.sealed()
    }

    /// Returns the same with the digest that fits.
    pub fn sealed(self) -> Self {
        Self { digest: self.own_digest(), ..self }
    }

    /// Returns whether a text is meant to be a plan, not an inventory: an inventory has other keys.
    pub fn is_meant(text: &str) -> bool {
        if !text.trim_start().starts_with('{') {
            return false;
        }
        let Ok(keys) = serde_json::from_str::<Keys>(text) else { return false };
        keys.result.is_some() || (keys.id.is_some() && keys.forge.is_some() && keys.cluster.is_some())
    }

    /// Reads a saved plan. Later minor forms may hold more; nothing of it is checked here but its form.
    ///
    /// # Errors
    /// It is none, or one of another form: a lowercase fragment.
    pub fn parse(text: &str) -> Result<Self, String> {
        let no = |error: serde_json::Error| format!("it is not a saved plan: {error}");
        let head: Head = serde_json::from_str(text).map_err(no)?;
        match (head.result.as_str(), head.version) {
            (SAVED, SAVED_VERSION) => serde_json::from_str(text).map_err(no),
            (SAVED, version) if version > SAVED_VERSION => {
                Err(format!("it is of version {version}, and this forge reads up to version {SAVED_VERSION}"))
            }
            ("plan", _) => Err(NOT_BOUND.to_owned()),
            _ if head.id.is_some() => Err(NOT_BOUND.to_owned()),
            _ => Err("it is not a saved plan".to_owned()),
        }
    }

    /// Returns whether nothing in it was altered since it was written. Somebody who alters it can make this hold again:
    /// only a signature, and planning again, tell then.
    pub fn is_whole(&self) -> bool {
        self.own_digest() == self.digest
    }

    /// Taken apart without `..`: a field that is added and not covered does not compile.
    fn own_digest(&self) -> String {
        let Self {
            version,
            result,
            forge,
            digest: _,
            made,
            selection,
            inputs,
            artifacts,
            withheld,
            counts,
            plan,
            observed,
        } = self;
        digest_of(&((version, result, forge, made, selection), (inputs, artifacts, withheld, counts, plan, observed)))
    }

    /// Returns the policy that it was made under.
    pub fn policy(&self) -> Policy {
        Policy { max_disruption: self.selection.max_disruption, bases: true }
    }

    /// Returns what differs between what it was made from and what is there now, as lowercase fragments.
    pub fn changed_inputs(&self, project: &Project) -> Vec<String> {
        let now = env!("CARGO_PKG_VERSION");
        let forge = (self.forge != now).then(|| format!("forge {} made the plan, this is forge {now}", self.forge));
        forge.into_iter().chain(changed_inputs(&self.inputs, &project.inputs())).collect()
    }

    /// Returns what differs from the artifacts that are declared now, as lowercase fragments. `observed` holds the
    /// plan's own answers.
    pub fn changed_artifacts(&self, project: &Project, observed: &Observed, options: &Options) -> Vec<String> {
        let now = artifacts(project, observed, options);
        let gone = self.artifacts.iter().filter(|one| !now.contains(one));
        gone.map(|one| match now.iter().find(|other| other.name == one.name) {
            Some(other) => format!("the artifact `{}` had sha256 {} and has {}", one.name, one.sha256, other.sha256),
            None => format!("the artifact `{}` is not declared any more", one.name),
        })
        .collect()
    }

    /// Returns in what the plan that is made now of the same answers differs, if it does.
    pub fn difference(&self, again: &Plan) -> Option<String> {
        plan::difference(&self.plan, again, &self.withheld.iter().cloned().collect())
            .or_else(|| (self.counts != self.plan.counts()).then(|| "its counts differ".to_owned()))
    }
}

impl Selection {
    fn of(on: Option<&str>, options: &Options) -> Self {
        let (step, skip) = options.filter.patterns();
        Self { on: on.map(str::to_owned), step, skip, max_disruption: options.policy.max_disruption }
    }
}

/// Returns the hosts of which a recording does not give the same plan.
fn apart(plan: &Plan, again: &Plan) -> Vec<HostName> {
    // Both are about the same hosts, in the order of the inventory.
    let differ = plan.hosts.iter().zip(&again.hosts).filter(|(host, other)| host != other);
    differ.map(|(host, _)| host.host.clone()).collect()
}

/// Collects what the steps of all hosts declare.
fn artifacts(project: &Project, observed: &Observed, options: &Options) -> Vec<InputArtifact> {
    let expander = Expander::new(project);
    let ground = observed.ground(project, &expander, options);
    let mut found = BTreeSet::new();
    for seen in &observed.seen {
        let Some(case) = Case::new(ground, &seen.host, seen) else { continue };
        for turn in case.turns() {
            let State::Resource(resource) = &turn.expanded.state else { continue };
            found.extend(resource.artifact().map(|artifact| InputArtifact {
                name: artifact.source.name_in(project.root()),
                sha256: artifact.sha256.to_string(),
            }));
        }
    }
    found.into_iter().collect()
}
