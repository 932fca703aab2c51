//! `forge graph`.

use super::backend::Backend;
use super::shared_args::{InventoryArg, OutputFormat};
use super::verb_context::{VerbContext, VerbResult};
use crate::model::ExitCode;
use crate::{config, view};

/// Show the dependency graph; no host is contacted
///
/// The text format prints waves, which are the sets of steps that can run in parallel, in order, with the dependencies
/// of each step and their phases. A barrier between hosts shows its quorum. `-v` also shows the order within recipes.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Examples:
  forge graph cluster.yaml                       all waves
  forge graph cluster.yaml --on gpu-01           waves of one host
  forge graph cluster.yaml --format dot | dot -Tsvg > graph.svg
  forge graph cluster.yaml --format mermaid      for Markdown")]
pub struct GraphArgs {
    #[command(flatten)]
    pub inventory: InventoryArg,
}

pub fn run_graph<B: Backend>(cx: &VerbContext<'_, B>, args: &GraphArgs) -> VerbResult {
    let target = cx.resolve_target(&args.inventory)?;
    let output = cx.output_for(&target);
    let (project, hosts) = cx.load_project(&target)?;
    let chart = config::build_chart(cx.backend.project(&project), &hosts, &cx.settings.filter);
    match cx.settings.format {
        OutputFormat::Dot => output.write_raw(&|out| view::write_dot(&chart, out))?,
        OutputFormat::Mermaid => output.write_raw(&|out| view::write_mermaid(&chart, out))?,
        _ => output.write_result(&|writer, out| writer.write_graph(&chart, out))?,
    }
    if !matches!(cx.settings.format, OutputFormat::Text | OutputFormat::Json) {
        output.write_json_file(&|writer, out| writer.write_graph(&chart, out))?;
    }
    Ok(ExitCode::Done)
}
