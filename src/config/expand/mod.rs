//! From a step as written to resources on one host: `when`, `each`, templates, types.

mod info;
mod judged;
mod local;
mod names;
mod turn;

use super::render::Renderer;
use super::statics;
use super::template::{Bindings, Form};
use super::{FactSource, Host, Instance, Need, Project, Rule, Step, Verify, scalar};
use crate::diag::Diag;
use crate::model::{StepId, Value};
use crate::probe::ObjectsAsked;
use crate::resource::Resource;
use info::{Info, Infos};
use names::Names;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, OnceLock, RwLock};

pub(super) use local::template_text;

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
    /// Digest of what the resource declares as an input of services, once somebody asked. One that holds a secret
    /// has none: its digest depends on the host.
    pub(crate) input_digest: OnceLock<String>,
}

impl Expanded {
    fn new(id: StepId, state: State, reads: BTreeSet<String>, absent: bool) -> Self {
        Self { id, state, reads, absent, input_digest: OnceLock::new() }
    }
}

/// One of several turns that hosts may share.
#[derive(Clone, Debug)]
pub struct SharedTurn {
    all: Arc<[Expanded]>,
    at: usize,
}

impl SharedTurn {
    /// Returns each of `all`, in order.
    pub fn each(all: &Arc<[Expanded]>) -> impl DoubleEndedIterator<Item = Self> + '_ {
        (0..all.len()).map(|at| Self { all: all.clone(), at })
    }
}

impl std::ops::Deref for SharedTurn {
    type Target = Expanded;

    fn deref(&self) -> &Expanded {
        &self.all[self.at]
    }
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
    Holds {
        reads: BTreeSet<String>,
    },
    Fails {
        reads: BTreeSet<String>,
        /// The values that matter, as the author shows them, or the name that is not there.
        shown: Option<String>,
    },
    /// Cannot be told: why.
    Unknown {
        why: String,
        need: Option<Need>,
    },
    /// A `verify` with `check`: the rendered command must exit 0.
    Check {
        script: String,
    },
}

/// Turns by identity of the instance and the step.
type Shared = HashMap<(usize, usize), Arc<[Expanded]>>;

/// Expands steps of one project; compiles each template once and shares what does not differ between
/// hosts. Cheap to call for every step of every host.
pub struct Expander<'p> {
    names: Names<'p>,
    infos: Infos,
    shared: RwLock<Shared>,
}

impl std::fmt::Debug for Expander<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Expander").finish_non_exhaustive()
    }
}

impl<'p> Expander<'p> {
    pub fn new(project: &'p Project) -> Self {
        Self { names: Names::new(project), infos: Infos::default(), shared: RwLock::default() }
    }

    /// Returns the turns of `step` on `host`: one, or one per item of its `each`.
    pub fn expand(
        &self,
        host: &Host,
        instance: &Arc<Instance>,
        step: &Arc<Step>,
        known: &Known<'_>,
    ) -> Arc<[Expanded]> {
        let info = self.infos.step(self.names.project, &instance.recipe, step);
        if info.reads.host_bound() {
            return self.turns(host, instance, step, &info, known);
        }
        // Equal on every host that shares the instance; both live as long as the project.
        let key = (Arc::as_ptr(instance) as usize, Arc::as_ptr(step) as usize);
        if let Some(turns) = self.shared.read().ok().and_then(|shared| shared.get(&key).cloned()) {
            return turns;
        }
        let turns = self.turns(host, instance, step, &info, known);
        if let Ok(mut shared) = self.shared.write() {
            shared.insert(key, turns.clone());
        }
        turns
    }

    /// Returns whether what a step comes to is the same on every host that shares the instance.
    pub(super) fn is_shared(&self, instance: &Instance, step: &Arc<Step>) -> bool {
        !self.infos.step(self.names.project, &instance.recipe, step).reads.host_bound()
    }

    fn turns(
        &self,
        host: &Host,
        instance: &Arc<Instance>,
        step: &Arc<Step>,
        info: &Info,
        known: &Known<'_>,
    ) -> Arc<[Expanded]> {
        let bindings = self.names.bindings(host, instance, &info.reads, known);
        turn::expand(self.names.project, instance, step, info, &bindings).into()
    }

    /// Judges a rule of the instance's recipe on `host`.
    pub fn rule(&self, host: &Host, instance: &Arc<Instance>, rule: &Rule, known: &Known<'_>) -> Judged {
        self.judge_rule(host, instance, rule, known).0
    }

