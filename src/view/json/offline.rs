//! Documents of the verbs that read what is there: graphs, recipes, explanations, runs.

use super::Exit;
use crate::config::{Chart, OnHosts, RecipeLine, RecipePage, StepPage, ValuePage};
use crate::diag::Code;
use crate::engine::{Comparison, PastRun};
use crate::view::Listed;
use serde::Serialize;

#[derive(Serialize)]
pub struct GraphBody<'a> {
    pub graph: &'a Chart,
}

#[derive(Serialize)]
pub struct RecipesBody<'a> {
    pub recipes: &'a [RecipeLine],
}

#[derive(Serialize)]
pub struct RecipeBody<'a> {
    pub recipe: &'a RecipePage,
}

#[derive(Serialize)]
pub struct ValueBody<'a> {
    pub values: &'a [OnHosts<ValuePage>],
}

#[derive(Serialize)]
pub struct StepBody<'a> {
    pub step: &'a StepPage,
}

#[derive(Serialize)]
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

#[derive(Serialize)]
pub struct RunBody<'a> {
    pub run: Past<'a>,
}

#[derive(Serialize)]
pub struct RunsBody<'a> {
    pub runs: Vec<Line<'a>>,
}

#[derive(Serialize)]
pub struct ComparisonBody<'a> {
    pub comparison: &'a Comparison,
}

/// A run with the exit code that it ended with.
#[derive(Serialize)]
pub struct Past<'a> {
    /// `None` while it is not finished.
    exit: Option<Exit>,
    #[serde(flatten)]
    run: &'a PastRun,
}

impl<'a> Past<'a> {
    pub fn of(run: &'a PastRun) -> Self {
        Self { exit: run.finished.then(|| Exit::of(run.report.exit_code())), run }
    }
}

/// A run of the list, or why it cannot be read.
#[derive(Serialize)]
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
