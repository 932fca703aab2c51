//! The JSON writer: one document per result of a verb, with the format version first.

mod drift;
mod envelope;
mod formatter;
mod offline;
mod save;
mod validation;

pub use drift::{Message as DriftMessage, messages as drift_messages};
pub use envelope::document_schema;
pub use save::save;

use super::{Init, Listed, ManualPage, Sandboxes, Validation, Writer};
use crate::config::{Chart, OnHosts, RecipeLine, RecipePage, StepPage, ValuePage};
use crate::diag::Code;
use crate::drift::{Drift, History};
use crate::engine::{Checkup, Comparison, ExecReport, FetchReport, PastRun, Report};
use crate::facts::outliers::Outliers;
use crate::model::{ExitCode, HostName, Value};
use crate::plan::{Counts, HostSeen, Images, Plan, Reach};
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;
use std::io::{self, Write};

/// The format version of the documents. Additions keep it, all other changes increment it.
pub const VERSION: u32 = 1;

/// Writes JSON that is safe to print on a terminal.
#[derive(Clone, Copy, Debug, Default)]
pub struct Json;

/// The common keys of all documents.
#[derive(Serialize)]
struct Document<T> {
    version: u32,
    /// The kind of the document: `plan`, `report`, `facts` ….
    result: &'static str,
    forge: &'static str,
    exit: Exit,
    #[serde(flatten)]
    body: T,
}

/// The exit code of the process and its name.
#[derive(Serialize, JsonSchema)]
pub struct Exit {
    code: u8,
    name: ExitCode,
}

impl Exit {
    fn of(exit: ExitCode) -> Self {
        Self { code: exit.code(), name: exit }
    }
}

impl<T: Serialize> Document<T> {
    fn write(result: &'static str, exit: ExitCode, body: T, out: &mut dyn Write) -> io::Result<()> {
        let exit = Exit::of(exit);
        let document = Self { version: VERSION, result, forge: env!("CARGO_PKG_VERSION"), exit, body };
        let mut serializer = serde_json::Serializer::with_formatter(&mut *out, formatter::Harmless::default());
        document.serialize(&mut serializer)?;
        writeln!(out)
    }
}

/// Writes a document in another format than forge's own, safe to print on a terminal.
pub(super) fn document(value: &serde_json::Value, out: &mut dyn Write) -> io::Result<()> {
    let mut serializer = serde_json::Serializer::with_formatter(&mut *out, formatter::Harmless::default());
    value.serialize(&mut serializer)?;
    writeln!(out)
}

/// Returns a value as one line, safe to print on a terminal.
pub(super) fn compact(value: &impl Serialize) -> io::Result<String> {
    let mut out = Vec::new();
    value.serialize(&mut serde_json::Serializer::with_formatter(&mut out, formatter::Harmless::compact()))?;
    String::from_utf8(out).map_err(io::Error::other)
}

#[derive(Serialize, JsonSchema)]
struct PlanBody<'a> {
    counts: Counts,
    plan: &'a Plan,
}

#[derive(Serialize, JsonSchema)]
struct ImagesBody<'a> {
    #[serde(flatten)]
    images: &'a Images,
}

#[derive(Serialize, JsonSchema)]
struct ReportBody<'a> {
    report: &'a Report,
}

#[derive(Serialize, JsonSchema)]
struct DoctorBody<'a> {
    doctor: &'a Checkup,
}

#[derive(Serialize, JsonSchema)]
struct ExecBody<'a> {
    exec: &'a ExecReport,
}

#[derive(Serialize, JsonSchema)]
struct FetchBody<'a> {
    fetch: &'a FetchReport,
}

#[derive(Serialize, JsonSchema)]
struct InitBody<'a> {
    init: &'a Init,
}

#[derive(Serialize, JsonSchema)]
struct FactsBody<'a> {
    facts: Vec<HostFacts<'a>>,
}

#[derive(Serialize, JsonSchema)]
struct HostFacts<'a> {
    host: &'a HostName,
    reach: &'a Reach,
    /// Present and true for a local sandbox, and for hosts with simulated hardware.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    simulated: bool,
    facts: BTreeMap<&'a str, Fact<'a>>,
}

/// A fact: a value, or the reason why it is unknown. Never an ambiguous null.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Fact<'a> {
    Value(&'a Value),
    Unknown(&'a crate::probe::Unknown),
}

#[derive(Serialize, JsonSchema)]
struct OutliersBody<'a> {
    outliers: &'a Outliers,
    /// Simulated hosts, and hosts with simulated hardware.
    simulated: Vec<&'a HostName>,
    unreachable: Vec<&'a HostName>,
}

impl<'a> OutliersBody<'a> {
    fn of(seen: &'a [HostSeen], outliers: &'a Outliers) -> Self {
        let which =
            |keep: fn(&HostSeen) -> bool| seen.iter().filter(|seen| keep(seen)).map(|seen| &seen.host).collect();
        Self { outliers, simulated: which(|seen| seen.simulated), unreachable: which(|seen| !seen.is_observed()) }
    }
}

#[derive(Serialize, JsonSchema)]
struct SandboxesBody<'a> {
    /// Whether this command ended them.
    ended: bool,
    sandboxes: Vec<SandboxLine<'a>>,
}

/// A sandbox in its previous state. `pid` is null if it was not running.
#[derive(Serialize, JsonSchema)]
struct SandboxLine<'a> {
    host: &'a str,
    pid: Option<u32>,
}

