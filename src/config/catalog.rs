//! Recipes as values for output: the list of available recipes, and all declarations of one recipe.

use super::builtin_data::{BUILTIN_PATH, BUILTIN_RECIPES};
use super::builtin_recipes::builtin_project;
use super::{
    ParamType, Project, Recipe, RecipeEdge, RecipeParam, RecipeRule, RecipeStep, RecipeVerification, StepExport,
};
use crate::model::{DisruptionClass, HostName, StepPhase, StepScope, Value, VerifyLevel};
use crate::resource::ProvidedItem;
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::HashSet;

/// A recipe in a list.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct RecipeSummary {
    pub name: String,
    pub summary: String,
    /// Its file, as shown in messages.
    pub file: String,
    pub built_in: bool,
    /// Whether it overrides a built-in recipe of the same name.
    pub replaces: bool,
    /// Whether it is a stack: it uses other recipes and has no steps.
    pub stack: bool,
    /// Hosts that it is applied to, directly or through stacks; for a stack, the hosts of its recipes.
    pub hosts: Vec<HostName>,
}

/// All declarations of a recipe.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct RecipeDetails {
    #[serde(flatten)]
    pub line: RecipeSummary,
    pub params: Vec<ParamDetails>,
    pub needs: Vec<String>,
    pub after: Vec<String>,
    pub rules: Vec<RuleDetails>,
    pub steps: Vec<StepDetails>,
    pub verify: Vec<VerifyDetails>,
    pub uses: Vec<StackUseDetails>,
    pub fails_as: Vec<FailurePatternDetails>,
}

/// A failure message of a program, and its cause.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct FailurePatternDetails {
    pub text: String,
    pub cause: String,
}

#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct ParamDetails {
    pub name: String,
    /// `text`, `list of version`, `one of a, b`.
    #[serde(rename = "type")]
    pub ty: String,
    pub required: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default: Option<Value>,
    pub doc: String,
    pub place: String,
}

#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct RuleDetails {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub when: Option<String>,
    pub require: String,
    /// Message if the condition is not met.
    #[serde(rename = "else")]
    pub otherwise: String,
    /// Whether it is evaluated on the cluster instead of on hosts.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub of_cluster: bool,
    /// Whether it only warns.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub warns: bool,
    pub place: String,
}

#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct StepDetails {
    pub name: String,
    pub kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub when: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub each: Option<String>,
    pub scope: StepScope,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disruption: Option<DisruptionClass>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub effective_by: Vec<String>,
    pub needs: Vec<String>,
    pub after: Vec<String>,
    pub restart_on: Vec<String>,
    pub provides: Vec<String>,
    pub exports: Vec<ExportDetails>,
    pub place: String,
}

#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct ExportDetails {
    pub name: String,
    pub secret: bool,
}

#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct VerifyDetails {
    pub name: String,
    pub level: VerifyLevel,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub when: Option<String>,
    /// Whether it is evaluated on the cluster instead of on hosts.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub of_cluster: bool,
    /// `expect` (over facts) or `check` (a command on the host).
    pub by: &'static str,
    pub place: String,
}

#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct StackUseDetails {
    pub recipe: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub when: Option<String>,
    /// Names of the parameters that it passes.
    pub with: Vec<String>,
    pub place: String,
}

/// Lists every available recipe: the inventory's recipes by name, then the built-in ones.
pub fn list_recipes(project: Option<&Project>) -> Vec<RecipeSummary> {
    let read = |project: &Project| -> Vec<RecipeSummary> {
        project.library.values().map(|recipe| build_recipe_summary(project, recipe)).collect()
    };
    let mut lines = project.map(read).unwrap_or_default();
    let known: HashSet<String> = lines.iter().map(|line| line.name.clone()).collect();
    // An inventory reads only the built-in recipes that it names.
    lines.extend(read(&builtin_project()).into_iter().filter(|line| !known.contains(&line.name)));
    lines.sort_by(|a, b| (a.built_in, &a.name).cmp(&(b.built_in, &b.name)));
    lines
}

/// Returns the page of a recipe. The inventory's recipe takes precedence over a built-in one.
pub fn find_recipe_details(project: Option<&Project>, name: &str) -> Option<RecipeDetails> {
    let own = project.filter(|project| project.library.contains_key(name));
    own.map_or_else(|| build_recipe_details(&builtin_project(), name), |project| build_recipe_details(project, name))
}

fn build_recipe_details(project: &Project, name: &str) -> Option<RecipeDetails> {
    let recipe = project.library.get(name)?;
    let place = |span| project.sources.format_location(span);
    Some(RecipeDetails {
        line: build_recipe_summary(project, recipe),
        params: recipe.params.values().map(|param| self::build_param_details(param, place(param.span))).collect(),
        needs: recipe.needs.iter().map(format_edge).collect(),
        after: recipe.after.iter().map(format_edge).collect(),
        rules: recipe.rules.iter().map(|rule| self::build_rule_details(rule, place(rule.span))).collect(),
        steps: recipe.steps.iter().map(|step| self::build_step_details(step, place(step.span))).collect(),
        verify: recipe.verify.iter().map(|verify| self::build_verify_details(verify, place(verify.span))).collect(),
        uses: recipe.uses.iter().map(|used| self::build_use_details(used, place(used.span))).collect(),
        fails_as: recipe
            .fails_as
            .iter()
            .map(|row| FailurePatternDetails { text: row.text.clone(), cause: row.cause.clone() })
            .collect(),
    })
}

