//! All JSON Schemas that forge publishes, of its input and output formats.

use crate::artifact::Lock;
use crate::drift::{Drift, Entry, History, Notice};
use crate::engine::{Event, Recording, Report, SavedPlan};
use crate::model::Value;
use crate::plan::Plan;
use crate::resource::{kinds, schema::kind_schema};
use crate::state::{Record, RunInfo};
use crate::view::json::{DriftMessage, document_schema};
use crate::{config, resource};

/// A schema by its name.
pub struct Schema {
    pub name: &'static str,
    /// A short description of the format.
    pub what: &'static str,
    /// Its file under `schemas/`.
    pub file: String,
    make: Make,
}

type Maker = fn() -> Value;

enum Make {
    By(Maker),
    Kind(&'static resource::Kind),
}

/// Lists the schemas of files, then those of kinds.
pub fn all() -> impl Iterator<Item = Schema> {
    let files: [(&'static str, &'static str, Maker); 16] = [
        ("inventory", "an inventory", config::inventory_schema),
        ("recipe", "a recipe or a stack", config::recipe_schema),
        ("document", "the output of every command with `--format json`", document_schema),
        ("plan", "a plan: `plan.json` of a run, and `plan` in documents", || schemars::schema_for!(Plan).into()),
        ("saved-plan", "a saved plan, written by `plan -o`", || schemars::schema_for!(SavedPlan).into()),
        ("report", "a report: `report.json` of a run, and `report` in documents", || {
            schemars::schema_for!(Report).into()
        }),
        ("drift", "detected drift: `drift` in documents", || schemars::schema_for!(Drift).into()),
        ("drift-message", "a line of `drift --format ndjson`", || schemars::schema_for!(DriftMessage<'_>).into()),
        ("drift-history", "the drift history: `drift_history` in documents", || schemars::schema_for!(History).into()),
        ("drift-entry", "a line of the drift history on the controller", || schemars::schema_for!(Entry).into()),
        ("drift-notice", "the message to a webhook of `drift.notify`", || schemars::schema_for!(Notice).into()),
        ("run", "user, time and other metadata of a run: `run.json`", || schemars::schema_for!(RunInfo).into()),
        ("record", "the record of an applied step on a host", || schemars::schema_for!(Record).into()),
        ("journal-entry", "a line of a run's journal", || schemars::schema_for!(Event).into()),
        ("lock", "digests of an inventory's artifacts: of `fetch --lock`", || schemars::schema_for!(Lock).into()),
        ("recording", "raw answers of hosts, written by `facts --record`", || schemars::schema_for!(Recording).into()),
    ];
    let files = files.into_iter().map(|(name, what, make)| Schema {
        name,
        what,
        file: format!("{name}.json"),
        make: Make::By(make),
    });
    files.chain(kinds().iter().map(|kind| Schema {
        name: kind.name,
        what: kind.summary,
        file: format!("kinds/{}.json", kind.name),
        make: Make::Kind(kind),
    }))
}

/// Returns the schema with a name.
pub fn find(name: &str) -> Option<Schema> {
    all().find(|schema| schema.name == name)
}

impl Schema {
    /// Returns the schema itself.
    pub fn value(&self) -> Value {
        match self.make {
            Make::By(make) => make(),
            Make::Kind(kind) => kind_schema(kind),
        }
    }
}

/// Returns the text of the schema file.
pub fn text(schema: &Schema) -> String {
    format!("{:#}\n", schema.value())
}
