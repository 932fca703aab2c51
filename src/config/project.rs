//! The result of a load: everything that was declared, resolved per host, with its places.

use crate::diag::{Sources, Span};
use crate::graph::Graph;
use crate::model::{BlockClass, Disruption, HostName, Level, Phase, Scope, SecretStore, Value};
use crate::transport::Board;
use camino::Utf8PathBuf;
use indexmap::IndexMap;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

/// An inventory with its recipes, read and checked. Nothing has been contacted.
#[derive(Debug)]
pub struct Project {
    pub sources: Sources,
    pub inventory: Utf8PathBuf,
    pub cluster: String,
    pub hosts: IndexMap<HostName, Host>,
    /// Group → hosts, in inventory order; `all` is among them.
    pub groups: IndexMap<String, Vec<HostName>>,
    /// What groups give their hosts, by name: the losers too, which no host knows of any more.
    pub group_vars: IndexMap<String, GroupVars>,
    /// Every recipe that can be named, stacks among them, applied or not.
    pub library: IndexMap<String, Arc<Recipe>>,
    /// Every recipe that is applied, after stacks are unfolded, by name.
    pub recipes: IndexMap<String, Arc<Recipe>>,
    /// What is applied to each host, in graph order of the recipes.
    pub instances: IndexMap<HostName, Vec<Arc<Instance>>>,
    /// Steps and who waits for whom where nothing is removed.
    pub graph: Graph,
    /// Of applied recipes: those whose version they read, and must therefore be changed together with.
    pub ties: BTreeMap<String, BTreeSet<String>>,
    /// The graphs of hosts that recipes are removed from; hosts share them.
    pub(super) removals: HashMap<HostName, Arc<Graph>>,
    pub rollout: super::Rollout,
    pub drift: super::DriftPolicy,
    /// The cluster's API, where one is declared.
    pub kubernetes: Option<crate::kube::Access>,
    pub secrets: SecretStore,
    /// Environment variables that secrets came from: programs that forge starts are not given them.
    pub secret_variables: Arc<BTreeSet<String>>,
    /// Compiled templates.
    pub(super) programs: super::template::Programs,
    /// Local files that recipes name.
    pub(super) files: super::files::Files,
    /// Digests that steps leave to the lock file.
    pub(super) digests: super::digests::Digests,
}

impl Project {
    /// Returns the steps of a host and who waits for whom there. Steps have the same index on every host.
    pub fn graph_of(&self, host: &HostName) -> &Graph {
        match self.removals.is_empty() {
            true => &self.graph,
            false => self.removals.get(host).map_or(&self.graph, Arc::as_ref),
        }
    }

    /// Returns the hosts, without the cluster's API beside them.
    pub fn machines(&self) -> impl Iterator<Item = &HostName> {
        self.hosts.keys().filter(|host| !host.is_cluster())
    }

    /// Returns the name of the cluster's API, where steps run through it.
    pub fn member(&self) -> Option<&HostName> {
        // It was put behind all hosts.
        self.hosts.keys().next_back().filter(|last| last.is_cluster())
    }

    /// Returns the text of every file that was read: the inventory, recipes, and the files that they name.
    pub fn written_texts(&self) -> Vec<String> {
        let sources = self.sources.files().map(|(_, _, text)| text.to_owned());
        let named = self.files.contents().into_iter().filter_map(|(_, content)| content.as_str().map(str::to_owned));
        sources.chain(named).collect()
    }

    /// Returns the folder of the inventory, with every link followed.
    pub fn root(&self) -> &camino::Utf8Path {
        self.files.root()
    }
}

/// A host of the inventory.
#[derive(Clone, Debug)]
pub struct Host {
    pub name: HostName,
    pub connect: Connect,
    pub vars: BTreeMap<String, Sourced>,
    pub groups: Vec<String>,
    pub span: Span,
}

/// A value with the place that decided it, for `explain`.
#[derive(Clone, Debug, PartialEq)]
pub struct Sourced {
    pub value: Value,
    /// `None` for a built-in default.
    pub span: Option<Span>,
    /// `recipe default`, `group gpu`, `host`, `with`, `stack h100-node`.
    pub from: String,
}

/// How a host is reached.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Connect {
    pub transport: TransportKind,
    /// Host name, address or `~/.ssh/config` alias; the host's own name when not given.
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
    pub sudo: Sudo,
    /// Whose cards a sandbox shows.
    pub hardware: Option<Board>,
    /// Seconds to a connection at most; 0 where nothing is declared.
    pub timeout_s: u64,
    /// Seconds that a session is kept for the next run; 0 for none.
    pub keep_s: u64,
}

impl Project {
    /// Returns whether a host is a sandbox, not a machine.
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
    /// A program that gives a shell on stdin.
    Command(Vec<String>),
}

/// What happens with a host key that is not known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HostKeyPolicy {
    /// Refused, with a hint.
    #[default]
    Strict,
    /// A new key is taken and kept; a changed one is refused.
    AcceptNew,
}

/// How root is reached.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Sudo {
    /// The login user is root, or needs none.
    #[default]
    None,
    /// `sudo -n`.
    NoPassword,
    /// `sudo`, with a password: the placeholder in the secret store.
    Password(String),
}