fn build_recipe_summary(project: &Project, recipe: &Recipe) -> RecipeSummary {
    let through = |instance: &super::RecipeInstance| {
        let mut outer = instance.through.as_ref();
        std::iter::from_fn(move || {
            let stack = outer?;
            outer = stack.outer.as_ref();
            Some(stack.stack.name == recipe.name)
        })
        .any(|is| is)
    };
    let has =
        |own: &[std::sync::Arc<super::RecipeInstance>]| own.iter().any(|i| i.recipe.name == recipe.name || through(i));
    let built_in = recipe.path.starts_with(BUILTIN_PATH);
    RecipeSummary {
        name: recipe.name.clone(),
        summary: recipe.summary.clone(),
        file: project.sources.path(recipe.span.file).to_string(),
        built_in,
        replaces: !built_in && BUILTIN_RECIPES.iter().any(|(name, _)| *name == recipe.name),
        stack: !recipe.uses.is_empty(),
        hosts: project.instances.iter().filter(|(_, own)| has(own)).map(|(host, _)| host.clone()).collect(),
    }
}

fn build_param_details(param: &RecipeParam, place: String) -> ParamDetails {
    ParamDetails {
        name: param.name.clone(),
        ty: describe_param_type(&param.ty),
        required: param.default.is_none(),
        default: param.default.clone(),
        doc: param.doc.clone(),
        place,
    }
}

fn describe_param_type(ty: &ParamType) -> String {
    match ty {
        ParamType::Text => "text".into(),
        ParamType::Bool => "bool".into(),
        ParamType::Int => "int".into(),
        ParamType::Enum(values) => format!("one of {}", values.join(", ")),
        ParamType::List(inner) => format!("list of {}", describe_param_type(inner)),
        ParamType::Map { keys, values } if **keys == ParamType::Text => {
            format!("map of {}", describe_param_type(values))
        }
        ParamType::Map { keys, values } => {
            format!("map of {} to {}", describe_param_type(keys), describe_param_type(values))
        }
        ParamType::PciAddress => "pci-address".into(),
        ParamType::Version => "version".into(),
        ParamType::Secret => "secret".into(),
        ParamType::Any => "any value".into(),
    }
}

/// Formats an edge in recipe syntax: `nvidia-driver/packages@effective`.
pub(super) fn format_edge(edge: &RecipeEdge) -> String {
    let step = edge.step.as_ref().map_or_else(String::new, |step| format!("/{step}"));
    let optional = if edge.optional { "?" } else { "" };
    let phase = match edge.phase {
        // The default phase.
        StepPhase::Effective => String::new(),
        other => format!("@{}", other.name()),
    };
    let barrier =
        edge.barrier.map_or_else(String::new, |b| format!(" on {} of the selected hosts", b.least.format_share()));
    format!("{}{step}{optional}{phase}{barrier}", edge.recipe)
}

fn build_rule_details(rule: &RecipeRule, place: String) -> RuleDetails {
    RuleDetails {
        when: rule.when.as_ref().map(|when| when.source.clone()),
        require: rule.require.source.clone(),
        otherwise: rule.otherwise.clone(),
        of_cluster: rule.of_cluster,
        warns: rule.class.is_none(),
        place,
    }
}

fn build_step_details(step: &RecipeStep, place: String) -> StepDetails {
    StepDetails {
        name: step.name.clone(),
        kind: step.kind,
        when: step.when.as_ref().map(|when| when.source.clone()),
        each: step.each.as_ref().map(|each| each.source.clone()),
        scope: step.scope,
        disruption: step.disruption,
        effective_by: step.effective.as_ref().map(|effective| effective.by.clone()).unwrap_or_default(),
        needs: step.needs.iter().map(format_edge).collect(),
        after: step.after.iter().map(format_edge).collect(),
        restart_on: step.restart_on.iter().map(|(name, _)| name.clone()).collect(),
        provides: step.provides.iter().map(format_provision).collect(),
        exports: step.exports.values().map(build_export_details).collect(),
        place,
    }
}

pub(super) fn format_provision(provision: &ProvidedItem) -> String {
    match provision {
        ProvidedItem::Path(path) => format!("file {path}"),
        ProvidedItem::Unit(name) => format!("unit {name}"),
        ProvidedItem::User(name) => format!("user {name}"),
        ProvidedItem::Package(name) => format!("package {name}"),
        ProvidedItem::Object(name) => format!("object {name}"),
        ProvidedItem::Served(name) => format!("kind {name}"),
    }
}

fn build_export_details(export: &StepExport) -> ExportDetails {
    ExportDetails { name: export.name.clone(), secret: export.secret }
}

fn build_verify_details(verify: &RecipeVerification, place: String) -> VerifyDetails {
    VerifyDetails {
        name: verify.name.clone(),
        level: verify.level,
        when: verify.when.as_ref().map(|when| when.source.clone()),
        of_cluster: verify.of_cluster,
        by: if verify.expect.is_some() { "expect" } else { "check" },
        place,
    }
}

fn build_use_details(used: &super::StackUse, place: String) -> StackUseDetails {
    StackUseDetails {
        recipe: used.recipe.clone(),
        when: used.when.as_ref().map(|when| when.source.clone()),
        with: used.with.keys().cloned().collect(),
        place,
    }
}