impl<'a> HostFacts<'a> {
    fn of(seen: &'a HostSeen) -> Self {
        let facts = seen
            .facts
            .0
            .iter()
            .map(|(name, fact)| (name.as_str(), fact.as_ref().map_or_else(Fact::Unknown, Fact::Value)));
        Self { host: &seen.host, reach: &seen.reach, simulated: seen.simulated, facts: facts.collect() }
    }
}

impl Writer for Json {
    fn plan(&self, plan: &Plan, exit: ExitCode, out: &mut dyn Write) -> io::Result<()> {
        Document::write("plan", exit, PlanBody { counts: plan.counts(), plan }, out)
    }

    fn images(&self, images: &Images, exit: ExitCode, out: &mut dyn Write) -> io::Result<()> {
        Document::write("images", exit, ImagesBody { images }, out)
    }

    fn report(&self, report: &Report, exit: ExitCode, out: &mut dyn Write) -> io::Result<()> {
        Document::write("report", exit, ReportBody { report }, out)
    }

    fn facts(&self, seen: &[HostSeen], exit: ExitCode, out: &mut dyn Write) -> io::Result<()> {
        Document::write("facts", exit, FactsBody { facts: seen.iter().map(HostFacts::of).collect() }, out)
    }

    fn outliers(&self, seen: &[HostSeen], outliers: &Outliers, exit: ExitCode, out: &mut dyn Write) -> io::Result<()> {
        Document::write("outliers", exit, OutliersBody::of(seen, outliers), out)
    }

    fn sandboxes(&self, sandboxes: &Sandboxes, exit: ExitCode, out: &mut dyn Write) -> io::Result<()> {
        let lines = sandboxes.list.iter().map(|sandbox| SandboxLine { host: &sandbox.host, pid: sandbox.pid });
        let body = SandboxesBody { ended: sandboxes.ended, sandboxes: lines.collect() };
        Document::write("sandboxes", exit, body, out)
    }

    fn validation(&self, validation: &Validation, exit: ExitCode, out: &mut dyn Write) -> io::Result<()> {
        Document::write("validation", exit, validation::body(validation), out)
    }

    fn graph(&self, graph: &Chart, out: &mut dyn Write) -> io::Result<()> {
        Document::write("graph", ExitCode::Done, offline::GraphBody { graph }, out)
    }

    fn recipes(&self, recipes: &[RecipeLine], out: &mut dyn Write) -> io::Result<()> {
        Document::write("recipes", ExitCode::Done, offline::RecipesBody { recipes }, out)
    }

    fn recipe(&self, recipe: &RecipePage, out: &mut dyn Write) -> io::Result<()> {
        Document::write("recipe", ExitCode::Done, offline::RecipeBody { recipe }, out)
    }

    fn values(&self, values: &[OnHosts<ValuePage>], out: &mut dyn Write) -> io::Result<()> {
        Document::write("values", ExitCode::Done, offline::ValueBody { values }, out)
    }

    fn step(&self, step: &StepPage, out: &mut dyn Write) -> io::Result<()> {
        Document::write("step", ExitCode::Done, offline::StepBody { step }, out)
    }

    fn code(&self, code: Code, out: &mut dyn Write) -> io::Result<()> {
        Document::write("code", ExitCode::Done, offline::CodeBody::of(code), out)
    }

    fn page(&self, page: &ManualPage, out: &mut dyn Write) -> io::Result<()> {
        Document::write("page", ExitCode::Done, offline::PageBody { page }, out)
    }

    fn runs(&self, runs: &[Listed], out: &mut dyn Write) -> io::Result<()> {
        let runs = runs.iter().map(offline::Line::of).collect();
        Document::write("runs", ExitCode::Done, offline::RunsBody { runs }, out)
    }

    fn run(&self, run: &PastRun, out: &mut dyn Write) -> io::Result<()> {
        Document::write("run", ExitCode::Done, offline::RunBody { run: offline::Past::of(run) }, out)
    }

    fn comparison(&self, comparison: &Comparison, out: &mut dyn Write) -> io::Result<()> {
        Document::write("comparison", ExitCode::Done, offline::ComparisonBody { comparison }, out)
    }

    fn doctor(&self, checkup: &Checkup, exit: ExitCode, out: &mut dyn Write) -> io::Result<()> {
        Document::write("doctor", exit, DoctorBody { doctor: checkup }, out)
    }

    fn drift(&self, drift: &Drift, exit: ExitCode, out: &mut dyn Write) -> io::Result<()> {
        Document::write("drift", exit, drift::DriftBody { counts: drift.counts(), drift }, out)
    }

    fn drift_history(&self, history: &History, out: &mut dyn Write) -> io::Result<()> {
        Document::write("drift_history", ExitCode::Done, drift::HistoryBody { drift_history: history }, out)
    }

    fn exec(&self, report: &ExecReport, exit: ExitCode, out: &mut dyn Write) -> io::Result<()> {
        Document::write("exec", exit, ExecBody { exec: report }, out)
    }

    fn fetch(&self, report: &FetchReport, exit: ExitCode, out: &mut dyn Write) -> io::Result<()> {
        Document::write("fetch", exit, FetchBody { fetch: report }, out)
    }

    fn init(&self, init: &Init, exit: ExitCode, out: &mut dyn Write) -> io::Result<()> {
        Document::write("init", exit, InitBody { init }, out)
    }
}

#[cfg(test)]
mod tests;
