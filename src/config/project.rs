//! The result of a load: all declarations, resolved per host, with their places.

use super::connect_settings::{ConnectSettings, TransportKind};
use super::recipe_declaration::{Recipe, RecipeRule};
use crate::diag::{SourceMap, Span};
use crate::graph::Graph;
use crate::model::{HostName, SecretStore, Value};
use camino::Utf8PathBuf;
use indexmap::IndexMap;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

/// An inventory with its recipes, read and checked. No host has been contacted.
#[derive(Debug)]
pub struct Project {
    /// The text of every file that was read. Spans point into these files.
    pub sources: SourceMap,
    /// The path of the inventory, as the caller of the load gave it.
    pub inventory: Utf8PathBuf,
    /// The name of the cluster, which also names its state directory and marks its records.
    pub cluster: String,
    /// The hosts in the order of the inventory. If steps run through the cluster's API, the API is the last one.
    pub hosts: IndexMap<HostName, Host>,
    /// Group → hosts, in inventory order; `all` is among them.
    pub groups: IndexMap<String, Vec<HostName>>,
    /// Variables of groups, by group name, including those that hosts or inner groups override.
    pub group_vars: IndexMap<String, GroupVars>,
    /// Every available recipe, including stacks and recipes that are not applied.
    pub library: IndexMap<String, Arc<Recipe>>,
    /// Every applied recipe, after stacks are expanded, by name.
    pub recipes: IndexMap<String, Arc<Recipe>>,
    /// The recipes applied to each host, in graph order.
    pub instances: IndexMap<HostName, Vec<Arc<RecipeInstance>>>,
    /// The dependency graph of hosts from which nothing is removed.
    pub graph: Graph,
    /// Applied recipes, with the recipes whose version they read and with which they must change together.
    pub ties: BTreeMap<String, BTreeSet<String>>,
    /// Dependency graphs of hosts from which recipes are removed, shared between hosts.
    pub(super) removals: HashMap<HostName, Arc<Graph>>,
    /// The `rollout:` settings; defaults if the inventory has none.
    pub rollout: super::RolloutPolicy,
    /// The `drift:` settings; defaults if the inventory has none.
    pub drift: super::DriftPolicy,
    /// The `undo:` settings; defaults if the inventory has none.
    pub undo: crate::model::UndoRetention,
    /// Which leaf each adapter is connected to, if that is declared.
    pub fabric: crate::acceptance::FabricLayout,
    /// The declared sets of acceptance tests, and the built-in sets.
    pub tests: super::TestSuite,
    /// The cluster's API, if one is declared.
    pub kubernetes: Option<crate::object::ClusterAccess>,
    /// Where workers run as pods, if that is declared.
    pub worker_pods: Option<crate::object::WorkerPods>,
    /// The secrets that the inventory names. All other values contain only their placeholders.
    pub secrets: SecretStore,
    /// Environment variables that secrets were read from. forge does not pass them to child processes.
    pub secret_variables: Arc<BTreeSet<String>>,
    /// Whether the recipes are generated for an undo: then the inventory's own steps are not among them.
    pub generated: bool,
    /// Compiled templates.
    pub(super) programs: super::template::ProgramCache,
    /// Local files that recipes refer to.
    pub(super) files: super::local_files::LocalFileStore,
    /// Digests in the lock file, for steps that declare none.
    pub(super) digests: super::locked_digests::LockedDigests,
}

impl Project {
    /// Returns the dependency graph of a host. Steps have the same index on every host.
    pub fn graph_for_host(&self, host: &HostName) -> &Graph {
        match self.removals.is_empty() {
            true => &self.graph,
            false => self.removals.get(host).map_or(&self.graph, Arc::as_ref),
        }
    }

    /// Returns the `file:line:col` of a step. Empty in an undo: its recipe is not in a file that the user has.
    pub fn format_step_place(&self, step: Span) -> String {
        if self.generated { String::new() } else { self.sources.format_location(step) }
    }

    /// Returns the hosts, without the cluster's API.
    pub fn machine_names(&self) -> impl Iterator<Item = &HostName> {
        self.hosts.keys().filter(|host| !host.is_cluster())
    }

    /// Reports whether a step of some recipe exports values.
    pub fn exports_values(&self) -> bool {
        self.recipes.values().flat_map(|recipe| &recipe.steps).any(|step| !step.exports.is_empty())
    }

    /// Returns the name of the cluster's API, if steps run through it.
    pub fn cluster_member(&self) -> Option<&HostName> {
        // `member::place` inserts it after all hosts.
        self.hosts.keys().next_back().filter(|last| last.is_cluster())
    }

