//! Configuration: reads inventories and recipes into typed values with their places in the files.

mod ansible;
pub mod builtin_data;
mod builtin_recipes;
mod catalog;
mod chart;
mod cluster_member;
mod drift;
mod expand;
mod explain;
mod field_check;
mod filter;
mod graph_links;
mod inputs;
mod instances;
mod inventory;
mod load;
mod load_context;
mod local_files;
mod locked_digests;
mod name_completion;
mod notify;
mod project;
mod recipe;
mod rollout;
mod scalar;
mod schema;
mod starter_inventory;
mod step_conflicts;
mod template;
mod template_check;
mod tree_render;
mod unknown_keys;
mod written_values;
mod yaml;
mod yaml_documents;
mod yaml_table;

pub use ansible::{AnsibleConversion, AnsibleDifference, convert_ansible_inventory};
pub use builtin_recipes::builtin_project;
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
pub use name_completion::{DeclaredNames, DeclaredRecipe, read_declared_names};
pub use notify::{DeferredSecret, NotifyRecipient, NotifyService};
pub use project::*;
pub use rollout::{NodeDrain, NodeReturnCondition, RebootPolicy, ResourceOffer, RolloutHours, RolloutPolicy};
pub use schema::{inventory_schema, recipe_schema};
pub use starter_inventory::{StarterConnect, StarterGroup, StarterHost, StarterInventory, sanitize_cluster_name};
pub use template::{EvalOutcome, FactSource, PendingInput, TemplateError};
pub use written_values::WrittenValues;

/// Returns the hosts that `selector` selects, in inventory order.
///
/// # Errors
/// The selector is malformed, names an unknown host or group, or selects no host.
pub fn select_hosts(project: &Project, selector: &str) -> Result<Vec<crate::model::HostName>, Box<crate::diag::Diag>> {
    let universe = inventory::selector::SelectorUniverse::from_hosts_and_groups(&project.hosts, &project.groups);
    let picked = universe.select(selector, None)?;
    Ok(picked.into_iter().filter_map(|at| project.hosts.get_index(at)).map(|(name, _)| name.clone()).collect())
}
