//! A saved plan: the plan, its inputs, and the answers of hosts that it was made from.
//!
//! Architecture Invariant: it contains no commands and no secrets. An apply of it reads the same inputs, plans again
//! from the same answers, and proceeds only if that gives the same plan.

use super::observed_hosts::ObservedHosts;
use super::recording::Recording;
use super::run_options::RunOptions;
use super::undo_request::UndoScope;
use crate::config::{ExpansionState, GeneratedRecipe, InputFile, Project, StepExpander, describe_changed_inputs};
use crate::model::{DisruptionClass, HostName};
use crate::plan::{self, HostContext, Plan, PlanCounts, PlanPolicy, RehearsalReport, digest_json};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// The format version of a saved plan. Version 1 is the bare plan of `--json-into` and of runs, which cannot be
/// applied.
pub const SAVED_PLAN_VERSION: u32 = 2;

/// The value of `result` in a saved plan.
pub const SAVED_PLAN_RESULT: &str = "saved-plan";

/// A plan saved for review and a later apply.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SavedPlan {
    /// The format version of this file.
    pub version: u32,
    /// `saved-plan`.
    pub result: String,
    /// The version of forge that made the plan, and that applies it.
    pub forge: String,
    /// Digest of everything else in this file. A host records it when the plan is applied there.
    pub digest: String,
    /// Who made the plan, and when.
    pub made: SavedPlanOrigin,
    /// The selection under which it was made. An apply uses the same.
    pub selection: SavedPlanSelection,
    /// The files that were read.
    pub inputs: Vec<InputFile>,
    /// The artifacts that its steps declare.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub artifacts: Vec<InputArtifact>,
    /// Hosts whose plan depends on their own secrets, which this file does not contain: only an observation of the
    /// hosts shows whether the plan is still the same.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub withheld: Vec<HostName>,
    /// Totals of `plan`.
    pub counts: PlanCounts,
    /// The changes and verifications of each host, as reviewed.
    pub plan: Plan,
    /// The rehearsal of this plan, if it was saved by `rehearse`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rehearsal: Option<RehearsalReport>,
    /// The hosts' answers.
    pub observed: Recording,
}

/// Who made a plan, and when.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SavedPlanOrigin {
    /// RFC 3339, UTC.
    pub time: String,
    /// The user who made it, or `uid N` if the environment did not name one.
    pub user: String,
    /// The host name of the machine that it was made on.
    pub controller: String,
    /// The recordings that it was made of, with `--observed`; absent if the hosts were contacted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub recordings: Vec<UsedRecording>,
}

/// A recording that a plan was made of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct UsedRecording {
    /// The path of its file.
    pub path: String,
    /// When it was saved. RFC 3339; empty if it does not say so.
    pub recorded: String,
}

/// The selection from the command line.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SavedPlanSelection {
    /// The hosts of `--on`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on: Option<String>,
    /// The patterns of `--step`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub step: Vec<String>,
    /// The patterns of `--skip`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub skip: Vec<String>,
    /// The run that the plan undoes; absent for other plans.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub undo: Option<UndoScope>,
    /// The class of `--max-disruption`: steps with a higher class are held. D3 allows everything.
    pub max_disruption: DisruptionClass,
}

/// An artifact declared by steps.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct InputArtifact {
    /// Its URL, or its path in the inventory's tree.
    pub name: String,
    /// In hex.
    pub sha256: String,
}

/// Why a plan of `--json-into` or of a run cannot be applied.
const UNBOUND_PLAN_REASON: &str = "it is a plan for display only: it does not contain its inputs";

/// Keys that distinguish a plan from an inventory. Their values are ignored: they may be large and are not validated
/// yet.
#[derive(Deserialize)]
struct SavedPlanKeys {
    result: Option<serde::de::IgnoredAny>,
    id: Option<serde::de::IgnoredAny>,
    forge: Option<serde::de::IgnoredAny>,
    cluster: Option<serde::de::IgnoredAny>,
}