    /// Returns the text of every file that was read: the inventory, recipes, and the files that they refer to.
    pub fn list_source_texts(&self) -> Vec<String> {
        let sources = self.sources.files().map(|(_, _, text)| text.to_owned());
        let named =
            self.files.list_contents().into_iter().filter_map(|(_, content)| content.as_str().map(str::to_owned));
        sources.chain(named).collect()
    }

    /// Returns the canonical path of the inventory's folder.
    pub fn inventory_root(&self) -> &camino::Utf8Path {
        self.files.root()
    }
}

/// A host of the inventory.
#[derive(Clone, Debug)]
pub struct Host {
    /// The name in the inventory, or the fixed name of the cluster's API.
    pub name: HostName,
    /// How to reach the host: the settings of the inventory, its groups and the host, merged key by key.
    pub connect: ConnectSettings,
    /// Variables by name, merged from its groups and the host: the innermost value wins.
    pub vars: BTreeMap<String, SourcedValue>,
    /// The groups that contain it, directly or through other groups, in the order of the inventory.
    pub groups: Vec<String>,
    /// Its name or pattern in `hosts:`; for the cluster's API, the first recipe with a part that runs there.
    pub span: Span,
}

/// A value with its origin, for `explain`.
#[derive(Clone, Debug, PartialEq)]
pub struct SourcedValue {
    /// The value that takes effect. A secret is a placeholder.
    pub value: Value,
    /// `None` for a built-in default.
    pub span: Option<Span>,
    /// The declaration that it is from.
    pub from: ValueSource,
}

/// The declaration that a value is from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ValueSource {
    /// The default of a recipe's parameter.
    RecipeDefault,
    /// The variables of a group, by its name.
    Group(String),
    /// The variables of the host.
    Host,
    /// `with` of an entry of `apply`.
    With,
    /// `with` of a stack, by its name.
    Stack(String),
}

impl ValueSource {
    /// Reports whether the entry or the stack that uses the recipe gives the value.
    pub fn is_given(&self) -> bool {
        matches!(self, Self::With | Self::Stack(_))
    }
}

impl std::fmt::Display for ValueSource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::RecipeDefault => f.write_str("recipe default"),
            Self::Group(name) => write!(f, "group {name}"),
            Self::Host => f.write_str("host"),
            Self::With => f.write_str("with"),
            Self::Stack(name) => write!(f, "stack {name}"),
        }
    }
}

impl Project {
    /// Returns whether a host is a sandbox.
    pub fn is_simulated(&self, host: &HostName) -> bool {
        self.hosts.get(host).is_some_and(|host| host.connect.transport == TransportKind::Sandbox)
    }
}

/// A recipe on one host, with its parameters.
#[derive(Debug)]
pub struct RecipeInstance {
    /// The applied recipe. If it also runs on the cluster's API, only the parts for this host, or for the API.
    pub recipe: Arc<Recipe>,
    /// Whether the recipe is removed (`ensure: absent`).
    pub absent: bool,
    /// The value of each parameter on this host, by name.
    pub params: BTreeMap<String, SourcedValue>,
    /// The entry of `apply:` (or the stack's line) that declares it.
    pub span: Span,
    /// The hosts of the entry, for scopes and barriers. Shared by all instances of the entry.
    pub selection: Arc<Vec<HostName>>,
    /// The stack that uses it.
    pub stack: Option<String>,
    /// That stack with its own parameters.
    pub through: Option<Arc<StackInstance>>,
}

impl RecipeInstance {
    /// Returns the declared reason to accept that a rule is broken; the rule then only warns.
    pub fn find_accepted_reason(&self, rule: &RecipeRule) -> Option<&str> {
        find_accepted_reason(&self.params, rule)
    }
}

/// Like [`RecipeInstance::find_accepted_reason`], for the parameters of a stack too.
pub(super) fn find_accepted_reason<'p>(
    params: &'p BTreeMap<String, SourcedValue>,
    rule: &RecipeRule,
) -> Option<&'p str> {
    let reason = params.get(rule.accept.as_ref()?)?.value.as_str()?.trim();
    (!reason.is_empty()).then_some(reason)
}

/// A stack on one host, with its parameters.
#[derive(Debug)]
pub struct StackInstance {
    /// The stack as declared.
    pub stack: Arc<Recipe>,
    /// The values of the stack's own parameters on this host, by name.
    pub params: Arc<BTreeMap<String, SourcedValue>>,
    /// The stack that uses this one.
    pub outer: Option<Arc<StackInstance>>,
}

/// Variables that a group sets for its hosts.
#[derive(Clone, Debug, Default)]
pub struct GroupVars {
    /// The variables that the group itself declares, by name.
    pub vars: BTreeMap<String, SourcedValue>,
    /// How many groups contain it, directly or indirectly. Of two groups of a host, the one with the higher depth is
    /// the inner one.
    pub depth: usize,
}
