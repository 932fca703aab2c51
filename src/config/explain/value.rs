//! Explains one value on one host: the origin that wins, the values that it was computed from, and the origins that it
//! overrides.

use super::{SharedByHosts, group_equal_hosts};
use crate::config::template::{TemplateForm, TemplateProgram, TemplateRoot};
use crate::config::{Project, RecipeInstance, SourcedValue, StackInstance, ValueSource, scalar};
use crate::diag::{Diag, DiagCode, Span};
use crate::model::{HostName, Value};
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Name of a value that can be explained.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ValueName {
    /// `vars.rack`
    Var(String),
    /// `nvidia-driver.version`
    Param {
        /// Name of the recipe or stack that has the parameter.
        recipe: String,
        /// Name of the parameter.
        param: String,
    },
}

impl ValueName {
    /// Parses `vars.NAME` or `RECIPE.PARAM`. A recipe name may contain dots.
    pub fn parse(text: &str) -> Option<Self> {
        let (root, name) = text.rsplit_once('.').filter(|(root, name)| !root.is_empty() && !name.is_empty())?;
        Some(match root {
            "vars" => Self::Var(name.to_owned()),
            recipe => Self::Param { recipe: recipe.to_owned(), param: name.to_owned() },
        })
    }
}

/// One place that sets a value.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct ValueOrigin {
    /// `with`, `stack gpu-node`, `host`, `group gpu`, `recipe default`.
    pub from: String,
    /// The value that this place sets; that of the winner has the parameter's type. A secret appears by its name.
    pub value: Value,
    /// `file:line:column`; absent for a built-in default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub place: Option<String>,
    /// Source of the template that was rendered, if any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub template: Option<String>,
}

/// A value on a host.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct ValueExplanation {
    /// `vars.NAME` or `RECIPE.PARAM`.
    pub name: String,
    /// The origin that takes precedence.
    pub winner: ValueOrigin,
    /// Overridden origins, in descending precedence.
    pub overruled: Vec<ValueOrigin>,
    /// Values that the winner's template read.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub reads: Vec<ValueExplanation>,
}

/// Explains a value on hosts, grouped by equal explanations. Hosts without the value are omitted.
///
/// # Errors
/// No host has the value, or the recipe, parameter or variable does not exist.
pub fn explain_value(
    project: &Project,
    hosts: &[HostName],
    name: &ValueName,
) -> Result<Vec<SharedByHosts<ValueExplanation>>, Box<Diag>> {
    check_value_exists(project, name)?;
    let pages = hosts.iter().filter_map(|host| Some((host.clone(), explain_on_host(project, host, name)?)));
    let found = group_equal_hosts(pages);
    match found.is_empty() {
        true => Err(Box::new(build_unset_diag(name))),
        false => Ok(found),
    }
}

fn check_value_exists(project: &Project, name: &ValueName) -> Result<(), Box<Diag>> {
    match name {
        ValueName::Var(name) => {
            let names: Vec<&str> =
                project.hosts.values().flat_map(|host| host.vars.keys().map(String::as_str)).collect();
            match names.contains(&name.as_str()) {
                true => Ok(()),
                false => {
                    let diag = Diag::error(DiagCode::UnknownName, format!("variable `{name}` not found"));
                    let mut names = names;
                    names.sort_unstable();
                    names.dedup();
                    Err(Box::new(diag.suggest_name(name, names)))
                }
            }
        }
        ValueName::Param { recipe, param } => {
            let Some(found) = project.library.get(recipe) else {
                let diag = Diag::error(DiagCode::UnknownRecipe, format!("recipe `{recipe}` not found"));
                return Err(Box::new(diag.suggest_name(recipe, project.library.keys().map(String::as_str))));
            };
            match found.params.contains_key(param) {
                true => Ok(()),
                false => {
                    let message = format!("recipe `{recipe}` has no parameter `{param}`");
                    let diag = Diag::error(DiagCode::UnknownParam, message);
                    Err(Box::new(diag.suggest_name(param, found.params.keys().map(String::as_str))))
                }
            }
        }
    }
}

fn build_unset_diag(name: &ValueName) -> Diag {
    match name {
        ValueName::Var(name) => {
            Diag::error(DiagCode::UnknownName, format!("none of these hosts has the variable `{name}`"))
        }
        ValueName::Param { recipe, .. } => {
            Diag::error(DiagCode::EdgeNotApplied, format!("recipe `{recipe}` is not applied to any of these hosts"))
        }
    }
}

fn explain_on_host(project: &Project, host: &HostName, name: &ValueName) -> Option<ValueExplanation> {
    let at = HostExplainer { project, host };
    match name {
        ValueName::Var(name) => at.explain_var(name),
        ValueName::Param { recipe, param } => at.explain_param(recipe, param),
    }
}

/// Explains values on one host.
#[derive(Clone, Copy)]
pub(super) struct HostExplainer<'p> {
    pub project: &'p Project,
    pub host: &'p HostName,
}

/// The stack whose parameters a template reads as `params`.
type StackParams<'p> = Option<&'p StackInstance>;