/// The part that is read first, for the version.
#[derive(Deserialize)]
struct SavedPlanHeader {
    version: u32,
    #[serde(default)]
    result: String,
    /// Present in a bare plan.
    id: Option<String>,
}

impl SavedPlan {
    /// Builds a saved plan from a plan and its inputs. `again` is the plan that `recording` alone gives.
    pub fn new(
        project: &Project,
        plan: Plan,
        again: &Plan,
        observed: &ObservedHosts,
        recording: Recording,
        on: Option<&str>,
        options: &RunOptions,
    ) -> Self {
        let saved = Self {
            version: SAVED_PLAN_VERSION,
            result: SAVED_PLAN_RESULT.to_owned(),
            forge: env!("CARGO_PKG_VERSION").to_owned(),
            digest: String::new(),
            made: SavedPlanOrigin {
                time: (options.clock)().to_string(),
                user: options.user.clone(),
                controller: options.controller.clone(),
                recordings: Vec::new(),
            },
            selection: SavedPlanSelection::from_options(on, options),
            inputs: project.list_input_files(),
            artifacts: collect_artifacts(project, observed, options),
            withheld: list_differing_hosts(&plan, again),
            counts: plan.count_steps(),
            plan,
            rehearsal: None,
            observed: recording,
        };
        saved.with_digest()
    }

    /// Returns the saved plan with its digest.
    pub fn with_digest(self) -> Self {
        Self { digest: self.compute_digest(), ..self }
    }

    /// Returns the saved plan with the recordings that it was made of.
    pub fn with_recordings(self, recordings: Vec<UsedRecording>) -> Self {
        let made = SavedPlanOrigin { recordings, ..self.made };
        Self { made, ..self }.with_digest()
    }

    /// Returns the saved plan with the result of its rehearsal.
    pub fn with_rehearsal(self, report: &RehearsalReport) -> Self {
        Self { rehearsal: Some(report.clone()), ..self }.with_digest()
    }

    /// Returns whether a text is meant as a plan rather than an inventory, which has other keys.
    pub fn is_plan_text(text: &str) -> bool {
        if !text.trim_start().starts_with('{') {
            return false;
        }
        let Ok(keys) = serde_json::from_str::<SavedPlanKeys>(text) else { return false };
        keys.result.is_some() || (keys.id.is_some() && keys.forge.is_some() && keys.cluster.is_some())
    }

    /// Parses a saved plan. Later minor versions may contain more fields; only the format is checked here.
    ///
    /// # Errors
    /// The text is not a saved plan or has another version: a lowercase fragment.
    pub fn parse(text: &str) -> Result<Self, String> {
        let no = |error: serde_json::Error| format!("it is not a saved plan: {error}");
        let head: SavedPlanHeader = serde_json::from_str(text).map_err(no)?;
        match (head.result.as_str(), head.version) {
            (SAVED_PLAN_RESULT, SAVED_PLAN_VERSION) => serde_json::from_str(text).map_err(no),
            (SAVED_PLAN_RESULT, version) if version > SAVED_PLAN_VERSION => {
                Err(format!("it has version {version}; this forge supports up to version {SAVED_PLAN_VERSION}"))
            }
            ("plan", _) => Err(UNBOUND_PLAN_REASON.to_owned()),
            _ if head.id.is_some() => Err(UNBOUND_PLAN_REASON.to_owned()),
            _ => Err("it is not a saved plan".to_owned()),
        }
    }

    /// Returns whether the file is unaltered since it was written. This detects accidents only: an author of an
    /// alteration can recompute the digest. A signature and planning again detect that.
    pub fn is_unaltered(&self) -> bool {
        self.compute_digest() == self.digest
    }

