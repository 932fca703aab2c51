//! Recipes as values for output: the list of available recipes, and all declarations of one recipe.

use super::builtin_data::{BUILTIN_PATH, is_builtin_recipe};
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
    /// The name that `apply` entries, edges and stacks use.
    pub name: String,
    /// The recipe's own one-line description; empty if it has none.
    pub summary: String,
    /// Its file, as shown in messages.
    pub file: String,
    /// Whether it is part of forge instead of the inventory.
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
    /// What a list shows of the recipe. In JSON its fields are fields of this object.
    #[serde(flatten)]
    pub line: RecipeSummary,
    /// The parameters that it takes, in the order of its file.
    pub params: Vec<ParamDetails>,
    /// Dependencies of every step, as in the recipe: `nvidia-driver/packages@configured`. Empty if there are none.
    pub needs: Vec<String>,
    /// Order-only dependencies of every step: those recipes may fail, or not be applied at all.
    pub after: Vec<String>,
    /// Conditions that must be true on a host or the cluster, in the order of the file.
    pub rules: Vec<RuleDetails>,
    /// Its steps in the order in which they run; empty for a stack.
    pub steps: Vec<StepDetails>,
    /// Checks that must pass after the steps; empty for a stack.
    pub verify: Vec<VerifyDetails>,
    /// The recipes that a stack uses, in order; empty for any other recipe.
    pub uses: Vec<StackUseDetails>,
    /// Known failure messages of its programs, each with its cause.
    pub fails_as: Vec<FailurePatternDetails>,
}

/// A failure message of a program, and its cause.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct FailurePatternDetails {
    /// A part of a line that the program prints; `…` matches any text.
    pub text: String,
    /// The cause, and how to fix it; shown as the hint of the failure.
    pub cause: String,
}

/// A parameter that a recipe takes.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct ParamDetails {
    /// The key in `with`, and the name of a variable that sets it.
    pub name: String,
    /// `text`, `list of version`, `one of a, b`.
    #[serde(rename = "type")]
    pub ty: String,
    /// Whether the recipe has no default for it, so that the inventory must set it.
    pub required: bool,
    /// The value if the inventory sets none; absent if it is required.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default: Option<Value>,
    /// The recipe's description of the parameter; empty if it has none.
    pub doc: String,
    /// Where it is declared, `file:line:col`.
    pub place: String,
}

/// A condition of a recipe on its parameters, on facts or on other recipes.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct RuleDetails {
    /// Expression that says whether the rule applies; absent if it always does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub when: Option<String>,
    /// Expression that must be true.
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
    /// The parameter with a reason that makes it only warn.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub accept: Option<String>,
    /// Where the rule is declared, `file:line:col`.
    pub place: String,
}

/// A step as the recipe declares it, without the values of a host.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct StepDetails {
    /// Its name, unique in the recipe.
    pub name: String,
    /// Name of the resource's kind: `file`, `service`.
    pub kind: &'static str,
    /// Expression that says whether the step applies to a host; absent if it always does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub when: Option<String>,
    /// Expression for the list or map whose elements the step is repeated for; absent if it runs once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub each: Option<String>,
    /// Where the step runs.
    pub scope: StepScope,
    /// The class to which the recipe raises its changes; absent if the class follows from the change alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disruption: Option<DisruptionClass>,
    /// What makes the configured state effective, such as `reload` or `reboot`; empty if the step's own action does.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub effective_by: Vec<String>,
    /// The step's own dependencies, in addition to those of the recipe.
    pub needs: Vec<String>,
    /// The step's own order-only dependencies, in addition to those of the recipe.
    pub after: Vec<String>,
    /// Steps (`step` or `recipe/step`) whose change makes this step act: restart, reboot, or check again.
    pub restart_on: Vec<String>,
    /// What later steps can rely on: `unit nvidia-persistenced`, `package dkms`.
    pub provides: Vec<String>,
    /// Values that other steps can read from it.
    pub exports: Vec<ExportDetails>,
    /// Where the step is declared, `file:line:col`.
    pub place: String,
}

/// A value that a step publishes.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct ExportDetails {
    /// The name that other steps read: `exports["RECIPE"].NAME`.
    pub name: String,
    /// Whether the value is a secret, which is never shown.
    pub secret: bool,
}

/// A check of a recipe, run after its steps and by `forge verify`.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct VerifyDetails {
    /// Its name in reports, a short sentence.
    pub name: String,
    /// How deep it looks, from L0 (present) to L5 (performance).
    pub level: VerifyLevel,
    /// Expression that says whether it applies; absent if it always does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub when: Option<String>,
    /// Whether it is evaluated on the cluster instead of on hosts.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub of_cluster: bool,
    /// `expect` (over facts) or `check` (a command on the host).
    pub by: &'static str,
    /// Where it is declared, `file:line:col`.
    pub place: String,
}

/// An entry of `uses`.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct StackUseDetails {
    /// Name of the used recipe or stack.
    pub recipe: String,
    /// Expression that says whether the stack uses it on a host; absent if it always does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub when: Option<String>,
    /// Names of the parameters that it passes.
    pub with: Vec<String>,
    /// Where the stack names it, `file:line:col`.
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
        replaces: !built_in && is_builtin_recipe(&recipe.name),
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
        accept: rule.accept.clone(),
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
        ProvidedItem::Group(name) => format!("group {name}"),
        ProvidedItem::Package(name) => format!("package {name}"),
        ProvidedItem::Object(name) => format!("object {name}"),
        ProvidedItem::Served(name) => format!("kind {name}"),
        ProvidedItem::Cluster => "the cluster".to_owned(),
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
