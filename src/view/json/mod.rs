//! The JSON writer: one document per result of a verb, with the format version first.

mod drift;
mod envelope;
mod formatter;
mod offline;
mod save;
mod validation;

pub use drift::{DriftMessage, messages as drift_messages};
pub use envelope::document_schema;
pub use save::save;

use super::{InitResult, ListedRun, ManualPage, ResultWriter, SandboxList, ValidationResult};
use crate::config::{DependencyChart, RecipeDetails, RecipeSummary, SharedByHosts, StepExplanation, ValueExplanation};
use crate::diag::Code;
use crate::drift::{DriftHistory, DriftReport};
use crate::engine::{DoctorReport, ExecReport, FetchReport, PastRun, RunComparison, RunReport};
use crate::facts::outliers::OutlierReport;
use crate::model::{ExitCode, HostName, Value};
use crate::plan::{HostReachability, ObservedHost, Plan, PlanCounts, PlanImages};
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;
use std::io::{self, Write};

/// The format version of the documents. Additions keep it, all other changes increment it.
pub const VERSION: u32 = 1;

/// Writes JSON that is safe to print on a terminal.
#[derive(Clone, Copy, Debug, Default)]
pub struct JsonWriter;

/// The common keys of all documents.
#[derive(Serialize)]
struct JsonDocument<T> {
    version: u32,
    /// The kind of the document: `plan`, `report`, `facts` ….
    result: &'static str,
    forge: &'static str,
    exit: ExitInfo,
    #[serde(flatten)]
    body: T,
}

/// The exit code of the process and its name.
#[derive(Serialize, JsonSchema)]
pub struct ExitInfo {
    code: u8,
    name: ExitCode,
}

impl ExitInfo {
    fn of(exit: ExitCode) -> Self {
        Self { code: exit.code(), name: exit }
    }
}

impl<T: Serialize> JsonDocument<T> {
    fn write(result: &'static str, exit: ExitCode, body: T, out: &mut dyn Write) -> io::Result<()> {
        let exit = ExitInfo::of(exit);
        let document = Self { version: VERSION, result, forge: env!("CARGO_PKG_VERSION"), exit, body };
        let mut serializer = serde_json::Serializer::with_formatter(&mut *out, formatter::EscapingFormatter::default());
        document.serialize(&mut serializer)?;
        writeln!(out)
    }
}

/// Writes a document in another format than forge's own, safe to print on a terminal.
pub(super) fn document(value: &serde_json::Value, out: &mut dyn Write) -> io::Result<()> {
    let mut serializer = serde_json::Serializer::with_formatter(&mut *out, formatter::EscapingFormatter::default());
    value.serialize(&mut serializer)?;
    writeln!(out)
}

/// Returns a value as one line, safe to print on a terminal.
pub(super) fn compact(value: &impl Serialize) -> io::Result<String> {
    let mut out = Vec::new();
    value.serialize(&mut serde_json::Serializer::with_formatter(&mut out, formatter::EscapingFormatter::compact()))?;
    String::from_utf8(out).map_err(io::Error::other)
}

#[derive(Serialize, JsonSchema)]
struct PlanBody<'a> {
    counts: PlanCounts,
    plan: &'a Plan,
}

#[derive(Serialize, JsonSchema)]
struct ImagesBody<'a> {
    #[serde(flatten)]
    images: &'a PlanImages,
}

#[derive(Serialize, JsonSchema)]
struct ReportBody<'a> {
    report: &'a RunReport,
}

#[derive(Serialize, JsonSchema)]
struct DoctorBody<'a> {
    doctor: &'a DoctorReport,
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
    init: &'a InitResult,
}

#[derive(Serialize, JsonSchema)]
struct FactsBody<'a> {
    facts: Vec<HostFacts<'a>>,
}

#[derive(Serialize, JsonSchema)]
struct HostFacts<'a> {
    host: &'a HostName,
    reach: &'a HostReachability,
    /// Present and true for a local sandbox, and for hosts with simulated hardware.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    simulated: bool,
    facts: BTreeMap<&'a str, JsonFact<'a>>,
}

/// A fact: a value, or the reason why it is unknown. Never an ambiguous null.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum JsonFact<'a> {
    Value(&'a Value),
    Unknown(&'a crate::probe::UnansweredReason),
}

#[derive(Serialize, JsonSchema)]
struct OutliersBody<'a> {
    outliers: &'a OutlierReport,
    /// Simulated hosts, and hosts with simulated hardware.
    simulated: Vec<&'a HostName>,
    unreachable: Vec<&'a HostName>,
}

impl<'a> OutliersBody<'a> {
    fn of(seen: &'a [ObservedHost], outliers: &'a OutlierReport) -> Self {
        let which =
            |keep: fn(&ObservedHost) -> bool| seen.iter().filter(|seen| keep(seen)).map(|seen| &seen.host).collect();
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
    fn of(seen: &'a ObservedHost) -> Self {
        let facts = seen
            .facts
            .0
            .iter()
            .map(|(name, fact)| (name.as_str(), fact.as_ref().map_or_else(JsonFact::Unknown, JsonFact::Value)));
        Self { host: &seen.host, reach: &seen.reach, simulated: seen.simulated, facts: facts.collect() }
    }
}

impl ResultWriter for JsonWriter {
    fn plan(&self, plan: &Plan, exit: ExitCode, out: &mut dyn Write) -> io::Result<()> {
        JsonDocument::write("plan", exit, PlanBody { counts: plan.counts(), plan }, out)
    }

