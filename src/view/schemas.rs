//! All JSON Schemas that forge publishes, of its input and output formats.

use crate::drift::{DriftHistory, DriftHistoryEntry, DriftNotice, DriftReport};
use crate::engine::{JournalEntry, Recording, RunReport, SavedPlan};
use crate::model::Value;
use crate::plan::{Plan, RehearsalReport};
use crate::resource::{all_kinds, schema::kind_schema};
use crate::state::{RunInfo, StepRecord, UndoGroup};
use crate::view::json::{DriftMessage, document_schema};
use crate::{config, resource};

/// A schema by its name.
pub struct PublishedSchema {
    /// The name to ask for in `forge schema NAME`; for a kind, the kind's name.
    pub name: &'static str,
    /// A short description of the format.
    pub what: &'static str,
    /// Its file under `schemas/`.
    pub file: String,
    make: SchemaSource,
}

type SchemaBuilder = fn() -> Value;

enum SchemaSource {
    By(SchemaBuilder),
    Kind(&'static resource::ResourceKind),
}

/// Lists the schemas of files, then those of kinds.
pub fn list_schemas() -> impl Iterator<Item = PublishedSchema> {
    let files: [(&'static str, &'static str, SchemaBuilder); 18] = [
        ("inventory", "an inventory", config::inventory_schema),
        ("recipe", "a recipe or a stack", config::recipe_schema),
        ("document", "the output of every command with `--format json`", document_schema),
        ("plan", "a plan: `plan.json` of a run, and `plan` in documents", || schemars::schema_for!(Plan).into()),
        ("saved-plan", "a saved plan, written by `plan -o`", || schemars::schema_for!(SavedPlan).into()),
        ("report", "a report: `report.json` of a run, and `report` in documents", || {
            schemars::schema_for!(RunReport).into()
        }),
        ("rehearsal", "a rehearsal: `rehearsal` in documents", || schemars::schema_for!(RehearsalReport).into()),
        ("drift", "detected drift: `drift` in documents", || schemars::schema_for!(DriftReport).into()),
        ("drift-message", "a line of `drift --format ndjson`", || schemars::schema_for!(DriftMessage<'_>).into()),
        ("drift-history", "the drift history: `drift_history` in documents", || {
            schemars::schema_for!(DriftHistory).into()
        }),
        ("drift-entry", "a line of the drift history on the controller", || {
            schemars::schema_for!(DriftHistoryEntry).into()
        }),
        ("drift-notice", "the message to a webhook of `drift.notify`", || schemars::schema_for!(DriftNotice).into()),
        ("run", "user, time and other metadata of a run: `run.json`", || schemars::schema_for!(RunInfo).into()),
        ("undo", "what a host keeps for an undo of a change", || schemars::schema_for!(UndoGroup).into()),
        ("record", "the record of an applied step on a host", || schemars::schema_for!(StepRecord).into()),
        ("journal-entry", "a line of a run's journal", || schemars::schema_for!(JournalEntry).into()),
        ("lock", "digests of an inventory's artifacts: of `fetch --lock`", || {
            schemars::schema_for!(config::ArtifactLockFile).into()
        }),
        ("recording", "raw answers of hosts, written by `facts --record`", || schemars::schema_for!(Recording).into()),
    ];
    let files = files.into_iter().map(|(name, what, make)| PublishedSchema {
        name,
        what,
        file: format!("{name}.json"),
        make: SchemaSource::By(make),
    });
    files.chain(all_kinds().iter().map(|kind| PublishedSchema {
        name: kind.name,
        what: kind.summary,
        file: format!("kinds/{}.json", kind.name),
        make: SchemaSource::Kind(kind),
    }))
}

/// Returns the schema with a name.
pub fn find_schema(name: &str) -> Option<PublishedSchema> {
    list_schemas().find(|schema| schema.name == name)
}

impl PublishedSchema {
    /// Returns the schema itself.
    pub fn to_value(&self) -> Value {
        match self.make {
            SchemaSource::By(make) => make(),
            SchemaSource::Kind(kind) => kind_schema(kind),
        }
    }
}

/// Returns the text of the schema file.
pub fn render_schema(schema: &PublishedSchema) -> String {
    format!("{:#}\n", schema.to_value())
}
