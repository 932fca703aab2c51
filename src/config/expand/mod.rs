//! From a step as written to resources on one host: `when`, `each`, templates, types.

use super::{FactSource, Host, Instance, Need, Project, Recipe, Rule, Step, Verify};
use crate::diag::Diag;
use crate::model::{StepId, Value};
use crate::resource::Resource;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Exported values by recipe and name; `None` while unmade.
pub type Exports = BTreeMap<String, BTreeMap<String, Option<Value>>>;

/// What is known of a host at the time of an expansion.
#[derive(Clone, Copy, Debug)]
pub struct Known<'a> {
    pub facts: FactSource<'a>,
    pub exports: &'a Exports,
}

/// One turn of a step on one host.
#[derive(Clone, Debug)]
pub struct Expanded {
    pub id: StepId,
    pub state: State,
    /// Paths of facts that were read (`os.id`): part of the step's basis.
    pub reads: BTreeSet<String>,
    /// Whether the resource is to be removed.
    pub absent: bool,
}

/// What a step came to.
#[derive(Clone, Debug)]
pub enum State {
    Resource(Arc<dyn Resource>),
    /// `when` is false, or `each` is empty: why, as a lowercase fragment.
    NotApplicable(String),
    /// Waits for facts or an export.
    Deferred(Deferred),
    /// A value does not fit its field, with places in recipe and inventory.
    Invalid(Vec<Diag>),
}

/// A step that cannot be built yet.
#[derive(Clone, Debug)]
pub struct Deferred {
    pub need: Need,
    pub kind: &'static str,
    /// What it is about, as far as it is known: the path of a file whose content waits.
    pub title: Option<String>,
    /// Fields that wait; empty when `when` or `each` itself does.
    pub fields: Vec<String>,
}

/// What a rule or an expectation came to on one host.
#[derive(Clone, Debug, PartialEq)]
pub enum Judged {
    /// `when` is false.
    NotApplicable,
    Holds { reads: BTreeSet<String> },
    Fails { reads: BTreeSet<String> },
    /// Cannot be told: why.
    Unknown { why: String, need: Option<Need> },
    /// A `verify` with `check`: the rendered command must exit 0.
    Check { script: String },
}

/// Expands steps of one project; compiles each template once and shares what does not differ between
/// hosts. Cheap to call for every step of every host.
#[derive(Debug)]
pub struct Expander<'p> {
    _project: &'p Project,
}

impl<'p> Expander<'p> {
    pub fn new(project: &'p Project) -> Self {
        Self { _project: project }
    }

    /// Returns the turns of `step` on `host`: one, or one per item of its `each`.
    pub fn expand(&self, _host: &Host, _instance: &Arc<Instance>, _step: &Arc<Step>, _known: &Known<'_>) -> Arc<[Expanded]> {
        todo!("next commit")
    }

    /// Judges a rule of the instance's recipe on `host`.
    pub fn rule(&self, _host: &Host, _instance: &Arc<Instance>, _rule: &Rule, _known: &Known<'_>) -> Judged {
        todo!("next commit")
    }

    /// Judges a `verify` entry: a `check` comes back rendered, for the caller to run.
    pub fn verify(&self, _host: &Host, _instance: &Arc<Instance>, _verify: &Verify, _known: &Known<'_>) -> Judged {
        todo!("next commit")
    }

    /// Judges the `effective` part of a step the same way.
    pub fn effective(&self, _host: &Host, _instance: &Arc<Instance>, _step: &Arc<Step>, _turn: &StepId, _known: &Known<'_>) -> Judged {
        let _: Option<&Recipe> = None;
        todo!("next commit")
    }

    /// Renders the `read` command of an export of a step's turn.
    pub fn export_read(&self, _host: &Host, _instance: &Arc<Instance>, _read: &str, _known: &Known<'_>) -> Result<String, Need> {
        todo!("next commit")
    }
}
