//! What can be typed. Parsing has no side effects; what it means is in `settings`.

use super::{
    apply, completions, doctor, drift, duration, exec, explain, facts, fetch, graph, init, man, plan, recipes, runs,
    sandbox, schema, show, sign, validate, verify,
};
use crate::model::Disruption;
use crate::plan::Policy;
use camino::Utf8PathBuf;
use clap::{Args, Parser, Subcommand, ValueEnum};
use std::time::Duration;

/// Declarative provisioning for GPU and RDMA clusters: plan, apply, prove.
///
/// An inventory says which hosts there are and what must be true on them. `plan` shows what would change,
/// where, why, and what it disturbs; `apply` does it and proves every step; `verify` proves it again.
#[derive(Debug, Parser)]
#[command(name = "forge", version, max_term_width = 110, subcommand_required = true, arg_required_else_help = true)]
pub struct Cli {
    #[command(subcommand)]
    pub verb: Verb,
    #[command(flatten)]
    pub global: Global,
}

/// One verb per file beside this one; its doc comment is its help.
#[derive(Debug, Subcommand)]
pub enum Verb {
    Init(init::Args),
    Doctor(doctor::Args),
    Plan(plan::Args),
    Apply(apply::Args),
    Verify(verify::Args),
    Drift(drift::Args),
    Validate(validate::Args),
    Facts(facts::Args),
    Fetch(fetch::Args),
    Exec(exec::Args),
    Graph(graph::Args),
    Recipes(recipes::Args),
    Explain(explain::Args),
    Runs(runs::Args),
    Show(show::Args),
    Sign(sign::Args),
    Schema(schema::Args),
    Completions(completions::Args),
    Man(man::Args),
    Sandbox(sandbox::Args),
}

impl Verb {
    /// Returns whether the verb writes its result in that format.
    pub fn writes(&self, format: Format) -> bool {
        match format {
            Format::Text => true,
            Format::Json => !matches!(self, Self::Schema(_) | Self::Completions(_) | Self::Man(_)),
            Format::Dot | Format::Mermaid => matches!(self, Self::Graph(_)),
            Format::Markdown => matches!(self, Self::Plan(_) | Self::Show(_) | Self::Drift(_)),
            Format::Ndjson | Format::Junit | Format::Sarif | Format::Prometheus | Format::Html => {
                matches!(self, Self::Drift(_))
            }
        }
    }
}

/// The inventory of a verb that works on one.
#[derive(Clone, Debug, Default, Args)]
pub struct InventoryArg {
    /// The inventory; else -i, else $FORGE_INVENTORY, else ./inventory.yaml
    pub inventory: Option<Utf8PathBuf>,
}

/// Flags of every verb.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Everywhere")]
pub struct Global {
    /// The inventory, where a script would rather not give it as an argument
    #[arg(short = 'i', long = "inventory", global = true, value_name = "FILE")]
    pub inventory_flag: Option<Utf8PathBuf>,
    /// Work on these hosts only: names, groups, globs and ranges, as in `gpu:&rack_a:!canary`
    #[arg(long, global = true, value_name = "SELECTOR")]
    pub on: Option<String>,
    /// Work on these steps only: `recipe`, `recipe/step`, with globs; may be given several times
    #[arg(long, global = true, value_name = "PATTERN")]
    pub step: Vec<String>,
    /// Leave these steps out; may be given several times
    #[arg(long, global = true, value_name = "PATTERN")]
    pub skip: Vec<String>,
    /// How the result is written to stdout
    #[arg(long, global = true, value_enum, default_value_t = Format::Text)]
    pub format: Format,
    /// Write the result as JSON to a file too
    #[arg(long, global = true, value_name = "FILE")]
    pub json_into: Option<Utf8PathBuf>,
    /// Hosts worked on at once
    #[arg(long, global = true, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u16).range(1..))]
    pub parallel: u16,
    /// The limit of a check or step that names none: 500ms, 30s, 10m, 4h
    #[arg(long, global = true, value_name = "DURATION", value_parser = duration::parse)]
    pub timeout: Option<Duration>,
    /// The folder for runs and history; else $FORGE_STATE, else .forge beside the inventory
    #[arg(long, global = true, value_name = "DIR")]
    pub state: Option<Utf8PathBuf>,
    /// Let the inventory run programs on this machine (command transports, secret commands)
    #[arg(long, global = true)]
    pub trust: bool,
    /// When to colour
    #[arg(long, global = true, value_enum, default_value_t = Color::Auto, value_name = "WHEN")]
    pub color: Color,
    /// Show no progress; what goes wrong is still said
    #[arg(short, long, global = true, conflicts_with = "verbose")]
    pub quiet: bool,
    /// Say more: -v what each step decided, -vv also its commands, -vvv also what they printed
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    pub verbose: u8,
}

/// How much a run may disturb.
#[derive(Clone, Debug, clap::Args)]
pub struct PolicyArgs {
    /// Leave alone what disturbs more: D0 nothing, D1 restarts of services, D2 module reloads, D3 reboots
    #[arg(long, value_name = "CLASS", default_value = "D3", value_parser = class)]
    pub max_disruption: Disruption,
}

impl PolicyArgs {
    /// Returns what it means.
    pub fn policy(&self) -> Policy {
        Policy { max_disruption: self.max_disruption, ..Policy::default() }
    }
}

fn class(text: &str) -> Result<Disruption, String> {
    Disruption::parse(text).ok_or_else(|| "a class is `D0`, `D1`, `D2` or `D3`".to_owned())
}

/// How a result is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For people
    #[default]
    Text,
    /// One JSON document
    Json,
    /// A JSON message a line; `drift` only
    Ndjson,
    /// For Graphviz; `graph` only
    Dot,
    /// For Markdown; `graph` only
    Mermaid,
    /// For a comment or a chat; plans and `drift`
    Markdown,
    /// For what shows the tests of a pipeline; `drift` only
    Junit,
    /// For what shows findings beside the code, version 2.1.0; `drift` only
    Sarif,
    /// For the node exporter's folder of text files; `drift` only
    Prometheus,
    /// One page that needs nothing else; `drift` only
    Html,
}

impl Format {
    /// Returns the word for it on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Json => "json",
            Self::Ndjson => "ndjson",
            Self::Dot => "dot",
            Self::Mermaid => "mermaid",
            Self::Markdown => "markdown",
            Self::Junit => "junit",
            Self::Sarif => "sarif",
            Self::Prometheus => "prometheus",
            Self::Html => "html",
        }
    }
}

/// When colours are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Color {
    /// On a terminal, unless NO_COLOR is set
    #[default]
    Auto,
    Always,
    Never,
}

impl From<Color> for anstream::ColorChoice {
    fn from(color: Color) -> Self {
        match color {
            Color::Auto => Self::Auto,
            Color::Always => Self::Always,
            Color::Never => Self::Never,
        }
    }
}
