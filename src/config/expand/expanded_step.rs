//! What expansion reads and produces: steps of one host, and results of conditions.

use crate::config::{ExportedValues, FactSource, PendingInput};
use crate::diag::Diag;
use crate::model::StepId;
use crate::resource::Resource;
use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock};

/// Facts and exports that are known of a host at the time of an expansion.
#[derive(Clone, Copy, Debug)]
pub struct ExpansionInputs<'a> {
    /// What the host reported, or that it was not queried yet.
    pub facts: FactSource<'a>,
    /// Values that steps have published so far, on any host.
    pub exports: &'a ExportedValues,
}

/// One instance of a step on one host: the step itself, or one per item of `each`.
#[derive(Clone, Debug)]
pub struct ExpandedStep {
    /// The recipe and the step, with the key of the item if the step has `each`.
    pub id: StepId,
    /// The resource of the step, or why there is none.
    pub state: ExpansionState,
    /// Paths of facts that were read (`os.id`): part of the step's basis.
    pub reads: BTreeSet<String>,
    /// Whether the resource is to be removed.
    pub absent: bool,
    /// Digest of the resource's declaration as an input of services, computed on first use. A resource with a secret
    /// has none, because its digest depends on the host.
    pub(crate) input_digest: OnceLock<String>,
    /// What the resource claims, computed on first use: hosts that share the step share it.
    claim_keys: OnceLock<Box<[ClaimKey]>>,
}

/// Kind and name of what a resource claims, as a whole or in part.
pub(in crate::config) type ClaimKey = (&'static str, String);

impl ExpandedStep {
    pub(super) fn new(id: StepId, state: ExpansionState, reads: BTreeSet<String>, absent: bool) -> Self {
        Self { id, state, reads, absent, input_digest: OnceLock::new(), claim_keys: OnceLock::new() }
    }

    /// Returns what the resource claims; nothing if it is not known.
    pub(in crate::config) fn claim_keys(&self) -> &[ClaimKey] {
        self.claim_keys.get_or_init(|| match &self.state {
            ExpansionState::Resource(resource) => {
                resource.exclusive_claims().into_iter().chain(resource.shared_claims()).collect()
            }
            _ => Box::default(),
        })
    }
}

/// One of several instances of a step that hosts may share.
#[derive(Clone, Debug)]
pub struct SharedExpandedStep {
    pub(super) all: Arc<[ExpandedStep]>,
    pub(super) at: usize,
}

impl SharedExpandedStep {
    /// Returns each of `all`, in order.
    pub fn iter_shared(all: &Arc<[ExpandedStep]>) -> impl DoubleEndedIterator<Item = Self> + '_ {
        (0..all.len()).map(|at| Self { all: all.clone(), at })
    }
}

impl std::ops::Deref for SharedExpandedStep {
    type Target = ExpandedStep;

    fn deref(&self) -> &ExpandedStep {
        &self.all[self.at]
    }
}

/// Result of expanding a step.
#[derive(Clone, Debug)]
pub enum ExpansionState {
    /// Every value is known: the resource to assess and apply.
    Resource(Arc<dyn Resource>),
    /// The step does nothing on the host.
    NotApplicable(InapplicableReason),
    /// Waits for facts or an export.
    Deferred(DeferredStep),
    /// A value does not match the type of its field. Diagnostics point into the recipe and the inventory.
    Invalid(Vec<Diag>),
}

impl ExpansionState {
    /// Returns the resource if every value of it is known.
    pub fn as_resource(&self) -> Option<&dyn Resource> {
        match self {
            Self::Resource(resource) => Some(resource.as_ref()),
            _ => None,
        }
    }
}

/// Why a step does nothing on a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InapplicableReason {
    /// `when` is false.
    WhenFalse,
    /// `each` is empty.
    NoItems,
    /// The recipe is removed, and a step of scope `fleet` creates nothing.
    CreatesNothing,
    /// The recipe is removed, and the step is to be kept.
    Kept,
}

impl InapplicableReason {
    /// Returns a lowercase fragment.
    pub fn describe(self) -> &'static str {
        match self {
            Self::WhenFalse => "`when` is false",
            Self::NoItems => "`each` is empty",
            Self::CreatesNothing => "a `fleet` step creates nothing to remove",
            Self::Kept => "a removal keeps it (`keep`)",
        }
    }
}

/// A step that cannot be built yet.
#[derive(Clone, Debug)]
pub struct DeferredStep {
    /// The fact or export that is missing.
    pub need: PendingInput,
    /// Name of the resource's kind: `file`, `service`.
    pub kind: &'static str,
    /// Title as far as it is known: the path of a file whose content is not known yet.
    pub title: Option<String>,
    /// Fields that are not known yet; empty if `when` or `each` is not known.
    pub fields: Vec<String>,
}

/// Result of evaluating a rule or an expectation on one host.
#[derive(Clone, Debug, PartialEq)]
pub enum ConditionOutcome {
    /// `when` is false.
    NotApplicable,
    /// The condition is true.
    Holds {
        /// Fact paths that were read (`os.id`).
        reads: BTreeSet<String>,
    },
    /// The condition is false, or an object of the cluster lacks a field that it reads.
    Fails {
        /// Fact paths that were read (`os.id`).
        reads: BTreeSet<String>,
        /// The values that the author wants to show, or the name that is undefined.
        shown: Option<String>,
    },
    /// Could not be evaluated, with the reason.
    Unknown {
        /// The reason, as a lowercase fragment.
        why: String,
        /// The missing value that may become known later; `None` if the evaluation failed for another reason.
        need: Option<PendingInput>,
    },
    /// A `verify` with `check`: the rendered command must exit 0.
    Check {
        /// The shell text of the command, rendered for the host.
        script: String,
    },
}
