//! Configuration: reads inventories and recipes into typed values with their places in the files.

mod ansible;
pub mod builtin_data;
mod builtin_recipes;
mod catalog;
mod chart;
mod cluster_member;
mod cluster_step;
mod connect_settings;
#[cfg(test)]
mod cpu_time;
mod declaration_checks;
mod drift;
mod expand;
mod explain;
mod exported_values;
mod field_check;
mod file_access;
mod filter;
mod generated_entries;
mod generated_recipe;
mod graph_links;
mod host_share;
mod identifier;
mod inputs;
mod instances;
mod inventory;
mod load;
mod load_context;
mod load_options;
mod local_files;
mod lock_file;
mod locked_digests;
mod name_completion;
mod name_pattern;
mod notify;
mod project;
mod read_share;
mod recipe;
mod recipe_cycles;
mod recipe_declaration;
mod recipe_reads;
mod recipe_requirement;
mod rollout;
mod scalar;
mod schema;
mod secret_programs;
mod secret_reading;
mod slow_causes;
mod starter_inventory;
mod step_body_check;
mod step_conflicts;
mod template;
mod template_check;
mod template_list;
mod test_rounds;
mod test_suite;
mod tree_render;
mod unknown_keys;
mod written_values;
mod yaml;
mod yaml_documents;
mod yaml_node;
mod yaml_slips;
mod yaml_table;

pub use ansible::{AnsibleConversion, AnsibleDifference, convert_ansible_inventory};
pub use builtin_recipes::builtin_project;
pub use catalog::{
    ParamDetails, RecipeDetails, RecipeSummary, RuleDetails, StepDetails, VerifyDetails, find_recipe_details,
    list_recipes,
};
pub use chart::{ChartEdge, ChartEndpoint, ChartStep, DependencyChart, build_chart};
pub use connect_settings::{ConnectSettings, HostKeyPolicy, SudoMode, TransportKind};
pub use drift::{DriftIgnoreKind, DriftIgnoreRule, DriftPolicy, OutlierMode};
pub use expand::{
    ConditionOutcome, DeferredStep, ExpandedStep, ExpansionInputs, ExpansionState, InapplicableReason,
    SharedExpandedStep, StepExpander,
};
pub use explain::{
    RenderedStep, SharedByHosts, StepExplanation, StepInput, ValueExplanation, ValueName, ValueOrigin, explain_step,
    explain_value,
};
pub use exported_values::{ExportedValue, ExportedValues, MissingExport, MissingExports, format_first_names};
pub use filter::StepFilter;
pub use generated_recipe::{GeneratedRecipe, escape_template};
pub use host_share::HostShare;
pub use inputs::{InputFile, describe_changed_inputs};
use instances::RecipeLibrary;
pub use load::{load_for_tests, load_for_undo, load_project, load_to_learn_digests};
pub use load_options::{LoadOptions, RunSecretProgram, SecretPrograms};
pub use lock_file::{ArtifactLockFile, LockFileError, lock_file_path};
pub use name_completion::{DeclaredNames, DeclaredRecipe, read_cluster_name, read_declared_names};
pub use notify::{DeferredSecret, MailTransport, NotifyRecipient, NotifyService, SmtpLogin, SmtpServer};
pub use project::{GroupVars, Host, Project, RecipeInstance, SourcedValue, StackInstance, ValueSource};
pub use recipe_declaration::{
    DuringRequirement, FailurePattern, HostBarrier, ParamType, Recipe, RecipeEdge, RecipeParam, RecipeRule, RecipeStep,
    RecipeVerification, SourceExpr, StackUse, StepActivation, StepExport, VerifyTarget,
};
pub use recipe_reads::{list_read_exports, list_recipes_read_by};
pub use rollout::{NodeDrain, NodeReturnCondition, RebootPolicy, ResourceOffer, RolloutHours, RolloutPolicy};
pub use schema::{inventory_schema, recipe_schema};
pub use slow_causes::SlowQuestions;
pub use starter_inventory::{StarterConnect, StarterGroup, StarterHost, StarterInventory, sanitize_cluster_name};
pub use step_conflicts::{StepConflict, find_conflicts_by_facts, values_contradict};
pub use template::{EvalOutcome, FactSource, PendingInput, TemplateError};
pub use test_rounds::PlannedRounds;
pub use test_suite::{
    DeclaredLimit, DeclaredTest, PairSelection, ServerListening, TestDefinition, TestLaunch, TestOutput, TestPrograms,
    TestSuite, find_placeholders,
};
pub use written_values::WrittenValues;
pub use yaml_node::{YamlData, YamlKey, YamlNode};

/// Returns the hint for a name that is none of `hosts`, if one of them is similar.
pub fn suggest_host(name: &str, hosts: &[&str]) -> Option<String> {
    let near = || crate::diag::did_you_mean(name, hosts.iter().copied()).map(|near| format!("did you mean `{near}`?"));
    inventory::selector::suggest_numbered_host(name, hosts).or_else(near)
}

/// Returns the hosts that `selector` selects, in inventory order. `more` are groups in addition to those of the inventory.
///
/// # Errors
/// The selector is malformed, names an unknown host or group, or selects no host.
pub fn select_hosts(
    project: &Project,
    selector: &str,
    more: &[(&str, Vec<crate::model::HostName>)],
) -> Result<Vec<crate::model::HostName>, Box<crate::diag::Diag>> {
    let mut universe = inventory::selector::SelectorUniverse::from_hosts_and_groups(&project.hosts, &project.groups);
    more.iter().for_each(|(name, hosts)| universe.add_group(name, hosts));
    let picked = universe.select(selector, None)?;
    Ok(picked.into_iter().filter_map(|at| project.hosts.get_index(at)).map(|(name, _)| name.clone()).collect())
}
