//! Expands a declared step into resources on one host: evaluates `when` and `each`, renders templates, checks types.

mod bindings;
mod conditions;
mod expanded_step;
mod recipe_files;
mod step_expansion;
mod template_reads;

use super::template::{EvalOutcome, TemplateBindings, TemplateForm};
use super::tree_render::TreeRenderer;
use super::{
    Host, PendingInput, Project, RecipeInstance, RecipeRule, RecipeStep, RecipeVerification, SourceExpr, scalar,
    template_list,
};
use crate::diag::Diag;
use crate::model::{StepId, Value};
use crate::probe::ObjectsQuery;

use bindings::BindingsBuilder;
use hashbrown::HashMap;
use std::sync::{Arc, RwLock};
use template_reads::{StepTemplateCache, StepTemplateInfo, TemplateReads};

pub(in crate::config) use expanded_step::ClaimKey;
pub use expanded_step::{
    ConditionOutcome, DeferredStep, ExpandedStep, ExpansionInputs, ExpansionState, InapplicableReason,
    SharedExpandedStep,
};
pub(super) use recipe_files::read_template_file;

/// Expanded steps by the addresses of the instance and the step.
type SharedExpansions = HashMap<(usize, usize), Arc<[ExpandedStep]>>;

/// Results of verifications by the addresses of the instance and the verification.
type SharedConditions = HashMap<(usize, usize), ConditionOutcome>;

/// Expands the steps of one project. Compiles each template once and shares results that are equal on several hosts, so
/// it is cheap to call for every step of every host.
pub struct StepExpander<'p> {
    names: BindingsBuilder<'p>,
    infos: StepTemplateCache,
    shared: RwLock<SharedExpansions>,
    verified: RwLock<SharedConditions>,
}

impl std::fmt::Debug for StepExpander<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Expander").finish_non_exhaustive()
    }
}

impl<'p> StepExpander<'p> {
    /// Returns an expander without cached results.
    pub fn new(project: &'p Project) -> Self {
        Self {
            names: BindingsBuilder::new(project),
            infos: StepTemplateCache::default(),
            shared: RwLock::default(),
            verified: RwLock::default(),
        }
    }

    /// Returns the instances of `step` on `host`: one, or one per item of its `each`.
    pub fn expand_step(
        &self,
        host: &Host,
        instance: &Arc<RecipeInstance>,
        step: &Arc<RecipeStep>,
        known: &ExpansionInputs<'_>,
    ) -> Arc<[ExpandedStep]> {
        let info = self.infos.get_step_info(self.names.project, &instance.recipe, step);
        if info.reads.is_host_bound() {
            return self.expand_unshared(host, instance, step, &info, known);
        }
        // Equal on every host that shares the instance. The addresses stay valid: both live as long as the project.
        let key = (Arc::as_ptr(instance) as usize, Arc::as_ptr(step) as usize);
        if let Some(turns) = self.shared.read().ok().and_then(|shared| shared.get(&key).cloned()) {
            return turns;
        }
        let turns = self.expand_unshared(host, instance, step, &info, known);
        if let Ok(mut shared) = self.shared.write() {
            shared.insert(key, turns.clone());
        }
        turns
    }

    /// Reports whether a step expands to the same result on every host that shares the instance.
    pub(super) fn is_shared(&self, instance: &RecipeInstance, step: &Arc<RecipeStep>) -> bool {
        !self.infos.get_step_info(self.names.project, &instance.recipe, step).reads.is_host_bound()
    }

    fn expand_unshared(
        &self,
        host: &Host,
        instance: &Arc<RecipeInstance>,
        step: &Arc<RecipeStep>,
        info: &StepTemplateInfo,
        known: &ExpansionInputs<'_>,
    ) -> Arc<[ExpandedStep]> {
        let bindings = self.names.build_bindings(host, instance, &info.reads, known);
        step_expansion::expand_step(self.names.project, instance, step, info, &bindings).into()
    }

    /// Evaluates a rule of the instance's recipe on `host`.
    pub fn evaluate_rule(
        &self,
        host: &Host,
        instance: &Arc<RecipeInstance>,
        rule: &RecipeRule,
        known: &ExpansionInputs<'_>,
    ) -> ConditionOutcome {
        self.evaluate_rule_with_diags(host, instance, rule, known).0
    }

