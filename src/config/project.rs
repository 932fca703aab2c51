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
    /// The cluster's API, if one is declared.
    pub kubernetes: Option<crate::object::ClusterAccess>,
    /// The secrets that the inventory names. All other values contain only their placeholders.
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
    /// `recipe default`, `group gpu`, `host`, `with`, `stack h100-node`.
    pub from: String,
}

/// Connection settings of a host.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ConnectSettings {
    /// How sessions reach the host.
    pub transport: TransportKind,
    /// Host name, address or `~/.ssh/config` alias; defaults to the host's name.
    pub address: String,
    /// The login user; `None` leaves it to the ssh configuration.
    pub user: Option<String>,
    /// The TCP port; `None` leaves it to the ssh configuration.
    pub port: Option<u16>,
    /// The file of the private key; `None` leaves it to the ssh configuration.
    pub identity: Option<Utf8PathBuf>,
    /// `ssh -F FILE` instead of `~/.ssh/config`.
    pub config: Option<Utf8PathBuf>,
    /// The file of known host keys; `None` leaves it to the ssh configuration.
    pub known_hosts: Option<Utf8PathBuf>,
    /// Jump hosts, first hop first.
    pub jump: Vec<String>,
    /// Whether a host key that is not known yet is accepted.
    pub host_key: HostKeyPolicy,
    /// How the login user becomes root. A sandbox ignores it: forge is root there.
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

/// How sessions reach a host.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum TransportKind {
    /// The `ssh` program of the machine that runs forge.
    #[default]
    Ssh,
    /// No connection: the machine that runs forge is the host.
    Local,
    /// A copy-on-write view of the machine that runs forge.
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
    /// The name by which `apply` entries, edges and stacks refer to it.
    pub name: String,
    /// One line that describes it in lists; empty if not declared.
    pub summary: String,
    /// Its file; below `<built in>/` for a built-in recipe.
    pub path: Utf8PathBuf,
    /// The place of its name.
    pub span: Span,
    /// Declared parameters by name, in the order of the file.
    pub params: IndexMap<String, RecipeParam>,
    /// Edges of the recipe, which apply to each of its steps.
    pub needs: Vec<RecipeEdge>,
    /// Order-only edges of the recipe, which apply to each of its steps.
    pub after: Vec<RecipeEdge>,
    /// Units that must be stopped and modules that must be unloaded while other recipes change.
    pub during: Vec<DuringRequirement>,
    /// Conditions that must be true where it is applied, in the order of the file.
    pub rules: Vec<RecipeRule>,
    /// Its steps in the order in which they run; a removal reverses it. Empty for a stack.
    pub steps: Vec<Arc<RecipeStep>>,
    /// Names of steps that could not be read. Their errors are already reported.
    pub unread: BTreeSet<String>,
    /// Checks that must pass once it is applied. Empty for a stack.
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
    /// Name of the used recipe or stack.
    pub recipe: String,
    /// The place of that name.
    pub span: Span,
    /// Whether it is used on a host; `None` for always.
    pub when: Option<SourceExpr>,
    /// The parameters that the stack passes, by name: the unrendered value, and the place of its key.
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
    /// The name, an identifier: templates read `params.NAME`, and a variable of that name sets it.
    pub name: String,
    /// The type that a value must have.
    pub ty: ParamType,
    /// The value if none is set; `None` if one must be set, or if the default could not be read.
    pub default: Option<Value>,
    /// Whether it has a default that could not be read. Its error is already reported.
    pub unread: bool,
    /// The recipe's description; empty if it has none.
    pub doc: String,
    /// The place of the name.
    pub span: Span,
}

/// The type of a parameter, or of the elements of a list or map.
#[derive(Clone, Debug, PartialEq)]
pub enum ParamType {
    /// Text. A number is accepted and keeps its digits as typed.
    Text,
    /// `true` or `false`.
    Bool,
    /// A whole number.
    Int,
    /// One of these texts.
    Enum(Vec<String>),
    /// A list whose elements have this type.
    List(Box<ParamType>),
    /// A map with keys of one type and values of another.
    Map {
        /// The type of each key: text or a PCI address.
        keys: Box<ParamType>,
        /// The type of each value.
        values: Box<ParamType>,
    },
    /// A version as typed: `560.35.03`, `1:2.4~rc1-1`.
    Version,
    /// A PCI address as `lspci` prints it, with or without the domain; normalized to `0000:18:00.0`.
    PciAddress,
    /// A secret from the environment or a file. Its value is a placeholder.
    Secret,
    /// Any value, as typed. Only for elements of lists and maps.
    Any,
}

/// A dependency as declared: `needs: [nouveau]`, `after: [nvidia-gsp@configured]`.
#[derive(Clone, Debug, PartialEq)]
pub struct RecipeEdge {
    /// The recipe that must come first; for a step of the same recipe, the recipe itself.
    pub recipe: String,
    /// `None` for all steps of the recipe.
    pub step: Option<String>,
    /// The phase that it must have reached: `effective` if not declared.
    pub phase: StepPhase,
    /// Whether it applies only if that recipe is applied (`nouveau?`).
    pub optional: bool,
    /// For `needs` across hosts: how many of the selected hosts must have reached the phase.
    pub barrier: Option<HostBarrier>,
    /// The place of the edge.
    pub span: Span,
}

