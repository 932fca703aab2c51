//! The result of a load: all declarations, resolved per host, with their places.

use super::host_share::HostShare;
use super::yaml_node::YamlNode;
use crate::diag::{SourceMap, Span};
use crate::graph::Graph;
use crate::model::{
    BlockClass, DisruptionClass, HardwareBoard, HostName, SecretStore, StepPhase, StepScope, Value, VerifyLevel,
};
use camino::Utf8PathBuf;
use indexmap::IndexMap;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

/// An inventory with its recipes, read and checked. No host has been contacted.
#[derive(Debug)]
pub struct Project {
    pub sources: SourceMap,
    pub inventory: Utf8PathBuf,
    pub cluster: String,
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
    pub rollout: super::RolloutPolicy,
    pub drift: super::DriftPolicy,
    /// The cluster's API, if one is declared.
    pub kubernetes: Option<crate::object::ClusterAccess>,
    pub secrets: SecretStore,
    /// Environment variables that secrets were read from. forge does not pass them to child processes.
    pub secret_variables: Arc<BTreeSet<String>>,
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

    /// Returns the hosts, without the cluster's API.
    pub fn machine_names(&self) -> impl Iterator<Item = &HostName> {
        self.hosts.keys().filter(|host| !host.is_cluster())
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
    pub name: HostName,
    pub connect: ConnectSettings,
    pub vars: BTreeMap<String, SourcedValue>,
    pub groups: Vec<String>,
    pub span: Span,
}

/// A value with its origin, for `explain`.
#[derive(Clone, Debug, PartialEq)]
pub struct SourcedValue {
    pub value: Value,
    /// `None` for a built-in default.
    pub span: Option<Span>,
    /// `recipe default`, `group gpu`, `host`, `with`, `stack h100-node`.
    pub from: String,
}

/// Connection settings of a host.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ConnectSettings {
    pub transport: TransportKind,
    /// Host name, address or `~/.ssh/config` alias; defaults to the host's name.
    pub address: String,
    pub user: Option<String>,
    pub port: Option<u16>,
    pub identity: Option<Utf8PathBuf>,
    /// `ssh -F FILE` instead of `~/.ssh/config`.
    pub config: Option<Utf8PathBuf>,
    pub known_hosts: Option<Utf8PathBuf>,
    /// Jump hosts, first hop first.
    pub jump: Vec<String>,
    pub host_key: HostKeyPolicy,
    pub sudo: SudoMode,
    /// The board whose devices a sandbox simulates.
    pub hardware: Option<HardwareBoard>,
    /// Connection timeout; 0 if none is declared. Seconds.
    pub timeout_s: u64,
    /// How long to keep a session open for the next run; 0 to close it. Seconds.
    pub keep_s: u64,
}

impl Project {
    /// Returns whether a host is a sandbox.
    pub fn is_simulated(&self, host: &HostName) -> bool {
        self.hosts.get(host).is_some_and(|host| host.connect.transport == TransportKind::Sandbox)
    }
}

#[derive(Clone, Debug, Default, PartialEq)]
pub enum TransportKind {
    #[default]
    Ssh,
    Local,
    Sandbox,
    /// A program that runs a shell on its stdin.
    Command(Vec<String>),
}

/// How an unknown host key is handled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HostKeyPolicy {
    /// Reject it, with a hint.
    #[default]
    Strict,
    /// Accept and store a new key; reject a changed one.
    AcceptNew,
}

/// How forge becomes root.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum SudoMode {
    /// Without sudo: the login user is root or does not need root.
    #[default]
    None,
    /// `sudo -n`.
    NoPassword,
    /// `sudo` with a password. Holds its placeholder in the secret store.
    Password(String),
}

/// A recipe as declared.
#[derive(Debug)]
pub struct Recipe {
    pub name: String,
    pub summary: String,
    /// Its file; below `<built in>/` for a built-in recipe.
    pub path: Utf8PathBuf,
    pub span: Span,
    pub params: IndexMap<String, RecipeParam>,
    /// Edges of the recipe, which apply to each of its steps.
    pub needs: Vec<RecipeEdge>,
    pub after: Vec<RecipeEdge>,
    /// Units that must be stopped and modules that must be unloaded while other recipes change.
    pub during: Vec<DuringRequirement>,
    pub rules: Vec<RecipeRule>,
    pub steps: Vec<Arc<RecipeStep>>,
    /// Names of steps that could not be read. Their errors are already reported.
    pub unread: BTreeSet<String>,
    pub verify: Vec<RecipeVerification>,
    /// For a stack: the recipes it uses. A stack has no steps.
    pub uses: Vec<StackUse>,
    /// Known failure messages of its programs, with their causes.
    pub fails_as: Vec<FailurePattern>,
}