    /// Evaluates a rule. Returns the errors of its expressions as well.
    pub(super) fn evaluate_rule_with_diags(
        &self,
        host: &Host,
        instance: &Arc<RecipeInstance>,
        rule: &RecipeRule,
        known: &ExpansionInputs<'_>,
    ) -> (ConditionOutcome, Vec<Diag>) {
        let texts = || template_list::list_rule_templates(rule).map(|(text, form, _)| (text, form));
        let reads = self.infos.get_or_build_reads(rule, || template_reads::collect_reads(self.names.project, texts()));
        let bindings = self.names.build_bindings(host, instance, &reads, known);
        conditions::evaluate_rule(self.names.project, rule, &bindings)
    }

    /// Evaluates a `verify` entry. Returns a `check` rendered, for the caller to run. An entry that reads objects is
    /// evaluated by [`evaluate_verify_with_objects`](Self::evaluate_verify_with_objects).
    pub fn evaluate_verify(
        &self,
        host: &Host,
        instance: &Arc<RecipeInstance>,
        verify: &RecipeVerification,
        known: &ExpansionInputs<'_>,
    ) -> ConditionOutcome {
        if instance.absent {
            return ConditionOutcome::NotApplicable;
        }
        let evaluate = || {
            let bindings = self.build_verify_bindings(host, instance, verify, known);
            conditions::evaluate_verify(self.names.project, verify, &bindings)
        };
        if self.get_verify_reads(verify).is_host_bound() {
            return evaluate();
        }
        // Equal on every host that shares the instance, as an expanded step.
        let key = (Arc::as_ptr(instance) as usize, std::ptr::from_ref(verify) as usize);
        if let Some(outcome) = self.verified.read().ok().and_then(|verified| verified.get(&key).cloned()) {
            return outcome;
        }
        let outcome = evaluate();
        if let Ok(mut verified) = self.verified.write() {
            verified.insert(key, outcome.clone());
        }
        outcome
    }

    /// Returns the query for the objects that a `verify` entry reads, if it reads any.
    ///
    /// # Errors
    /// The result, if it does not depend on the objects: the entry does not apply, or the query could not be evaluated.
    pub fn resolve_verify_objects(
        &self,
        host: &Host,
        instance: &Arc<RecipeInstance>,
        verify: &RecipeVerification,
        known: &ExpansionInputs<'_>,
    ) -> Option<Result<ObjectsQuery, ConditionOutcome>> {
        let about = verify.about.as_ref()?;
        if instance.absent {
            return Some(Err(ConditionOutcome::NotApplicable));
        }
        let bindings = self.build_verify_bindings(host, instance, verify, known);
        Some(conditions::resolve_asked_objects(self.names.project, &verify.when, about, &bindings))
    }

    /// Evaluates a `verify` entry on the objects that were found.
    pub fn evaluate_verify_with_objects(
        &self,
        host: &Host,
        instance: &Arc<RecipeInstance>,
        verify: &RecipeVerification,
        known: &ExpansionInputs<'_>,
        found: &[Value],
    ) -> ConditionOutcome {
        let bindings = self.build_verify_bindings(host, instance, verify, known);
        conditions::evaluate_found_objects(self.names.project, verify, bindings, found)
    }

    fn build_verify_bindings(
        &self,
        host: &Host,
        instance: &Arc<RecipeInstance>,
        verify: &RecipeVerification,
        known: &ExpansionInputs<'_>,
    ) -> TemplateBindings {
        self.names.build_bindings(host, instance, &self.get_verify_reads(verify), known)
    }

    fn get_verify_reads(&self, verify: &RecipeVerification) -> Arc<TemplateReads> {
        self.infos.get_or_build_reads(verify, || {
            let texts = template_list::list_verify_templates(verify);
            template_reads::collect_reads(self.names.project, texts.iter().map(|(text, form, _)| (*text, *form)))
        })
    }