    /// Judges a rule, with the mistakes of its expressions.
    pub(super) fn judge_rule(
        &self,
        host: &Host,
        instance: &Arc<Instance>,
        rule: &Rule,
        known: &Known<'_>,
    ) -> (Judged, Vec<Diag>) {
        let exprs = || rule.when.iter().chain([&rule.require]).map(|expr| (expr.source.as_str(), Form::Expression));
        let reads = self.infos.reads(rule, || info::reads(self.names.project, exprs()));
        let bindings = self.names.bindings(host, instance, &reads, known);
        judged::rule(self.names.project, rule, &bindings)
    }

    /// Judges a `verify` entry: a `check` comes back rendered, for the caller to run. One that is about objects is judged by
    /// [`verify_found`](Self::verify_found).
    pub fn verify(&self, host: &Host, instance: &Arc<Instance>, verify: &Verify, known: &Known<'_>) -> Judged {
        if instance.absent {
            return Judged::NotApplicable;
        }
        judged::verify(self.names.project, verify, &self.of_verify(host, instance, verify, known))
    }

    /// Returns the objects that a `verify` entry is about, if it is about any.
    ///
    /// # Errors
    /// It is judged without them: it does not apply, or it cannot be told which ones are meant.
    pub fn about(
        &self,
        host: &Host,
        instance: &Arc<Instance>,
        verify: &Verify,
        known: &Known<'_>,
    ) -> Option<Result<ObjectsAsked, Judged>> {
        let about = verify.about.as_ref()?;
        if instance.absent {
            return Some(Err(Judged::NotApplicable));
        }
        let bindings = self.of_verify(host, instance, verify, known);
        Some(judged::asked(self.names.project, &verify.when, about, &bindings))
    }

    /// Judges a `verify` entry by the objects that were found.
    pub fn verify_found(
        &self,
        host: &Host,
        instance: &Arc<Instance>,
        verify: &Verify,
        known: &Known<'_>,
        found: &[Value],
    ) -> Judged {
        let bindings = self.of_verify(host, instance, verify, known);
        judged::found(self.names.project, verify, bindings, found)
    }

    fn of_verify(&self, host: &Host, instance: &Arc<Instance>, verify: &Verify, known: &Known<'_>) -> Bindings {
        let reads = self.infos.reads(verify, || {
            let texts = statics::texts_of_verify(verify);
            info::reads(self.names.project, texts.iter().map(|(text, form, _)| (*text, *form)))
        });
        self.names.bindings(host, instance, &reads, known)
    }

    /// Judges the `effective` part of a step the same way.
    pub fn effective(
        &self,
        host: &Host,
        instance: &Arc<Instance>,
        step: &Arc<Step>,
        turn: &StepId,
        known: &Known<'_>,
    ) -> Judged {
        let Some(effective) = step.effective.as_ref().filter(|_| !instance.absent) else {
            return Judged::NotApplicable;
        };
        let info = self.infos.step(self.names.project, &instance.recipe, step);
        let bindings = self.names.bindings(host, instance, &info.reads, known);
        let bindings = turn::of_key(self.names.project, step, turn, bindings);
        judged::judge(self.names.project, &None, &effective.expect, &effective.check, &bindings)
    }

    /// Renders the fields of a step's turn as they were written, for people: what is not known yet is null.
    pub(super) fn fields(
        &self,
        host: &Host,
        instance: &Arc<Instance>,
        step: &Arc<Step>,
        turn: &StepId,
        known: &Known<'_>,
    ) -> Value {
        let project = self.names.project;
        let info = self.infos.step(project, &instance.recipe, step);
        let bindings = self.names.bindings(host, instance, &info.reads, known);
        let bindings = turn::of_key(project, step, turn, bindings);
        scalar::value(&Renderer::new(&project.programs, &project.sources, &bindings).tree(&step.body))
    }

    /// Renders the `read` command of an export of a step's turn.
    ///
    /// # Errors
    /// What it waits for.
    pub fn export_read(
        &self,
        host: &Host,
        instance: &Arc<Instance>,
        read: &str,
        known: &Known<'_>,
    ) -> Result<String, Need> {
        let reads = info::reads(self.names.project, [(read, Form::Template)]);
        let bindings = self.names.bindings(host, instance, &reads, known);
        judged::text(self.names.project, read, &bindings)
    }
}