impl Recipe {
    /// Returns the cause of the first row of `fails_as` that matches `output`.
    pub fn find_failure_cause(&self, output: &str) -> Option<&str> {
        self.fails_as.iter().find(|row| row.matches_output(output)).map(|row| row.cause.as_str())
    }
}

/// One recipe that a stack uses, with the parameters it passes on.
#[derive(Clone, Debug)]
pub struct StackUse {
    pub recipe: String,
    pub span: Span,
    pub when: Option<SourceExpr>,
    pub with: IndexMap<String, (YamlNode, Span)>,
}

impl Recipe {
    /// Returns the `during` entries of the recipe and its steps.
    pub fn during_requirements(&self) -> impl Iterator<Item = &DuringRequirement> {
        self.during.iter().chain(self.steps.iter().flat_map(|step| &step.during))
    }
}

/// A typed parameter.
#[derive(Clone, Debug)]
pub struct RecipeParam {
    pub name: String,
    pub ty: ParamType,
    pub default: Option<Value>,
    /// Whether it has a default that could not be read. Its error is already reported.
    pub unread: bool,
    pub doc: String,
    pub span: Span,
}

#[derive(Clone, Debug, PartialEq)]
pub enum ParamType {
    Text,
    Bool,
    Int,
    Enum(Vec<String>),
    List(Box<ParamType>),
    Map {
        keys: Box<ParamType>,
        values: Box<ParamType>,
    },
    Version,
    /// A PCI address as `lspci` prints it, with or without the domain; normalized to `0000:18:00.0`.
    PciAddress,
    Secret,
    /// Any value, as typed. Only for elements of lists and maps.
    Any,
}

/// A dependency as declared: `needs: [nouveau]`, `after: [nvidia-gsp@configured]`.
#[derive(Clone, Debug, PartialEq)]
pub struct RecipeEdge {
    pub recipe: String,
    /// `None` for all steps of the recipe.
    pub step: Option<String>,
    pub phase: StepPhase,
    /// Whether it applies only if that recipe is applied (`nouveau?`).
    pub optional: bool,
    /// For `needs` across hosts: how many of the selected hosts must have reached the phase.
    pub barrier: Option<HostBarrier>,
    pub span: Span,
}

/// A barrier across hosts: `{ of: selected, least: 100% }`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HostBarrier {
    pub least: HostShare,
}

/// An expression and its place.
#[derive(Clone, Debug, PartialEq)]
pub struct SourceExpr {
    pub source: String,
    pub span: Span,
}

/// `rules:` — conditions on parameters (checked by `validate`) or facts (checked per host).
#[derive(Clone, Debug)]
pub struct RecipeRule {
    /// Whether it is evaluated on the cluster instead of on hosts.
    pub of_cluster: bool,
    pub when: Option<SourceExpr>,
    pub require: SourceExpr,
    pub otherwise: String,
    /// Why a host that breaks the rule is blocked: the host's state, the declaration, or the hardware. `None` if the
    /// rule only warns.
    pub class: Option<BlockClass>,
    pub span: Span,
}

/// A row of `fails_as:` — a failure message of a program and its cause.
#[derive(Clone, Debug, PartialEq)]
pub struct FailurePattern {
    /// Text that the program prints; `…` matches any text on the same line.
    pub text: String,
    /// The cause of the failure, and how to fix it.
    pub cause: String,
    pub span: Span,
}

impl FailurePattern {
    /// Returns whether one line of `output` contains all parts of the text, in order.
    pub fn matches_output(&self, output: &str) -> bool {
        output.lines().any(|line| {
            let mut rest = Some(line);
            self.text.split('…').for_each(|part| rest = rest.and_then(|rest| Some(rest.split_once(part.trim())?.1)));
            rest.is_some()
        })
    }
}

/// `verify:` — a check that must pass once the recipe is applied.
#[derive(Clone, Debug)]
pub struct RecipeVerification {
    pub name: String,
    /// Whether it is evaluated on the cluster instead of on hosts.
    pub of_cluster: bool,
    pub when: Option<SourceExpr>,
    /// Objects of the cluster that `expect` reads.
    pub about: Option<VerifyTarget>,
    /// Either an expression over facts …
    pub expect: Option<SourceExpr>,
    /// … or a read-only command that must exit 0.
    pub check: Option<YamlNode>,
    /// A template that shows the relevant values if the verification fails.
    pub shows: Option<(String, Span)>,
    /// How long an apply waits for it to pass. Seconds.
    pub within_s: Option<u64>,
    pub level: VerifyLevel,
    pub span: Span,
}

