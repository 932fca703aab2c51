//! Documents of verbs that do not contact hosts: graphs, recipes, explanations, runs.

use super::exit_info::ExitInfo;
use crate::config::{DependencyChart, RecipeDetails, RecipeSummary, SharedByHosts, StepExplanation, ValueExplanation};
use crate::diag::DiagCode;
use crate::engine::{AcceptanceReport, PastRun, RunComparison};
use crate::view::{ListedRun, ManualPage};
use schemars::JsonSchema;
use serde::Serialize;

#[derive(Serialize, JsonSchema)]
pub struct GraphBody<'a> {
    pub graph: &'a DependencyChart,
}

#[derive(Serialize, JsonSchema)]
pub struct RecipesBody<'a> {
    pub recipes: &'a [RecipeSummary],
}

#[derive(Serialize, JsonSchema)]
pub struct RecipeBody<'a> {
    pub recipe: &'a RecipeDetails,
}

#[derive(Serialize, JsonSchema)]
pub struct ValueBody<'a> {
    pub values: &'a [SharedByHosts<ValueExplanation>],
}

#[derive(Serialize, JsonSchema)]
pub struct StepBody<'a> {
    pub step: &'a StepExplanation,
}

#[derive(Serialize, JsonSchema)]
pub struct CodeBody {
    pub code: DiagCode,
    title: &'static str,
    /// Markdown.
    page: &'static str,
}

impl CodeBody {
    pub fn from_code(code: DiagCode) -> Self {
        Self { code, title: code.title(), page: code.page() }
    }
}

#[derive(Serialize, JsonSchema)]
pub struct PageBody<'a> {
    pub page: &'a ManualPage,
}

#[derive(Serialize, JsonSchema)]
pub struct RunBody<'a> {
    pub run: PastRunBody<'a>,
}

#[derive(Serialize, JsonSchema)]
pub struct RunsBody<'a> {
    pub runs: Vec<RunListItem<'a>>,
}

#[derive(Serialize, JsonSchema)]
pub struct ComparisonBody<'a> {
    pub comparison: &'a RunComparison,
}

/// A run with its exit code.
#[derive(Serialize, JsonSchema)]
pub struct PastRunBody<'a> {
    /// `None` if the run is not finished.
    exit: Option<ExitInfo>,
    #[serde(flatten)]
    run: &'a PastRun,
}

impl<'a> PastRunBody<'a> {
    pub fn from_run(run: &'a PastRun) -> Self {
        Self { exit: run.finished.then(|| ExitInfo::from_code(run.report.exit_code())), run }
    }
}

/// A run of tests of the list. Its whole report is in `tests/RUN.json` of the state folder of its cluster.
#[derive(Serialize, JsonSchema)]
pub struct TestRunBody<'a> {
    exit: ExitInfo,
    run: &'a str,
    cluster: &'a str,
    /// The set that ran.
    set: &'a str,
    /// Whether every measurement passed and every host was tested.
    accepted: bool,
}

impl<'a> TestRunBody<'a> {
    fn from_report(report: &'a AcceptanceReport) -> Self {
        Self {
            exit: ExitInfo::from_code(report.exit_code()),
            run: &report.run,
            cluster: &report.cluster,
            set: &report.set,
            accepted: report.is_accepted(),
        }
    }
}

/// A run of the list, or the reason why it is unreadable.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RunListItem<'a> {
    Run(PastRunBody<'a>),
    Tests(TestRunBody<'a>),
    Unreadable { run: &'a str, cluster: &'a str, why: &'a str },
}

impl<'a> RunListItem<'a> {
    pub fn from_listed(listed: &'a ListedRun) -> Self {
        match listed {
            ListedRun::Read(run) => Self::Run(PastRunBody::from_run(run)),
            ListedRun::Tests(report) => Self::Tests(TestRunBody::from_report(report)),
            ListedRun::Broken { run, cluster, why } => Self::Unreadable { run, cluster, why },
        }
    }
}
