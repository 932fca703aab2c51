//! Explains one step: its definition, its dependencies and dependents, and its rendered fields on each host.

use super::value::HostExplainer;
use super::{SharedByHosts, ValueExplanation, group_equal_hosts};
use crate::config::builtin_data::is_builtin_recipe;
use crate::config::chart::{ChartEdge, ChartEndpoint, build_chart};
use crate::config::template::{TemplateRead, TemplateRoot};
use crate::config::template_list::list_step_templates;
use crate::config::{
    ExpandedStep, ExpansionInputs, ExpansionState, ExportedValues, FactSource, Project, Recipe, RecipeInstance,
    RecipeStep, StepExpander, StepFilter, catalog,
};
use crate::diag::{Diag, DiagCode};
use crate::model::{DisruptionClass, HostName, StepScope, Value, VerifyLevel};
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Everything that is known about a step without contacting a host.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct StepExplanation {
    /// Name of the step's recipe.
    pub recipe: String,
    /// Name of the step in its recipe.
    pub step: String,
    /// Name of the resource's kind: `file`, `service`.
    pub kind: &'static str,
    /// Where the step is declared, `file:line:col`.
    pub place: String,
    /// Where the step runs.
    pub scope: StepScope,
    /// How deep its verification looks, from L0 (present) to L5 (performance).
    pub level: VerifyLevel,
    /// The class to which the recipe raises its changes; absent if the class follows from the change alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disruption: Option<DisruptionClass>,
    /// When the host restores the state before a change: `5m`, `off`; absent if the step does not declare it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub guard: Option<String>,
    /// Expression that says whether the step applies to a host; absent if it always does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub when: Option<String>,
    /// Whether the resource is removed if `when` is false. Otherwise nothing happens.
    pub otherwise_absent: bool,
    /// Whether a removal leaves what it did.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub keep: bool,
    /// Expression for the list or map whose elements the step is repeated for; absent if it runs once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub each: Option<String>,
    /// Actions that make the step take effect.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub effective_by: Vec<String>,
    /// The key that checks the effect: `expect` or `check`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub effective_seen_by: Option<&'static str>,
    /// Dependencies.
    pub waits_for: Vec<ChartEdge>,
    /// Dependents.
    pub waited_for_by: Vec<ChartEdge>,
    /// What later steps can rely on: `unit nvidia-persistenced`, `package dkms`.
    pub provides: Vec<String>,
    /// Names of the values that other steps can read from it.
    pub exports: Vec<String>,
    /// The rendered step, grouped by hosts with equal results.
    pub rendered: Vec<SharedByHosts<RenderedStep>>,
}

/// An instance of the step as rendered for a host before the host is contacted.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct RenderedStep {
    /// Key of the item of `each`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// Whether the resource is to be removed from these hosts.
    pub absent: bool,
    /// What the resource is about, such as its path; absent if that is not known yet or there is no resource.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Declared fields with templates rendered. Secrets appear by name; values that are not known yet are null.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fields: Option<Value>,
    /// Why there is no resource: `when` is false, a value is invalid, or a value is not known yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// The values that its templates read, in the order of the source, each once.
    pub inputs: Vec<StepInput>,
}

/// A value that a template of the step reads.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct StepInput {
    /// `params.version`, `facts.os.id`
    pub name: String,
    /// Origin of the value, if it is not set in the inventory or a recipe.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<&'static str>,
    /// Where the value comes from; absent if the inventory and recipes do not set it (see `note`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<ValueExplanation>,
}