/// The objects of the cluster that a verification reads.
#[derive(Clone, Debug)]
pub enum VerifyTarget {
    /// `object`: one object, by name.
    One(YamlNode),
    /// `objects`: all objects of a kind, or those with certain labels.
    All(YamlNode),
}

impl VerifyTarget {
    /// Returns the query, with its templates unrendered.
    pub fn target_node(&self) -> &YamlNode {
        match self {
            Self::One(node) | Self::All(node) => node,
        }
    }
}

/// A step as declared. Its resource stays a tree until a host's values are known.
#[derive(Debug)]
pub struct RecipeStep {
    pub name: String,
    pub span: Span,
    pub when: Option<SourceExpr>,
    /// `otherwise: absent`: when `when` is false the resource is removed.
    pub otherwise_absent: bool,
    pub each: Option<SourceExpr>,
    pub key: Option<SourceExpr>,
    pub needs: Vec<RecipeEdge>,
    pub after: Vec<RecipeEdge>,
    pub effective: Option<StepActivation>,
    /// Units that must be stopped and modules that must be unloaded while other recipes change.
    pub during: Vec<DuringRequirement>,
    /// Names of steps (same recipe) or `recipe/step` whose change restarts this service, or reboots the host.
    pub restart_on: Vec<(String, Span)>,
    pub provides: Vec<crate::resource::ProvidedItem>,
    pub exports: IndexMap<String, StepExport>,
    pub disruption: Option<DisruptionClass>,
    pub scope: StepScope,
    pub level: VerifyLevel,
    /// Seconds.
    pub timeout_s: Option<u64>,
    pub retries: u32,
    pub long: bool,
    /// The resource's kind and its tree.
    pub kind: &'static str,
    pub body: YamlNode,
}

impl RecipeStep {
    /// Returns the unrendered value of a field of its resource.
    pub fn field_node(&self, name: &str) -> Option<&YamlNode> {
        self.body.get(name)
    }

    /// Returns what holds for every step of its kind.
    pub fn traits(&self) -> &'static crate::resource::KindTraits {
        crate::resource::kind_traits(self.kind)
    }
}

/// How a configured step takes effect, and how that is verified.
#[derive(Clone, Debug)]
pub struct StepActivation {
    pub by: Vec<String>,
    pub expect: Option<SourceExpr>,
    pub check: Option<YamlNode>,
    pub span: Span,
}

/// Requirements of a recipe on its host while another recipe changes in a window.
#[derive(Clone, Debug, PartialEq)]
pub struct DuringRequirement {
    /// The recipe that changes.
    pub recipe: String,
    /// Units that must be stopped, with their type suffix.
    pub stopped: Vec<String>,
    /// Kernel modules that must be unloaded.
    pub unloaded: Vec<String>,
    pub span: Span,
}

/// A value that a step publishes.
#[derive(Clone, Debug)]
pub struct StepExport {
    pub name: String,
    /// A read-only command whose stdout is the value; works in a plan too.
    pub read: Option<String>,
    /// The stdout of the step's own action; unknown until it ran.
    pub stdout: bool,
    /// An expression over facts of the host, of any type.
    pub value: Option<SourceExpr>,
    pub secret: bool,
    pub span: Span,
}

/// A recipe on one host, with its parameters.
#[derive(Debug)]
pub struct RecipeInstance {
    pub recipe: Arc<Recipe>,
    /// Whether the recipe is removed (`ensure: absent`).
    pub absent: bool,
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

/// A stack on one host, with its parameters.
#[derive(Debug)]
pub struct StackInstance {
    pub stack: Arc<Recipe>,
    pub params: Arc<BTreeMap<String, SourcedValue>>,
    /// The stack that uses this one.
    pub outer: Option<Arc<StackInstance>>,
}

/// Variables that a group sets for its hosts.
#[derive(Clone, Debug, Default)]
pub struct GroupVars {
    pub vars: BTreeMap<String, SourcedValue>,
    /// How many groups contain it, directly or indirectly. Of two groups of a host, the one with the higher depth is
    /// the inner one.
    pub depth: usize,
}
