//! Arguments and values of arguments that several verbs share.

use super::duration;
use crate::model::DisruptionClass;
use crate::plan::PlanPolicy;
use camino::Utf8PathBuf;
use clap::{Args, ValueEnum};
use std::time::Duration;

/// The positional inventory argument.
#[derive(Clone, Debug, Default, Args)]
pub struct InventoryArg {
    /// Inventory file; defaults to -i, then $FORGE_INVENTORY, then ./inventory.yaml
    pub inventory: Option<Utf8PathBuf>,
}

/// Global flags.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Global options")]
pub struct GlobalArgs {
    /// Inventory file (alternative to the positional argument)
    #[arg(short = 'i', long = "inventory", global = true, value_name = "FILE")]
    pub inventory_flag: Option<Utf8PathBuf>,
    /// Limit to these hosts: names, groups, globs and ranges, as in `gpu:&rack_a:!canary`; `@failed`, `@unreachable`,
    /// `@changed` or `@unfinished`: hosts of the last apply or verify
    #[arg(long, global = true, value_name = "SELECTOR")]
    pub on: Option<String>,
    /// Limit to these steps: `recipe` or `recipe/step`, globs allowed; repeatable. Only for verbs that evaluate, fetch or
    /// list steps
    #[arg(long, global = true, value_name = "PATTERN")]
    pub step: Vec<String>,
    /// Skip these steps; repeatable. For the same verbs as --step
    #[arg(long, global = true, value_name = "PATTERN")]
    pub skip: Vec<String>,
    /// Output format on stdout
    #[arg(long, global = true, value_enum, default_value_t = OutputFormat::Text)]
    pub format: OutputFormat,
    /// Also write the result as JSON to this file
    #[arg(long, global = true, value_name = "FILE")]
    pub json_into: Option<Utf8PathBuf>,
    /// Maximum number of hosts to work on in parallel
    #[arg(long, global = true, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u16).range(1..))]
    pub parallel: u16,
    /// Timeout of checks and steps that declare none: 500ms, 30s, 10m, 4h
    #[arg(long, global = true, value_name = "DURATION", value_parser = duration::parse_positive_duration)]
    pub timeout: Option<Duration>,
    /// State directory for runs and history; defaults to $FORGE_STATE, then .forge next to the inventory
    #[arg(long, global = true, value_name = "DIR")]
    pub state: Option<Utf8PathBuf>,
    /// Allow the inventory to run programs on this machine (command transports, secret commands)
    #[arg(long, global = true)]
    pub trust: bool,
    /// When to color the output
    #[arg(long, global = true, value_enum, default_value_t = ColorMode::Auto, value_name = "WHEN")]
    pub color: ColorMode,
    /// Suppress progress output; errors are still printed
    #[arg(short, long, global = true, conflicts_with = "verbose")]
    pub quiet: bool,
    /// Increase verbosity: -v prints the decision on each step, -vv also its commands, -vvv also their output
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    pub verbose: u8,
}

/// Limits on disruption.
#[derive(Clone, Debug, clap::Args)]
pub struct PolicyArgs {
    /// Skip changes above this disruption class: D0 none, D1 service interrupted, D2 module reloads, D3 reboots
    #[arg(long, value_name = "CLASS", default_value = "D3", value_parser = parse_disruption)]
    pub max_disruption: DisruptionClass,
}

impl PolicyArgs {
    /// Returns the policy that the flags select.
    pub fn to_policy(&self) -> PlanPolicy {
        PlanPolicy { max_disruption: self.max_disruption, ..PlanPolicy::default() }
    }
}

pub(super) fn parse_disruption(text: &str) -> Result<DisruptionClass, String> {
    DisruptionClass::parse(text).ok_or_else(|| "expected `D0`, `D1`, `D2` or `D3`".to_owned())
}

/// Output format of a result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum OutputFormat {
    /// Human-readable text
    #[default]
    Text,
    /// A single JSON document
    Json,
    /// One JSON message per line (`drift` only)
    Ndjson,
    /// Graphviz (`graph` only)
    Dot,
    /// Mermaid diagram for Markdown (`graph` only)
    Mermaid,
    /// Markdown for a review comment or a chat (plans, `drift` and `test` only)
    Markdown,
    /// JUnit XML for test reports of a pipeline (`drift` and `test` only)
    Junit,
    /// SARIF 2.1.0 for code scanning tools (`drift` only)
    Sarif,
    /// Metrics for the textfile collector of node_exporter (`drift` only)
    Prometheus,
    /// A self-contained HTML page (`drift` and `test` only)
    Html,
    /// Source file of `skopeo sync`, for a mirror (`--images` only)
    Skopeo,
}

impl OutputFormat {
    /// Returns its name on the command line.
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
            Self::Skopeo => "skopeo",
        }
    }
}

/// When to color the output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum ColorMode {
    /// Color on a terminal, unless NO_COLOR is set
    #[default]
    Auto,
    Always,
    Never,
}
