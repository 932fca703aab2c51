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

pub use ansible::{Converted, Difference, from_ansible};
pub use catalog::{ParamLine, RecipeLine, RecipePage, RuleLine, StepLine, VerifyLine, catalog, recipe_page};
pub use chart::{Chart, ChartEdge, ChartEnd, ChartStep, chart};
pub use drift::{DriftPolicy, Ignore, Ignored, OutlierMode};
pub use expand::{Deferred, Expanded, Expander, Exports, Judged, Known, SharedTurn, State};
pub use explain::{Input, OnHosts, Origin, Rendered, StepPage, ValueName, ValuePage, explain_step, explain_value};
pub use filter::StepFilter;
pub use inputs::{InputFile, changed_inputs};
use instances::Library;
pub use load::{LoadOptions, load, load_to_learn};
pub use names::{DeclaredNames, DeclaredRecipe, declared_names};
pub use notify::{LateSecret, Recipient, Service};
pub use project::*;
pub use rollout::{Hours, NodeDrain, Offer, Reboots, Returns, Rollout};
pub use schema::{inventory_schema, recipe_schema};
pub use shelf::shelf;
pub use starting::{Settings, Starting, StartingGroup, StartingHost, cluster_name};
pub use template::{Eval, FactSource, Need, TemplateError};
pub use written::WrittenValues;

/// Returns the hosts that `selector` selects, in inventory order.
///
/// # Errors
/// The selector is malformed, names an unknown host or group, or selects no host.
pub fn select(project: &Project, selector: &str) -> Result<Vec<crate::model::HostName>, Box<crate::diag::Diag>> {
    let universe = inventory::selector::Universe::of(&project.hosts, &project.groups);
    let picked = universe.select(selector, None)?;
    Ok(picked.into_iter().filter_map(|at| project.hosts.get_index(at)).map(|(name, _)| name.clone()).collect())
}
