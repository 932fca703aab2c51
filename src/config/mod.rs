//! Configuration: reads inventories and recipes into typed values with their places in the files.

mod ansible;
mod catalog;
mod chart;
mod check;
mod claims;
mod cx;
mod digests;
mod documents;
mod drift;
mod expand;
mod explain;
mod files;
mod filter;
mod inputs;
mod instances;
mod inventory;
mod links;
mod load;
mod member;
mod names;
mod notify;
mod project;
mod recipe;
mod render;
mod rollout;
mod scalar;
mod schema;
mod shelf;
pub mod shipped;
mod starting;
mod statics;
mod table;
mod template;
mod unknown;
mod written;
mod yaml;

pub use ansible::{AnsibleConversion, AnsibleDifference, convert_ansible_inventory};
pub use catalog::{
    ParamDetails, RecipeDetails, RecipeSummary, RuleDetails, StepDetails, VerifyDetails, find_recipe_details,
    list_recipes,
};
pub use chart::{ChartEdge, ChartEndpoint, ChartStep, DependencyChart, build_chart};
pub use drift::{DriftIgnoreKind, DriftIgnoreRule, DriftPolicy, OutlierMode};
pub use expand::{
    ConditionOutcome, DeferredStep, ExpandedStep, ExpansionInputs, ExpansionState, ExportedValues, SharedExpandedStep,
    StepExpander,
};
pub use explain::{
    RenderedStep, SharedByHosts, StepExplanation, StepInput, ValueExplanation, ValueName, ValueOrigin, explain_step,
    explain_value,
};
pub use filter::StepFilter;
pub use inputs::{InputFile, describe_changed_inputs};
use instances::RecipeLibrary;
pub use load::{LoadOptions, load_project, load_to_learn_digests};
pub use names::{DeclaredNames, DeclaredRecipe, read_declared_names};
pub use notify::{DeferredSecret, NotifyRecipient, NotifyService};
pub use project::*;
pub use rollout::{NodeDrain, NodeReturnCondition, RebootPolicy, ResourceOffer, RolloutHours, RolloutPolicy};
pub use schema::{inventory_schema, recipe_schema};
pub use shelf::builtin_project;
pub use starting::{StarterConnect, StarterGroup, StarterHost, StarterInventory, sanitize_cluster_name};
pub use template::{EvalOutcome, FactSource, PendingInput, TemplateError};
pub use written::WrittenValues;

/// Returns the hosts that `selector` selects, in inventory order.
///
/// # Errors
/// The selector is malformed, names an unknown host or group, or selects no host.
pub fn select_hosts(project: &Project, selector: &str) -> Result<Vec<crate::model::HostName>, Box<crate::diag::Diag>> {
    let universe = inventory::selector::SelectorUniverse::from_hosts_and_groups(&project.hosts, &project.groups);
    let picked = universe.select(selector, None)?;
    Ok(picked.into_iter().filter_map(|at| project.hosts.get_index(at)).map(|(name, _)| name.clone()).collect())
}