/// Explains a step on the hosts of `hosts` that have it.
///
/// # Errors
/// The recipe or step does not exist, or the recipe is not applied to any of the hosts.
pub fn explain_step(
    project: &Project,
    hosts: &[HostName],
    recipe: &str,
    step: &str,
) -> Result<StepExplanation, Box<Diag>> {
    let (recipe, step) = find_step(project, recipe, step)?;
    let of = |host: &HostName| {
        let own = project.instances.get(host)?;
        Some((host.clone(), own.iter().find(|instance| instance.recipe.name == recipe.name)?.clone()))
    };
    // Steps of scope `cluster` run on the cluster's API only, whichever hosts were selected.
    let there: Vec<HostName> = project.cluster_member().into_iter().cloned().collect();
    let hosts = if step.scope == StepScope::Cluster { &there[..] } else { hosts };
    let having: Vec<(HostName, Arc<RecipeInstance>)> = hosts.iter().filter_map(of).collect();
    if having.is_empty() {
        let message = format!("recipe `{}` is not applied to any of these hosts", recipe.name);
        return Err(Box::new(Diag::error(DiagCode::EdgeNotApplied, message).with_span(recipe.span)));
    }
    let (waits_for, waited_for_by) = collect_edges(project, recipe, step);
    Ok(StepExplanation {
        recipe: recipe.name.clone(),
        step: step.name.clone(),
        kind: step.kind,
        place: project.sources.format_location(step.span),
        scope: step.scope,
        level: step.level,
        disruption: step.disruption,
        guard: step.guard.describe(),
        when: step.when.as_ref().map(|when| when.source.clone()),
        otherwise_absent: step.otherwise_absent,
        keep: step.keep,
        each: step.each.as_ref().map(|each| each.source.clone()),
        effective_by: step.effective.as_ref().map(|effective| effective.by.clone()).unwrap_or_default(),
        effective_seen_by: step.effective.as_ref().map(|e| if e.expect.is_some() { "expect" } else { "check" }),
        waits_for,
        waited_for_by,
        provides: step.provides.iter().map(catalog::format_provision).collect(),
        exports: step.exports.keys().cloned().collect(),
        rendered: render_on_hosts(project, &having, step),
    })
}

fn find_step<'p>(
    project: &'p Project,
    recipe: &str,
    step: &str,
) -> Result<(&'p Recipe, &'p Arc<RecipeStep>), Box<Diag>> {
    let Some(found) = project.library.get(recipe) else {
        if is_builtin_recipe(recipe) {
            let message = format!("recipe `{recipe}` is built in, and not applied to any of these hosts");
            let diag = Diag::error(DiagCode::EdgeNotApplied, message);
            return Err(Box::new(diag.hint(format!("`forge recipes {recipe}` shows its steps"))));
        }
        let diag = Diag::error(DiagCode::UnknownRecipe, format!("recipe `{recipe}` not found"));
        return Err(Box::new(diag.suggest_name(recipe, project.library.keys().map(String::as_str))));
    };
    match found.steps.iter().find(|own| own.name == step) {
        Some(step) => Ok((found, step)),
        None => {
            let diag = Diag::error(DiagCode::UnknownEdge, format!("recipe `{recipe}` has no step `{step}`"));
            Err(Box::new(diag.suggest_name(step, found.steps.iter().map(|step| step.name.as_str()))))
        }
    }
}

/// Returns the dependencies and dependents of a step. The graph covers the whole project, because they do not depend
/// on the selected hosts.
fn collect_edges(project: &Project, recipe: &Recipe, step: &RecipeStep) -> (Vec<ChartEdge>, Vec<ChartEdge>) {
    let hosts: Vec<HostName> = project.hosts.keys().cloned().collect();
    let all = build_chart(project, &hosts, &StepFilter::default()).edges;
    let is = |end: &ChartEndpoint| end.recipe == recipe.name && end.step.as_ref().is_none_or(|name| *name == step.name);
    let into = all.iter().filter(|edge| is(&edge.to)).cloned().collect();
    (into, all.into_iter().filter(|edge| is(&edge.from)).collect())
}

fn render_on_hosts(
    project: &Project,
    having: &[(HostName, Arc<RecipeInstance>)],
    step: &Arc<RecipeStep>,
) -> Vec<SharedByHosts<RenderedStep>> {
    let expander = StepExpander::new(project);
    let exports = ExportedValues::new();
    let known = ExpansionInputs { facts: FactSource::NotYet, exports: &exports };
    let mut all = Vec::new();
    for (name, instance) in having {
        let Some(host) = project.hosts.get(name) else { continue };
        let inputs = collect_inputs(HostExplainer { project, host: name }, instance, step);
        for turn in expander.expand_step(host, instance, step, &known).iter() {
            let fields = expander.render_fields(host, instance, step, &turn.id, &known);
            all.push((name.clone(), describe_expanded_step(turn, fields, inputs.clone())));
        }
    }
    group_equal_hosts(all)
}

