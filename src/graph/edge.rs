//! Dependencies between steps, as declared and as edges of the graph.

use crate::diag::Span;
use crate::model::StepPhase;
use serde::{Deserialize, Serialize};

/// A step by its position in the order of declaration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StepIndex(pub u32);

/// One resolved edge between two steps: `to` may not start before `from` has reached `phase`.
#[derive(Clone, Debug, PartialEq)]
pub struct GraphEdge {
    /// The step that must reach the phase first.
    pub from: StepIndex,
    /// The required phase of `from`.
    pub phase: StepPhase,
    /// The step that waits.
    pub to: StepIndex,
    /// The declaration that the edge results from.
    pub why: DependencyKind,
    /// Index of the declared link, for its location; `None` for the order of declaration within a recipe.
    pub link: Option<u32>,
}

/// A declared step; positions follow the order of declaration.
#[derive(Clone, Debug)]
pub struct GraphStep {
    /// The name of the recipe that declares the step.
    pub recipe: String,
    /// The name of the step within its recipe.
    pub step: String,
    /// Where the step is declared, for error messages.
    pub span: Span,
}

/// One end of a link: a step of a recipe, or all of its steps.
#[derive(Clone, Debug, PartialEq)]
pub struct GraphEndpoint {
    /// The name of the recipe.
    pub recipe: String,
    /// The name of the step within the recipe; `None` for all steps of the recipe.
    pub step: Option<String>,
}

/// A declared dependency: `to` waits until `from` has reached `phase`.
#[derive(Clone, Debug)]
pub struct DependencyLink {
    /// The step or recipe that must reach the phase first.
    pub from: GraphEndpoint,
    /// The phase that `from` must reach.
    pub phase: StepPhase,
    /// The step or recipe that waits.
    pub to: GraphEndpoint,
    /// The kind of declaration: `after`, `needs`, `restart_on` and so on.
    pub why: DependencyKind,
    /// The location of the declaration.
    pub span: Span,
}

/// The reason of a dependency.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DependencyKind {
    /// Steps of a recipe run in the order of declaration.
    Order,
    /// `after:` defines only an order.
    After,
    /// `needs:` requires success.
    Needs,
    /// `needs:` across hosts.
    Barrier,
    /// `restart_on:`.
    Restart,
    /// Uses an exported value.
    Export,
}

impl DependencyKind {
    /// Returns the name used in documents.
    pub fn name(self) -> &'static str {
        match self {
            Self::Order => "order",
            Self::After => "after",
            Self::Needs => "needs",
            Self::Barrier => "barrier",
            Self::Restart => "restart_on",
            Self::Export => "export",
        }
    }
}