impl<'p> HostExplainer<'p> {
    pub fn explain_var(self, name: &str) -> Option<ValueExplanation> {
        let mut layers = self.list_var_origins(name);
        let winner = match layers.is_empty() {
            true => return None,
            false => layers.remove(0),
        };
        Some(ValueExplanation { name: format!("vars.{name}"), winner, overruled: layers, reads: Vec::new() })
    }

    /// Explains a parameter of a recipe, or of a stack that applies recipes to the host.
    pub fn explain_param(self, recipe: &str, param: &str) -> Option<ValueExplanation> {
        let own = self.project.instances.get(self.host)?;
        if let Some(instance) = own.iter().find(|instance| instance.recipe.name == recipe) {
            return self.explain_instance_param(instance, param);
        }
        let stack = own.iter().find_map(|instance| find_stack(instance.through.as_ref(), recipe))?;
        self.explain_stack_param(stack, param)
    }

    pub fn explain_instance_param(self, instance: &'p RecipeInstance, param: &str) -> Option<ValueExplanation> {
        let name = format!("{}.{param}", instance.recipe.name);
        let declared = instance.recipe.params.get(param)?;
        self.explain_declared_param(name, &instance.params, declared, instance.through.as_deref())
    }

    fn explain_stack_param(self, stack: &'p StackInstance, param: &str) -> Option<ValueExplanation> {
        let name = format!("{}.{param}", stack.stack.name);
        let declared = stack.stack.params.get(param)?;
        self.explain_declared_param(name, &stack.params, declared, stack.outer.as_deref())
    }

    fn explain_declared_param(
        self,
        name: String,
        params: &BTreeMap<String, SourcedValue>,
        declared: &crate::config::RecipeParam,
        outer: StackParams<'p>,
    ) -> Option<ValueExplanation> {
        let decided = params.get(&declared.name)?;
        let given = decided.from.is_given();
        let mut layers: Vec<ValueOrigin> = Vec::new();
        let mut reads = Vec::new();
        if given {
            let origin = self.build_origin(decided);
            reads = origin.template.as_deref().map(|text| self.explain_reads(text, outer)).unwrap_or_default();
            layers.push(origin);
        }
        layers.extend(self.list_var_origins(&declared.name));
        layers.extend(declared.default.as_ref().map(|value| ValueOrigin {
            from: ValueSource::RecipeDefault.to_string(),
            value: value.clone(),
            place: Some(self.project.sources.format_location(declared.span)),
            template: None,
        }));
        let mut winner = layers.remove(0);
        // The value has the type of its parameter: `560.10` stays text, a secret stays hidden.
        winner.value = decided.value.clone();
        Some(ValueExplanation { name, winner, overruled: layers, reads })
    }

    /// Returns every origin of a variable on the host, in descending precedence.
    fn list_var_origins(self, name: &str) -> Vec<ValueOrigin> {
        let Some(host) = self.project.hosts.get(self.host) else { return Vec::new() };
        let Some(winner) = host.vars.get(name) else { return Vec::new() };
        let mut groups: Vec<(usize, &SourcedValue)> = host
            .groups
            .iter()
            .filter_map(|group| self.project.group_vars.get(group))
            .filter_map(|group| Some((group.depth, group.vars.get(name)?)))
            .filter(|(_, sourced)| sourced.span != winner.span)
            .collect();
        groups.sort_by_key(|(depth, _)| std::cmp::Reverse(*depth));
        std::iter::once(winner)
            .chain(groups.into_iter().map(|(_, sourced)| sourced))
            .map(|s| self.build_origin(s))
            .collect()
    }

    fn build_origin(self, sourced: &SourcedValue) -> ValueOrigin {
        let written = sourced.span.map(|span| self.written_text(span)).filter(|text| scalar::is_template(text));
        ValueOrigin {
            from: sourced.from.to_string(),
            value: sourced.value.clone(),
            place: sourced.span.map(|span| self.project.sources.format_location(span)),
            template: written.map(str::to_owned),
        }
    }

    /// Returns the source text at a location, without surrounding quotes.
    fn written_text(self, span: Span) -> &'p str {
        let text = self.project.sources.text(span.file);
        let text = text.get(span.start as usize..span.end as usize).unwrap_or("").trim();
        let quoted = ['"', '\''].into_iter().find_map(|quote| text.strip_prefix(quote)?.strip_suffix(quote));
        quoted.unwrap_or(text)
    }

    fn explain_reads(self, template: &str, outer: StackParams<'p>) -> Vec<ValueExplanation> {
        let Ok(program) = TemplateProgram::compile(template, TemplateForm::Template) else { return Vec::new() };
        let mut pages: Vec<ValueExplanation> = Vec::new();
        for read in program.reads() {
            let Some(name) = read.path.first() else { continue };
            let page = match read.root {
                TemplateRoot::Vars => self.explain_var(name),
                TemplateRoot::Params => outer.and_then(|stack| self.explain_stack_param(stack, name)),
                _ => None,
            };
            pages.extend(page.filter(|page| !pages.contains(page)));
        }
        pages
    }
}

fn find_stack<'p>(from: Option<&'p Arc<StackInstance>>, name: &str) -> Option<&'p StackInstance> {
    let mut at = from;
    while let Some(stack) = at {
        if stack.stack.name == name {
            return Some(stack);
        }
        at = stack.outer.as_ref();
    }
    None
}