    /// Evaluates the `effective` part of a step in the same way.
    pub fn evaluate_effective(
        &self,
        host: &Host,
        instance: &Arc<RecipeInstance>,
        step: &Arc<RecipeStep>,
        turn: &StepId,
        known: &ExpansionInputs<'_>,
    ) -> ConditionOutcome {
        let Some(effective) = step.effective.as_ref().filter(|_| !instance.absent) else {
            return ConditionOutcome::NotApplicable;
        };
        let bindings = self.bind_turn(host, (instance, step), turn, known);
        conditions::evaluate_condition(self.names.project, &None, &effective.expect, &effective.check, &bindings)
    }

    /// Returns the names that the templates of one instance of a step read.
    fn bind_turn(
        &self,
        host: &Host,
        (instance, step): (&Arc<RecipeInstance>, &Arc<RecipeStep>),
        turn: &StepId,
        known: &ExpansionInputs<'_>,
    ) -> TemplateBindings {
        let info = self.infos.get_step_info(self.names.project, &instance.recipe, step);
        let bindings = self.names.build_bindings(host, instance, &info.reads, known);
        step_expansion::bind_item_by_key(self.names.project, step, turn, bindings)
    }

    /// Returns the errors of a `verify` entry that do not depend on a host's state, or on objects of the cluster.
    pub(super) fn find_verify_mistakes(
        &self,
        host: &Host,
        instance: &Arc<RecipeInstance>,
        verify: &RecipeVerification,
        known: &ExpansionInputs<'_>,
    ) -> Vec<Diag> {
        let bindings = self.build_verify_bindings(host, instance, verify, known);
        let expect = if verify.about.is_some() { &None } else { &verify.expect };
        conditions::find_condition_mistakes(self.names.project, &verify.when, expect, &verify.check, &bindings)
    }

    /// Returns the errors of the `effective` part of a step that do not depend on a host's state.
    pub(super) fn find_effective_mistakes(
        &self,
        host: &Host,
        instance: &Arc<RecipeInstance>,
        step: &Arc<RecipeStep>,
        turn: &StepId,
        known: &ExpansionInputs<'_>,
    ) -> Vec<Diag> {
        let Some(effective) = &step.effective else { return Vec::new() };
        let bindings = self.bind_turn(host, (instance, step), turn, known);
        conditions::find_condition_mistakes(self.names.project, &None, &effective.expect, &effective.check, &bindings)
    }

    /// Renders the declared fields of an instance of a step for display. Values that are not known yet are null.
    pub(super) fn render_fields(
        &self,
        host: &Host,
        instance: &Arc<RecipeInstance>,
        step: &Arc<RecipeStep>,
        turn: &StepId,
        known: &ExpansionInputs<'_>,
    ) -> Value {
        let project = self.names.project;
        let bindings = self.bind_turn(host, (instance, step), turn, known);
        scalar::node_to_value(
            &TreeRenderer::new(&project.programs, &project.sources, &bindings).render_tree(&step.body),
        )
    }

    /// Evaluates the `value` of an export on a host; `None` if a fact that it reads is not known.
    pub fn evaluate_export(
        &self,
        host: &Host,
        instance: &Arc<RecipeInstance>,
        value: &SourceExpr,
        known: &ExpansionInputs<'_>,
    ) -> Option<Value> {
        let project = self.names.project;
        let reads = template_reads::collect_reads(project, [(value.source.as_str(), TemplateForm::Expression)]);
        let bindings = self.names.build_bindings(host, instance, &reads, known);
        match TreeRenderer::new(&project.programs, &project.sources, &bindings).evaluate_value(value)? {
            EvalOutcome::Known { value, .. } => Some(value),
            EvalOutcome::Deferred(_) => None,
        }
    }

    /// Renders the `read` command of an export of an instance of a step.
    ///
    /// # Errors
    /// The value that it waits for, or a secret in the command.
    pub fn render_export_command(
        &self,
        host: &Host,
        instance: &Arc<RecipeInstance>,
        read: &str,
        known: &ExpansionInputs<'_>,
    ) -> Result<String, PendingInput> {
        let reads = template_reads::collect_reads(self.names.project, [(read, TemplateForm::Template)]);
        let bindings = self.names.build_bindings(host, instance, &reads, known);
        conditions::render_text(self.names.project, read, &bindings)
    }
}