fn describe_expanded_step(turn: &ExpandedStep, fields: Value, inputs: Vec<StepInput>) -> RenderedStep {
    let key = turn.id.key.as_deref().map(str::to_owned);
    let nothing = RenderedStep { key, absent: turn.absent, title: None, fields: None, why: None, inputs };
    match &turn.state {
        ExpansionState::Resource(resource) => {
            RenderedStep { title: Some(resource.title()), fields: Some(fields), ..nothing }
        }
        ExpansionState::NotApplicable(why) => RenderedStep { why: Some(why.describe().to_owned()), ..nothing },
        ExpansionState::Deferred(deferred) => {
            let waiting = deferred.fields.iter().map(|field| format!("`{field}`")).collect::<Vec<_>>().join(", ");
            let what = if waiting.is_empty() { "the step".to_owned() } else { waiting };
            let why = format!("{what} cannot be evaluated yet: {}", deferred.need.describe());
            RenderedStep { title: deferred.title.clone(), fields: Some(fields), why: Some(why), ..nothing }
        }
        // A project with static errors does not load, so this error comes from a value of this host.
        ExpansionState::Invalid(diags) => {
            let why = diags.iter().map(|diag| diag.message.as_str()).collect::<Vec<_>>().join("; ");
            RenderedStep { why: Some(why), ..nothing }
        }
    }
}

/// Returns the values that templates of the step read, without duplicates, in source order.
fn collect_inputs(at: HostExplainer<'_>, instance: &RecipeInstance, step: &Arc<RecipeStep>) -> Vec<StepInput> {
    let file = crate::config::expand::read_template_file(at.project, &instance.recipe, step).flatten();
    let mut seen = BTreeSet::new();
    let mut inputs = Vec::new();
    let mut texts: Vec<_> =
        list_step_templates(step).into_iter().map(|(text, form, _)| (text.to_owned(), form)).collect();
    texts.extend(file.map(|text| (text.to_string(), crate::config::template::TemplateForm::Template)));
    for (text, form) in texts {
        if let Ok(program) = at.project.programs.get(&text, form).as_ref() {
            inputs.extend(
                program
                    .reads()
                    .iter()
                    .filter(|read| seen.insert(format_read_name(read)))
                    .map(|r| explain_input(at, instance, r)),
            );
        }
    }
    inputs
}

fn format_read_name(read: &TemplateRead) -> String {
    let part = |part: &String| match part.contains('-') {
        true => format!("[\"{part}\"]"),
        false => format!(".{part}"),
    };
    format!("{}{}", read.root.name(), read.path.iter().map(part).collect::<String>())
}

fn explain_input(at: HostExplainer<'_>, instance: &RecipeInstance, read: &TemplateRead) -> StepInput {
    let path: Vec<&str> = read.path.iter().map(String::as_str).collect();
    let value = match (read.root, path.as_slice()) {
        (TemplateRoot::Params, [param, ..]) => at.explain_instance_param(instance, param),
        (TemplateRoot::Vars, [var, ..]) => at.explain_var(var),
        (TemplateRoot::Recipes, [recipe, param, ..]) => at.explain_param(recipe, param),
        _ => None,
    };
    let note = match read.root {
        _ if value.is_some() => None,
        TemplateRoot::Facts => Some("observed on the host"),
        TemplateRoot::Exports => Some("exported by another step"),
        TemplateRoot::Host | TemplateRoot::Hosts | TemplateRoot::Members => Some("from the inventory"),
        TemplateRoot::Object | TemplateRoot::Objects => Some("found in the cluster"),
        TemplateRoot::Item | TemplateRoot::Key => Some("an item of `each`"),
        TemplateRoot::Params | TemplateRoot::Vars | TemplateRoot::Recipes => Some("not set on this host"),
    };
    StepInput { name: format_read_name(read), note, value }
}