    /// Destructured without `..`, so that a new field that is not covered does not compile.
    fn compute_digest(&self) -> String {
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
            rehearsal,
            observed,
        } = self;
        let head = (version, result, forge, made, selection);
        let body = (inputs, artifacts, withheld, counts, plan, observed);
        match rehearsal {
            None => digest_json(&(head, body)),
            Some(rehearsal) => digest_json(&(head, body, rehearsal)),
        }
    }

    /// Returns the policy under which the plan was made.
    pub fn policy(&self) -> PlanPolicy {
        PlanPolicy { max_disruption: self.selection.max_disruption, bases: true, ..PlanPolicy::default() }
    }

    /// Returns the differences between the plan's inputs and the current ones, as lowercase fragments. The recipes that
    /// forge itself wrote for an undo are not files: [`find_difference`](Self::find_difference) compares their steps.
    pub fn list_changed_inputs(&self, project: &Project) -> Vec<String> {
        let now = env!("CARGO_PKG_VERSION");
        let forge = (self.forge != now).then(|| format!("made by forge {}, this is forge {now}", self.forge));
        let is_file = |file: &&InputFile| !(project.generated && GeneratedRecipe::is_shown_path(&file.path));
        let then: Vec<InputFile> = self.inputs.iter().filter(is_file).cloned().collect();
        let now: Vec<InputFile> = project.list_input_files().iter().filter(is_file).cloned().collect();
        forge.into_iter().chain(describe_changed_inputs(&then, &now)).collect()
    }

    /// Returns the differences to the currently declared artifacts, as lowercase fragments. `observed` contains the
    /// plan's own answers.
    pub fn list_changed_artifacts(
        &self,
        project: &Project,
        observed: &ObservedHosts,
        options: &RunOptions,
    ) -> Vec<String> {
        let now = collect_artifacts(project, observed, options);
        let gone = self.artifacts.iter().filter(|one| !now.contains(one));
        gone.map(|one| match now.iter().find(|other| other.name == one.name) {
            Some(other) => format!("artifact `{}`: sha256 changed from {} to {}", one.name, one.sha256, other.sha256),
            None => format!("artifact `{}` is no longer declared", one.name),
        })
        .collect()
    }

    /// Returns how the plan made now from the same answers differs, if it does.
    pub fn find_difference(&self, again: &Plan) -> Option<String> {
        plan::find_difference(&self.plan, again, &self.withheld.iter().cloned().collect())
            .or_else(|| (self.counts != self.plan.count_steps()).then(|| "the counts differ".to_owned()))
    }
}

impl SavedPlanSelection {
    fn from_options(on: Option<&str>, options: &RunOptions) -> Self {
        let (step, skip) = options.filter.written_patterns();
        let undo = options.undo.as_ref().map(|undo| undo.scope.clone());
        Self { on: on.map(str::to_owned), step, skip, undo, max_disruption: options.policy.max_disruption }
    }
}

/// Returns the hosts for which a recording does not give the same plan.
fn list_differing_hosts(plan: &Plan, again: &Plan) -> Vec<HostName> {
    // Both contain the same hosts, in the order of the inventory.
    let differ = plan.hosts.iter().zip(&again.hosts).filter(|(host, other)| host != other);
    differ.map(|(host, _)| host.host.clone()).collect()
}

/// Collects the artifacts declared by the steps of all hosts.
fn collect_artifacts(project: &Project, observed: &ObservedHosts, options: &RunOptions) -> Vec<InputArtifact> {
    let expander = StepExpander::new(project);
    let ground = observed.plan_context(project, &expander, options);
    let mut found = BTreeSet::new();
    for seen in &observed.seen {
        let Some(case) = HostContext::new(ground, &seen.host, seen) else { continue };
        for turn in case.expand_local_steps() {
            let ExpansionState::Resource(resource) = &turn.expanded.state else { continue };
            found.extend(resource.artifact().map(|artifact| InputArtifact {
                name: artifact.source.lock_entry_name(project.inventory_root()),
                sha256: artifact.sha256.to_string(),
            }));
        }
    }
    found.into_iter().collect()
}
