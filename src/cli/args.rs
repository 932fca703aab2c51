//! Command-line arguments. Parsing has no side effects; `settings` interprets the values.

use super::{
    apply_args, completions, doctor, drift, exec, explain, facts, fetch, graph, hold, init, man, plan, recipes,
    rehearse, resume, runs, sandbox, schema, show, sign, test, undo, validate, verify, why_slow, worker,
};

use super::secret_programs::SecretNeed;
use super::shared_args::{ColorMode, GlobalArgs, OutputFormat};
use clap::{Parser, Subcommand};

/// Declarative provisioning for GPU and RDMA clusters: plan, apply, verify.
///
/// An inventory declares the hosts of a cluster and their desired state. `plan` shows what would change, where and why,
/// and how disruptive it is; `apply` makes the changes and verifies every step; `verify` repeats the verification.
#[derive(Debug, Parser)]
#[command(name = "forge", version, max_term_width = 110, subcommand_required = true, arg_required_else_help = true)]
pub struct Cli {
    #[command(subcommand)]
    pub verb: Verb,
    #[command(flatten)]
    pub global: GlobalArgs,
}

/// One verb per file in this directory; the doc comment of its arguments type is its help text.
#[derive(Debug, Subcommand)]
pub enum Verb {
    Init(init::InitArgs),
    Doctor(doctor::DoctorArgs),
    Plan(plan::PlanArgs),
    Rehearse(rehearse::RehearseArgs),
    Apply(apply_args::ApplyArgs),
    Resume(resume::ResumeArgs),
    Verify(verify::VerifyArgs),
    Undo(undo::UndoArgs),
    Drift(drift::DriftArgs),
    Test(test::TestArgs),
    WhySlow(why_slow::WhySlowArgs),
    Validate(validate::ValidateArgs),
    Facts(facts::FactsArgs),
    Fetch(fetch::FetchArgs),
    Exec(exec::ExecArgs),
    Hold(hold::HoldArgs),
    Release(hold::ReleaseArgs),
    Graph(graph::GraphArgs),
    Recipes(recipes::RecipesArgs),
    Explain(explain::ExplainArgs),
    Runs(runs::RunsArgs),
    Show(show::ShowArgs),
    Sign(sign::SignArgs),
    Schema(schema::SchemaArgs),
    Completions(completions::CompletionsArgs),
    Man(man::ManArgs),
    Sandbox(sandbox::SandboxArgs),
    Worker(worker::WorkerArgs),
}

impl Verb {
    /// Returns when the verb needs the secrets that programs print.
    pub fn secret_need(&self) -> SecretNeed {
        match self {
            Self::Validate(_) => SecretNeed::Unread("`forge validate` starts no program"),
            Self::Drift(args) => args.secret_need(),
            Self::Plan(_)
            | Self::Rehearse(_)
            | Self::Apply(_)
            | Self::Resume(_)
            | Self::Verify(_)
            | Self::Undo(_)
            | Self::Test(_)
            | Self::WhySlow(_)
            | Self::Facts(_)
            | Self::Fetch(_)
            | Self::Doctor(_)
            | Self::Exec(_)
            | Self::Hold(_)
            | Self::Release(_)
            | Self::Worker(_) => SecretNeed::Hosts,
            _ => SecretNeed::No,
        }
    }

    /// Reports whether `--step` and `--skip` limit what the verb does.
    pub fn selects_steps(&self) -> bool {
        match self {
            Self::Plan(_)
            | Self::Rehearse(_)
            | Self::Apply(_)
            | Self::Resume(_)
            | Self::Verify(_)
            | Self::Undo(_)
            | Self::Drift(_)
            | Self::Test(_)
            | Self::Validate(_)
            | Self::Fetch(_)
            | Self::Graph(_) => true,
            Self::Init(_)
            | Self::Doctor(_)
            | Self::WhySlow(_)
            | Self::Facts(_)
            | Self::Exec(_)
            | Self::Hold(_)
            | Self::Release(_)
            | Self::Recipes(_)
            | Self::Explain(_)
            | Self::Runs(_)
            | Self::Show(_)
            | Self::Sign(_)
            | Self::Schema(_)
            | Self::Completions(_)
            | Self::Man(_)
            | Self::Sandbox(_)
            | Self::Worker(_) => false,
        }
    }

    /// Reports whether the verb supports `format`.
    pub fn supports_format(&self, format: OutputFormat) -> bool {
        match format {
            OutputFormat::Text => true,
            OutputFormat::Json => !matches!(self, Self::Schema(_) | Self::Completions(_) | Self::Man(_)),
            OutputFormat::Dot | OutputFormat::Mermaid => matches!(self, Self::Graph(_)),
            OutputFormat::Markdown => {
                matches!(
                    self,
                    Self::Plan(_) | Self::Rehearse(_) | Self::Show(_) | Self::Drift(_) | Self::Test(_) | Self::Undo(_)
                )
            }
            OutputFormat::Skopeo => match self {
                Self::Plan(args) => args.images,
                Self::Show(args) => args.images,
                _ => false,
            },
            OutputFormat::Junit | OutputFormat::Html => matches!(self, Self::Drift(_) | Self::Test(_)),
            OutputFormat::Ndjson | OutputFormat::Sarif | OutputFormat::Prometheus => matches!(self, Self::Drift(_)),
        }
    }
}

impl From<ColorMode> for anstream::ColorChoice {
    fn from(color: ColorMode) -> Self {
        match color {
            ColorMode::Auto => Self::Auto,
            ColorMode::Always => Self::Always,
            ColorMode::Never => Self::Never,
        }
    }
}
