//! Documents of verbs that do not contact hosts: graphs, recipes, explanations, runs.

use super::Exit;
use crate::config::{Chart, OnHosts, RecipeLine, RecipePage, StepPage, ValuePage};
use crate::diag::Code;
use crate::engine::{Comparison, PastRun};
use crate::view::{Listed, ManualPage};
use schemars::JsonSchema;
use serde::Serialize;

#[derive(Serialize, JsonSchema)]
pub struct GraphBody<'a> {
    pub graph: &'a Chart,
}

#[derive(Serialize, JsonSchema)]
pub struct RecipesBody<'a> {
    pub recipes: &'a [RecipeLine],
}

#[derive(Serialize, JsonSchema)]
pub struct RecipeBody<'a> {
    pub recipe: &'a RecipePage,
}

#[derive(Serialize, JsonSchema)]
pub struct ValueBody<'a> {
    pub values: &'a [OnHosts<ValuePage>],
}

#[derive(Serialize, JsonSchema)]
pub struct StepBody<'a> {
    pub step: &'a StepPage,
}

#[derive(Serialize, JsonSchema)]
pub struct CodeBody {
    pub code: Code,
    title: &'static str,
    /// Markdown.
    page: &'static str,
}

impl CodeBody {
    pub fn of(code: Code) -> Self {
        Self { code, title: code.title(), page: code.page() }
    }
}

#[derive(Serialize, JsonSchema)]
pub struct PageBody<'a> {
    pub page: &'a ManualPage,
}

#[derive(Serialize, JsonSchema)]
pub struct RunBody<'a> {
    pub run: Past<'a>,
}

#[derive(Serialize, JsonSchema)]
pub struct RunsBody<'a> {
    pub runs: Vec<Line<'a>>,
}

#[derive(Serialize, JsonSchema)]
pub struct ComparisonBody<'a> {
    pub comparison: &'a Comparison,
}

/// A run with its exit code.
#[derive(Serialize, JsonSchema)]
pub struct Past<'a> {
    /// `None` if the run is not finished.
    exit: Option<Exit>,
    #[serde(flatten)]
    run: &'a PastRun,
}

impl<'a> Past<'a> {
    pub fn of(run: &'a PastRun) -> Self {
        Self { exit: run.finished.then(|| Exit::of(run.report.exit_code())), run }
    }
}

/// A run of the list, or the reason why it is unreadable.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Line<'a> {
    Run(Past<'a>),
    Unreadable { run: &'a str, cluster: &'a str, why: &'a str },
}

impl<'a> Line<'a> {
    pub fn of(listed: &'a Listed) -> Self {
        match listed {
            Listed::Read(run) => Self::Run(Past::of(run)),
            Listed::Broken { run, cluster, why } => Self::Unreadable { run, cluster, why },
        }
    }
}