    fn images(&self, images: &PlanImages, exit: ExitCode, out: &mut dyn Write) -> io::Result<()> {
        JsonDocument::write("images", exit, ImagesBody { images }, out)
    }

    fn report(&self, report: &RunReport, exit: ExitCode, out: &mut dyn Write) -> io::Result<()> {
        JsonDocument::write("report", exit, ReportBody { report }, out)
    }

    fn facts(&self, seen: &[ObservedHost], exit: ExitCode, out: &mut dyn Write) -> io::Result<()> {
        JsonDocument::write("facts", exit, FactsBody { facts: seen.iter().map(HostFacts::of).collect() }, out)
    }

    fn outliers(
        &self,
        seen: &[ObservedHost],
        outliers: &OutlierReport,
        exit: ExitCode,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        JsonDocument::write("outliers", exit, OutliersBody::of(seen, outliers), out)
    }

    fn sandboxes(&self, sandboxes: &SandboxList, exit: ExitCode, out: &mut dyn Write) -> io::Result<()> {
        let lines = sandboxes.list.iter().map(|sandbox| SandboxLine { host: &sandbox.host, pid: sandbox.pid });
        let body = SandboxesBody { ended: sandboxes.ended, sandboxes: lines.collect() };
        JsonDocument::write("sandboxes", exit, body, out)
    }

    fn validation(&self, validation: &ValidationResult, exit: ExitCode, out: &mut dyn Write) -> io::Result<()> {
        JsonDocument::write("validation", exit, validation::body(validation), out)
    }

    fn graph(&self, graph: &DependencyChart, out: &mut dyn Write) -> io::Result<()> {
        JsonDocument::write("graph", ExitCode::Done, offline::GraphBody { graph }, out)
    }

    fn recipes(&self, recipes: &[RecipeSummary], out: &mut dyn Write) -> io::Result<()> {
        JsonDocument::write("recipes", ExitCode::Done, offline::RecipesBody { recipes }, out)
    }

    fn recipe(&self, recipe: &RecipeDetails, out: &mut dyn Write) -> io::Result<()> {
        JsonDocument::write("recipe", ExitCode::Done, offline::RecipeBody { recipe }, out)
    }

    fn values(&self, values: &[SharedByHosts<ValueExplanation>], out: &mut dyn Write) -> io::Result<()> {
        JsonDocument::write("values", ExitCode::Done, offline::ValueBody { values }, out)
    }

    fn step(&self, step: &StepExplanation, out: &mut dyn Write) -> io::Result<()> {
        JsonDocument::write("step", ExitCode::Done, offline::StepBody { step }, out)
    }

    fn code(&self, code: Code, out: &mut dyn Write) -> io::Result<()> {
        JsonDocument::write("code", ExitCode::Done, offline::CodeBody::of(code), out)
    }

    fn page(&self, page: &ManualPage, out: &mut dyn Write) -> io::Result<()> {
        JsonDocument::write("page", ExitCode::Done, offline::PageBody { page }, out)
    }

    fn runs(&self, runs: &[ListedRun], out: &mut dyn Write) -> io::Result<()> {
        let runs = runs.iter().map(offline::RunListItem::of).collect();
        JsonDocument::write("runs", ExitCode::Done, offline::RunsBody { runs }, out)
    }

    fn run(&self, run: &PastRun, out: &mut dyn Write) -> io::Result<()> {
        JsonDocument::write("run", ExitCode::Done, offline::RunBody { run: offline::PastRunBody::of(run) }, out)
    }

    fn comparison(&self, comparison: &RunComparison, out: &mut dyn Write) -> io::Result<()> {
        JsonDocument::write("comparison", ExitCode::Done, offline::ComparisonBody { comparison }, out)
    }

    fn doctor(&self, checkup: &DoctorReport, exit: ExitCode, out: &mut dyn Write) -> io::Result<()> {
        JsonDocument::write("doctor", exit, DoctorBody { doctor: checkup }, out)
    }

    fn drift(&self, drift: &DriftReport, exit: ExitCode, out: &mut dyn Write) -> io::Result<()> {
        JsonDocument::write("drift", exit, drift::DriftBody { counts: drift.counts(), drift }, out)
    }

    fn drift_history(&self, history: &DriftHistory, out: &mut dyn Write) -> io::Result<()> {
        JsonDocument::write("drift_history", ExitCode::Done, drift::HistoryBody { drift_history: history }, out)
    }

    fn exec(&self, report: &ExecReport, exit: ExitCode, out: &mut dyn Write) -> io::Result<()> {
        JsonDocument::write("exec", exit, ExecBody { exec: report }, out)
    }

    fn fetch(&self, report: &FetchReport, exit: ExitCode, out: &mut dyn Write) -> io::Result<()> {
        JsonDocument::write("fetch", exit, FetchBody { fetch: report }, out)
    }

    fn init(&self, init: &InitResult, exit: ExitCode, out: &mut dyn Write) -> io::Result<()> {
        JsonDocument::write("init", exit, InitBody { init }, out)
    }
}

#[cfg(test)]
mod tests;
