//! A recipe as declared: parameters, rules, steps, dependencies and verifications, with their places.

use super::host_share::HostShare;
use super::yaml_node::YamlNode;
use crate::diag::Span;
use crate::model::{BlockClass, DisruptionClass, StepGuard, StepPhase, StepScope, Value, VerifyLevel};
use camino::Utf8PathBuf;
use indexmap::IndexMap;
use std::collections::BTreeSet;
use std::sync::Arc;

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
    /// A template that shows the relevant values if the condition is false on a host, and its place.
    pub shows: Option<(String, Span)>,
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
    /// How long after a change of the recipe it may still pass because of the state before. Seconds.
    pub settle_s: Option<u64>,
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
    /// Whether the removal of the recipe leaves what the step did.
    pub keep: bool,
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
    /// How many hosts may run its action at once; `None`: any number.
    pub at_once: Option<usize>,
    /// Whether the host restores the state before unless a new session confirms the change.
    pub guard: StepGuard,
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
    /// Whether readers of the values of all hosts go on without those of the hosts that cannot report one.
    pub partial: bool,
    /// The place of the name.
    pub span: Span,
}
