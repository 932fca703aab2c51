//! Every JSON Schema that forge publishes: of what people write, and of what forge writes.

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
    /// What it describes, in a few words.
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
        ("document", "what every verb writes with `--format json`", document_schema),
        ("plan", "a plan, as `plan.json` of a run and below `plan` in documents", || {
            schemars::schema_for!(Plan).into()
        }),
        ("saved-plan", "a plan that is kept and carried out later: of `plan -o`", || {
            schemars::schema_for!(SavedPlan).into()
        }),
        ("report", "a report, as `report.json` of a run and below `report` in documents", || {
            schemars::schema_for!(Report).into()
        }),
        ("drift", "what is not as declared any more: below `drift` in documents", || {
            schemars::schema_for!(Drift).into()
        }),
        ("drift-message", "a line of `drift --format ndjson`", || schemars::schema_for!(DriftMessage<'_>).into()),
        ("drift-history", "what drift found over time: below `drift_history` in documents", || {
            schemars::schema_for!(History).into()
        }),
        ("drift-entry", "a line of the history of drift on the controller", || schemars::schema_for!(Entry).into()),
        ("drift-notice", "what a webhook of `drift.notify` is sent", || schemars::schema_for!(Notice).into()),
        ("run", "who began a run: `run.json`", || schemars::schema_for!(RunInfo).into()),
        ("record", "the record of an applied step on a host", || schemars::schema_for!(Record).into()),
        ("journal-entry", "a line of a run's journal", || schemars::schema_for!(Event).into()),
        ("lock", "digests of artifacts, beside an inventory: of `fetch --lock`", || schemars::schema_for!(Lock).into()),
        ("recording", "what hosts answered, raw: of `facts --record`", || schemars::schema_for!(Recording).into()),
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

/// Returns the schema of that name.
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

/// Returns the file's text.
pub fn text(schema: &Schema) -> String {
    format!("{:#}\n", schema.value())
}