/// A recipe as written.
#[derive(Debug)]
pub struct Recipe {
    pub name: String,
    pub summary: String,
    /// `None` for a recipe built into forge.
    pub path: Utf8PathBuf,
    pub span: Span,
    pub params: IndexMap<String, Param>,
    /// Recipe-level edges: hold for every step of the recipe.
    pub needs: Vec<Edge>,
    pub after: Vec<Edge>,
    /// What it needs while others change.
    pub during: Vec<During>,
    pub rules: Vec<Rule>,
    pub steps: Vec<Arc<Step>>,
    /// Names of steps that could not be read: what is wrong with them is told.
    pub unread: BTreeSet<String>,
    pub verify: Vec<Verify>,
    /// For a stack: the recipes it uses. A stack has no steps.
    pub uses: Vec<Use>,
    /// What its programs print when they fail, and why.
    pub fails_as: Vec<FailsAs>,
}

impl Recipe {
    /// Returns the cause of the first row of `fails_as` whose text `output` holds.
    pub fn cause(&self, output: &str) -> Option<&str> {
        self.fails_as.iter().find(|row| row.matches(output)).map(|row| row.cause.as_str())
    }
}

/// One recipe that a stack uses, with the parameters it passes on.
#[derive(Clone, Debug)]
pub struct Use {
    pub recipe: String,
    pub span: Span,
    pub when: Option<Expr>,
    pub with: IndexMap<String, (Node, Span)>,
}

impl Recipe {
    /// Returns what it and its steps need while others change.
    pub fn needs_during(&self) -> impl Iterator<Item = &During> {
        self.during.iter().chain(self.steps.iter().flat_map(|step| &step.during))
    }
}

/// A typed parameter.
#[derive(Clone, Debug)]
pub struct Param {
    pub name: String,
    pub ty: ParamType,
    pub default: Option<Value>,
    /// Whether it has a default that could not be read: what is wrong with it is told.
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
    /// As `lspci` prints it, with or without the domain; read as `0000:18:00.0`.
    PciAddress,
    Secret,
    /// Whatever stands there, as it was typed: only for elements.
    Any,
}

/// An edge of the graph as written: `needs: [nouveau]`, `after: [nvidia-gsp@configured]`.
#[derive(Clone, Debug, PartialEq)]
pub struct Edge {
    pub recipe: String,
    /// `None` for all steps of the recipe.
    pub step: Option<String>,
    pub phase: Phase,
    /// Whether it holds only where that recipe is applied (`nouveau?`).
    pub optional: bool,
    /// Of `needs` across hosts: how many of the selection must have got there.
    pub barrier: Option<Barrier>,
    pub span: Span,
}

/// A barrier across hosts: `{ of: selected, least: 100% }`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Barrier {
    pub least: Share,
}

/// A count or a percentage of the selected hosts; percentages are rounded down, at least 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Share {
    Count(u32),
    Percent(u32),
}

impl Share {
    /// Returns how many of `total` that is.
    pub fn of(self, total: usize) -> usize {
        match self {
            Self::Count(count) => count as usize,
            Self::Percent(percent) => (total * percent as usize / 100).max(1).min(total.max(1)),
        }
    }
}

/// An expression and its place.
#[derive(Clone, Debug, PartialEq)]
pub struct Expr {
    pub source: String,
    pub span: Span,
}

/// `rules:` — what must hold for parameters (judged at validate) or facts (judged per host).
#[derive(Clone, Debug)]
pub struct Rule {
    /// Whether it is of the cluster, and not of hosts.
    pub of_cluster: bool,
    pub when: Option<Expr>,
    pub require: Expr,
    pub otherwise: String,
    /// What a host that it does not hold for lacks: by its facts, what was declared, or the hardware. `None` where the
    /// rule only warns.
    pub class: Option<BlockClass>,
    pub span: Span,
}

/// A row of `fails_as:` — what a program prints, and what that means.
#[derive(Clone, Debug, PartialEq)]
pub struct FailsAs {
    /// Text of the program; `…` stands for anything on the same line.
    pub text: String,
    /// Why it prints that, and what to do.
    pub cause: String,
    pub span: Span,
}

impl FailsAs {
    /// Returns whether `output` holds the text: its parts one after the other on one line.
    pub fn matches(&self, output: &str) -> bool {
        output.lines().any(|line| {
            let mut rest = Some(line);
            self.text.split('…').for_each(|part| rest = rest.and_then(|rest| Some(rest.split_once(part.trim())?.1)));
            rest.is_some()
        })
    }
}

/// `verify:` — what must be seen once the recipe is applied.
#[derive(Clone, Debug)]
pub struct Verify {
    pub name: String,
    /// Whether it is of the cluster, and not of hosts.
    pub of_cluster: bool,
    pub when: Option<Expr>,
    /// Objects of the cluster that `expect` is about.
    pub about: Option<About>,
    /// Either an expression over facts …
    pub expect: Option<Expr>,
    /// … or a read-only command that must exit 0.
    pub check: Option<Node>,
    /// A text with the values that matter, for where it does not hold.
    pub shows: Option<(String, Span)>,
    /// How long an apply waits until it holds. Seconds.
    pub within_s: Option<u64>,
    pub level: Level,
    pub span: Span,
}

