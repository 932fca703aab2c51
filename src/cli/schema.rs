//! `forge schema`.

use super::error::CliError;
use super::output::VerbOutput;
use super::verb_context::{VerbContext, VerbResult};
use crate::diag::did_you_mean;
use crate::model::ExitCode;
use crate::view::schemas;

/// Print the JSON Schema of an input or output format
///
/// Without NAME, lists the schemas. An editor with the YAML language server validates and completes a file
/// whose first line references its schema:
///   # yaml-language-server: $schema=./schemas/inventory.json
#[derive(Debug, clap::Args)]
#[command(
    verbatim_doc_comment,
    after_long_help = "Examples:
  forge schema                                   list the schemas
  forge schema inventory > schemas/inventory.json
  forge schema recipe > schemas/recipe.json
  forge schema file                              the fields of a kind of resource
  forge schema document                          the JSON documents of all verbs

`forge explain editors` shows how to set up editors without that line."
)]
pub struct SchemaArgs {
    /// `inventory`, `recipe`, `plan`, `report`, … or a kind of resource
    pub name: Option<String>,
}

pub fn run_schema<B>(cx: &VerbContext<'_, B>, args: &SchemaArgs) -> VerbResult {
    let output = VerbOutput { console: cx.console, settings: cx.settings, target: None, resume: None };
    match &args.name {
        None => output.write_raw(&|out| {
            let mut all = schemas::list_schemas();
            all.try_for_each(|schema| writeln!(out, "{:<14} {}", schema.name, schema.what))
        })?,
        Some(name) => {
            let schema = schemas::find_schema(name).ok_or_else(|| unknown_schema_error(name))?;
            output.write_raw(&|out| out.write_all(schemas::render_schema(&schema).as_bytes()))?;
        }
    }
    Ok(ExitCode::Done)
}

fn unknown_schema_error(name: &str) -> CliError {
    let names: Vec<&str> = schemas::list_schemas().map(|schema| schema.name).collect();
    let error = CliError::usage(format!("schema `{name}` not found"));
    match did_you_mean(name, names) {
        Some(near) => error.hint(format!("did you mean `{near}`?")),
        None => error.hint("list schemas with `forge schema`"),
    }
}