/// A barrier across hosts: `{ of: selected, least: 100% }`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HostBarrier {
    /// How many of the selected hosts must have reached the phase; 100 % if not declared.
    pub least: HostShare,
}

/// An expression and its place.
#[derive(Clone, Debug, PartialEq)]
pub struct SourceExpr {
    /// The expression as written, without braces.
    pub source: String,
    /// The place of the expression.
    pub span: Span,
}

/// `rules:` — conditions on parameters (checked by `validate`) or facts (checked per host).
#[derive(Clone, Debug)]
pub struct RecipeRule {
    /// Whether it is evaluated on the cluster instead of on hosts.
    pub of_cluster: bool,
    /// Whether the rule applies; `None` for always.
    pub when: Option<SourceExpr>,
    /// The condition that must be true.
    pub require: SourceExpr,
    /// The message if the condition is false (`else`), without templates; empty if it could not be read.
    pub otherwise: String,
    /// Why a host that breaks the rule is blocked: the host's state, the declaration, or the hardware. `None` if the
    /// rule only warns.
    pub class: Option<BlockClass>,
    /// The parameter whose text, unless it is empty, is the reason to only warn.
    pub accept: Option<String>,
    /// The place of the rule.
    pub span: Span,
}

/// A row of `fails_as:` — a failure message of a program and its cause.
#[derive(Clone, Debug, PartialEq)]
pub struct FailurePattern {
    /// Text that the program prints; `…` matches any text on the same line.
    pub text: String,
    /// The cause of the failure, and how to fix it.
    pub cause: String,
    /// The place of the row.
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
    /// Its name in reports, a short sentence.
    pub name: String,
    /// Whether it is evaluated on the cluster instead of on hosts.
    pub of_cluster: bool,
    /// Whether it applies; `None` for always.
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
    /// How deep it looks, from L0 (present, the default) to L5 (performance).
    pub level: VerifyLevel,
    /// The place of its name.
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
    /// The name, unique in the recipe.
    pub name: String,
    /// The place of the name.
    pub span: Span,
    /// Whether the step applies to a host; `None` for every host.
    pub when: Option<SourceExpr>,
    /// `otherwise: absent`: when `when` is false the resource is removed.
    pub otherwise_absent: bool,
    /// The list or map whose elements the step is repeated for; `None` to run it once.
    pub each: Option<SourceExpr>,
    /// Names each repetition; `None` to use the map's key or the element itself.
    pub key: Option<SourceExpr>,
    /// Edges to what must have succeeded before the step runs, in addition to those of the recipe.
    pub needs: Vec<RecipeEdge>,
    /// Order-only edges, in addition to those of the recipe.
    pub after: Vec<RecipeEdge>,
    /// How a configured change takes effect; `None` if the step's own action is enough.
    pub effective: Option<StepActivation>,
    /// Units that must be stopped and modules that must be unloaded while other recipes change.
    pub during: Vec<DuringRequirement>,
    /// Names of steps (same recipe) or `recipe/step` whose change restarts this service, or reboots the host.
    pub restart_on: Vec<(String, Span)>,
    /// What later steps can rely on in addition to the resource itself.
    pub provides: Vec<crate::resource::ProvidedItem>,
    /// Values that the step publishes, by name.
    pub exports: IndexMap<String, StepExport>,
    /// The class to which its changes are raised; `None` if the class follows from the change alone.
    pub disruption: Option<DisruptionClass>,
    /// Where the step runs: `host` if not declared, `cluster` for kinds of the cluster.
    pub scope: StepScope,
    /// How deep its verification looks, from L0 (present, the default) to L5 (performance).
    pub level: VerifyLevel,
    /// Seconds.
    pub timeout_s: Option<u64>,
    /// How often forge runs a failed action again: 0 (the default) to 10 times.
    pub retries: u32,
    /// Whether the action runs in a unit of its own and continues if the connection is lost.
    pub long: bool,
    /// The name of its resource's kind: `file`, `service`.
    pub kind: &'static str,
    /// The fields of the resource, with templates unrendered.
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
    /// What makes the change effective: `first-load`, `reload`, `restart`, `login` or `reboot`.
    pub by: Vec<String>,
    /// An expression over facts that is true once the change is effective; excludes `check`.
    pub expect: Option<SourceExpr>,
    /// A read-only command, unrendered, that exits 0 once the change is effective; excludes `expect`.
    pub check: Option<YamlNode>,
    /// The place of the value of `effective`.
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
    /// The place of the recipe's name in `during`.
    pub span: Span,
}

/// A value that a step publishes.
#[derive(Clone, Debug)]
pub struct StepExport {
    /// The name, an identifier: other steps read `exports["RECIPE"].NAME`.
    pub name: String,
    /// A read-only command whose stdout is the value; works in a plan too.
    pub read: Option<String>,
    /// The stdout of the step's own action; unknown until it ran.
    pub stdout: bool,
    /// An expression over facts of the host, of any type.
    pub value: Option<SourceExpr>,
    /// Whether the value is a secret, which is never shown.
    pub secret: bool,
    /// The place of the name.
    pub span: Span,
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
        let reason = self.params.get(rule.accept.as_ref()?)?.value.as_str()?.trim();
        (!reason.is_empty()).then_some(reason)
    }
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