/// Objects of the cluster that a verification is about.
#[derive(Clone, Debug)]
pub enum About {
    /// `object`: one, by its name.
    One(Node),
    /// `objects`: all of a kind, or those that have some labels.
    All(Node),
}

impl About {
    /// Returns which ones, with templates as they were written.
    pub fn node(&self) -> &Node {
        match self {
            Self::One(node) | Self::All(node) => node,
        }
    }
}

/// A step as written. Its resource is kept as a tree until a host's values are known.
#[derive(Debug)]
pub struct Step {
    pub name: String,
    pub span: Span,
    pub when: Option<Expr>,
    /// `otherwise: absent`: when `when` is false the resource is removed.
    pub otherwise_absent: bool,
    pub each: Option<Expr>,
    pub key: Option<Expr>,
    pub needs: Vec<Edge>,
    pub after: Vec<Edge>,
    pub effective: Option<Effective>,
    /// What this recipe needs while others change.
    pub during: Vec<During>,
    /// Names of steps (same recipe) or `recipe/step` whose change restarts this service, or reboots the host.
    pub restart_on: Vec<(String, Span)>,
    pub provides: Vec<crate::resource::Provision>,
    pub exports: IndexMap<String, Export>,
    pub disruption: Option<Disruption>,
    pub scope: Scope,
    pub level: Level,
    /// Seconds.
    pub timeout_s: Option<u64>,
    pub retries: u32,
    pub long: bool,
    /// The resource's kind and its tree.
    pub kind: &'static str,
    pub body: Node,
}

impl Step {
    /// Returns what was written for a field of its resource.
    pub fn field(&self, name: &str) -> Option<&Node> {
        self.body.get(name)
    }
}

impl Node {
    /// Returns the value of a key, where this is a map that has it.
    pub fn get(&self, name: &str) -> Option<&Node> {
        let Data::Map(entries) = &self.data else { return None };
        entries.iter().find(|(key, _)| key.text == name).map(|(_, node)| node)
    }
}

/// How a configured step gets into force, and how that is seen.
#[derive(Clone, Debug)]
pub struct Effective {
    pub by: Vec<String>,
    pub expect: Option<Expr>,
    pub check: Option<Node>,
    pub span: Span,
}

/// What a recipe needs on its host while another one changes in a window.
#[derive(Clone, Debug, PartialEq)]
pub struct During {
    /// The recipe that changes.
    pub recipe: String,
    /// Units that must not run meanwhile, with their type.
    pub stopped: Vec<String>,
    /// Kernel modules that must not be loaded meanwhile.
    pub unloaded: Vec<String>,
    pub span: Span,
}

/// A value that a step publishes.
#[derive(Clone, Debug)]
pub struct Export {
    pub name: String,
    /// A read-only command whose stdout is the value; works in a plan too.
    pub read: Option<String>,
    /// The stdout of the step's own action; unknown until it ran.
    pub stdout: bool,
    /// What facts of the host come to, of any type.
    pub value: Option<Expr>,
    pub secret: bool,
    pub span: Span,
}

/// A YAML tree with places, scalars as text as they were typed.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    pub span: Span,
    pub data: Data,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Data {
    Null,
    /// A plain scalar keeps its text (`560.10`), `quoted` tells whether it was quoted or a block.
    Scalar {
        text: String,
        quoted: bool,
    },
    Seq(Vec<Node>),
    /// Keys with their places, in order; duplicates are refused by the reader.
    Map(Vec<(Key, Node)>),
    /// A value that is not known yet. Never read from a file: rendering puts it there.
    Unknown(super::Need),
}

#[derive(Clone, Debug, PartialEq)]
pub struct Key {
    pub text: String,
    pub span: Span,
}

/// A recipe on one host, with its parameters.
#[derive(Debug)]
pub struct Instance {
    pub recipe: Arc<Recipe>,
    /// Whether it is to be removed (`ensure: absent`).
    pub absent: bool,
    pub params: BTreeMap<String, Sourced>,
    /// The entry of `apply:` (and the stack's line) that declares it.
    pub span: Span,
    /// The hosts of the entry, for scopes and barriers. Shared by all instances of the entry.
    pub selection: Arc<Vec<HostName>>,
    /// The stack it came through.
    pub stack: Option<String>,
    /// The same stack with its own parameters.
    pub through: Option<Arc<Through>>,
}

/// A stack on one host, with its parameters.
#[derive(Debug)]
pub struct Through {
    pub stack: Arc<Recipe>,
    pub params: Arc<BTreeMap<String, Sourced>>,
    /// The stack that uses this one.
    pub outer: Option<Arc<Through>>,
}

/// What a group gives its hosts.
#[derive(Clone, Debug, Default)]
pub struct GroupVars {
    pub vars: BTreeMap<String, Sourced>,
    /// How many groups contain it, directly or through others: of two groups of a host, the one with more is
    /// the inner one.
    pub depth: usize,
}
