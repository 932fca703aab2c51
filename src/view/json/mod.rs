//! The JSON writer: one document per result of a verb, with the format version first.

mod drift;
mod exit_info;
mod formatter;
mod offline;
mod read_recording;
mod saved_plan;
mod schema;
mod validation;

pub use drift::DriftMessage;
pub use exit_info::ExitInfo;
pub use saved_plan::write_saved_plan;
pub use schema::document_schema;

use self::read_recording::ReadRecording;
use super::{
    InitResult, ListedRun, ManualPage, RecordingFile, ResultWriter, SandboxList, UndoRefusalList, ValidationResult,
};
use crate::config::{DependencyChart, RecipeDetails, RecipeSummary, SharedByHosts, StepExplanation, ValueExplanation};
use crate::diag::DiagCode;
use crate::drift::{DriftHistory, DriftReport};
use crate::engine::{
    AcceptanceReport, DoctorReport, ExecReport, FetchReport, HoldReport, PastRun, RunComparison, RunReport,
    SlowDiagnosis, UndoRefusal,
};
use crate::facts::outliers::OutlierReport;
use crate::model::{ExitCode, HostName, StepId, UntrustedText, Value};
use crate::plan::{HostReachability, ObservedHost, Plan, PlanCounts, PlanImages, RehearsalReport, RehearsalSummary};
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;
use std::io::{self, Write};

/// The format version of the documents. Additions keep it, all other changes increment it.
pub const DOCUMENT_VERSION: u32 = 1;

/// Writes JSON that is safe to print on a terminal.
#[derive(Clone, Debug, Default)]
pub struct JsonWriter {
    recordings: Vec<RecordingFile>,
}

/// The common keys of all documents.
#[derive(Serialize)]
struct JsonDocument<'w, T> {
    version: u32,
    /// The kind of the document: `plan`, `report`, `facts` ….
    result: &'static str,
    forge: &'static str,
    exit: ExitInfo,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    recordings: Vec<ReadRecording<'w>>,
    #[serde(flatten)]
    body: T,
}

impl JsonWriter {
    /// Returns the writer for results that are computed from recordings, if there are any.
    pub fn new(recordings: &[RecordingFile]) -> Self {
        Self { recordings: recordings.to_vec() }
    }

    /// Writes the findings of drift, one message per line.
    ///
    /// # Errors
    /// The stream cannot be written.
    pub fn write_drift_messages(&self, drift: &DriftReport, exit: ExitCode, out: &mut dyn Write) -> io::Result<()> {
        drift::write_drift_messages(drift, exit, self.list_recordings(), out)
    }

    fn list_recordings(&self) -> Vec<ReadRecording<'_>> {
        self.recordings.iter().map(ReadRecording::from_file).collect()
    }

    fn write_document<T: Serialize>(
        &self,
        result: &'static str,
        exit: ExitCode,
        body: T,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        let recordings = self.list_recordings();
        let (exit, forge) = (ExitInfo::from_code(exit), env!("CARGO_PKG_VERSION"));
        let document = JsonDocument { version: DOCUMENT_VERSION, result, forge, exit, recordings, body };
        let mut serializer = serde_json::Serializer::with_formatter(&mut *out, formatter::EscapingFormatter::default());
        document.serialize(&mut serializer)?;
        writeln!(out)
    }
}

/// Writes a document in another format than forge's own, safe to print on a terminal.
pub(super) fn write_json(value: &serde_json::Value, out: &mut dyn Write) -> io::Result<()> {
    let mut serializer = serde_json::Serializer::with_formatter(&mut *out, formatter::EscapingFormatter::default());
    value.serialize(&mut serializer)?;
    writeln!(out)
}

/// Returns a value as one line, safe to print on a terminal.
pub(super) fn to_compact_json(value: &impl Serialize) -> io::Result<String> {
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
    /// Why the history of the run could not be written on this machine; absent if it was.
    #[serde(skip_serializing_if = "Option::is_none")]
    no_history: Option<&'a UntrustedText>,
    report: &'a RunReport,
}

#[derive(Serialize, JsonSchema)]
struct UndoRefusalBody<'a> {
    refusal: RefusedUndo<'a>,
}

/// An undo of which nothing was done.
#[derive(Serialize, JsonSchema)]
struct RefusedUndo<'a> {
    /// The run that was to be undone.
    run: &'a str,
    /// Its changes that cannot be undone, on each host.
    changes: Vec<RefusedChange<'a>>,
}

/// A change that cannot be undone.
#[derive(Serialize, JsonSchema)]
struct RefusedChange<'a> {
    host: &'a HostName,
    /// The step that made it; absent if the journal of the host cannot be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    step: Option<&'a StepId>,
    /// Why it cannot be undone: a lowercase fragment.
    why: &'a str,
}

#[derive(Serialize, JsonSchema)]
struct RehearsalBody<'a> {
    summary: RehearsalSummary,
    rehearsal: &'a RehearsalReport,
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
struct AcceptanceBody<'a> {
    tests: &'a AcceptanceReport,
}

#[derive(Serialize, JsonSchema)]
struct HoldsBody<'a> {
    holds: &'a HoldReport,
}

#[derive(Serialize, JsonSchema)]
struct DiagnosisBody<'a> {
    diagnosis: &'a SlowDiagnosis,
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
    fn from_outliers(seen: &'a [ObservedHost], outliers: &'a OutlierReport) -> Self {
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
    fn from_seen(seen: &'a ObservedHost) -> Self {
        let facts = seen
            .facts
            .0
            .iter()
            .map(|(name, fact)| (name, fact.as_ref().map_or_else(JsonFact::Unknown, JsonFact::Value)));
        Self { host: &seen.host, reach: &seen.reach, simulated: seen.simulated, facts: facts.collect() }
    }
}

impl<'a> RefusedChange<'a> {
    fn from_refusal(refusal: &'a UndoRefusal) -> Self {
        Self { host: &refusal.host, step: refusal.step.as_ref(), why: &refusal.why }
    }
}

impl ResultWriter for JsonWriter {
    fn write_plan(&self, plan: &Plan, exit: ExitCode, out: &mut dyn Write) -> io::Result<()> {
        self.write_document("plan", exit, PlanBody { counts: plan.count_steps(), plan }, out)
    }

    fn write_images(&self, images: &PlanImages, exit: ExitCode, out: &mut dyn Write) -> io::Result<()> {
        self.write_document("images", exit, ImagesBody { images }, out)
    }

    fn write_report(&self, report: &RunReport, exit: ExitCode, out: &mut dyn Write) -> io::Result<()> {
        self.write_apply_report(report, None, exit, out)
    }

    fn write_apply_report(
        &self,
        report: &RunReport,
        no_history: Option<&UntrustedText>,
        exit: ExitCode,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        self.write_document("report", exit, ReportBody { no_history, report }, out)
    }

    fn write_undo_refusal(&self, refusal: &UndoRefusalList<'_>, exit: ExitCode, out: &mut dyn Write) -> io::Result<()> {
        let changes = refusal.refused.iter().map(RefusedChange::from_refusal).collect();
        let refusal = RefusedUndo { run: refusal.run, changes };
        self.write_document("undo_refusal", exit, UndoRefusalBody { refusal }, out)
    }

    fn write_rehearsal(&self, report: &RehearsalReport, exit: ExitCode, out: &mut dyn Write) -> io::Result<()> {
        let body = RehearsalBody { summary: report.summarize(), rehearsal: report };
        self.write_document("rehearsal", exit, body, out)
    }

    fn write_facts(&self, seen: &[ObservedHost], exit: ExitCode, out: &mut dyn Write) -> io::Result<()> {
        self.write_document("facts", exit, FactsBody { facts: seen.iter().map(HostFacts::from_seen).collect() }, out)
    }

    fn write_outliers(
        &self,
        seen: &[ObservedHost],
        outliers: &OutlierReport,
        exit: ExitCode,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        self.write_document("outliers", exit, OutliersBody::from_outliers(seen, outliers), out)
    }

    fn write_sandboxes(&self, sandboxes: &SandboxList, exit: ExitCode, out: &mut dyn Write) -> io::Result<()> {
        let lines = sandboxes.list.iter().map(|sandbox| SandboxLine { host: &sandbox.host, pid: sandbox.pid });
        let body = SandboxesBody { ended: sandboxes.ended, sandboxes: lines.collect() };
        self.write_document("sandboxes", exit, body, out)
    }

    fn write_validation(&self, validation: &ValidationResult, exit: ExitCode, out: &mut dyn Write) -> io::Result<()> {
        self.write_document("validation", exit, validation::validation_body(validation), out)
    }

    fn write_graph(&self, graph: &DependencyChart, out: &mut dyn Write) -> io::Result<()> {
        self.write_document("graph", ExitCode::Done, offline::GraphBody { graph }, out)
    }

    fn write_recipes(&self, recipes: &[RecipeSummary], out: &mut dyn Write) -> io::Result<()> {
        self.write_document("recipes", ExitCode::Done, offline::RecipesBody { recipes }, out)
    }

    fn write_recipe(&self, recipe: &RecipeDetails, out: &mut dyn Write) -> io::Result<()> {
        self.write_document("recipe", ExitCode::Done, offline::RecipeBody { recipe }, out)
    }

    fn write_values(&self, values: &[SharedByHosts<ValueExplanation>], out: &mut dyn Write) -> io::Result<()> {
        self.write_document("values", ExitCode::Done, offline::ValueBody { values }, out)
    }

    fn write_step(&self, step: &StepExplanation, out: &mut dyn Write) -> io::Result<()> {
        self.write_document("step", ExitCode::Done, offline::StepBody { step }, out)
    }

    fn write_error_code(&self, code: DiagCode, out: &mut dyn Write) -> io::Result<()> {
        self.write_document("code", ExitCode::Done, offline::CodeBody::from_code(code), out)
    }

    fn write_manual_page(&self, page: &ManualPage, out: &mut dyn Write) -> io::Result<()> {
        self.write_document("page", ExitCode::Done, offline::PageBody { page }, out)
    }

    fn write_runs(&self, runs: &[ListedRun], out: &mut dyn Write) -> io::Result<()> {
        let runs = runs.iter().map(offline::RunListItem::from_listed).collect();
        self.write_document("runs", ExitCode::Done, offline::RunsBody { runs }, out)
    }

    fn write_run(&self, run: &PastRun, out: &mut dyn Write) -> io::Result<()> {
        self.write_document("run", ExitCode::Done, offline::RunBody { run: offline::PastRunBody::from_run(run) }, out)
    }

    fn write_comparison(&self, comparison: &RunComparison, out: &mut dyn Write) -> io::Result<()> {
        self.write_document("comparison", ExitCode::Done, offline::ComparisonBody { comparison }, out)
    }

    fn write_checkup(&self, checkup: &DoctorReport, exit: ExitCode, out: &mut dyn Write) -> io::Result<()> {
        self.write_document("doctor", exit, DoctorBody { doctor: checkup }, out)
    }

    fn write_drift(&self, drift: &DriftReport, exit: ExitCode, out: &mut dyn Write) -> io::Result<()> {
        self.write_document("drift", exit, drift::DriftBody { counts: drift.count_findings(), drift }, out)
    }

    fn write_drift_history(&self, history: &DriftHistory, out: &mut dyn Write) -> io::Result<()> {
        self.write_document("drift_history", ExitCode::Done, drift::HistoryBody { drift_history: history }, out)
    }

    fn write_exec_report(&self, report: &ExecReport, exit: ExitCode, out: &mut dyn Write) -> io::Result<()> {
        self.write_document("exec", exit, ExecBody { exec: report }, out)
    }

    fn write_acceptance(&self, report: &AcceptanceReport, exit: ExitCode, out: &mut dyn Write) -> io::Result<()> {
        self.write_document("tests", exit, AcceptanceBody { tests: report }, out)
    }

    fn write_holds(&self, report: &HoldReport, exit: ExitCode, out: &mut dyn Write) -> io::Result<()> {
        self.write_document("holds", exit, HoldsBody { holds: report }, out)
    }

    fn write_diagnosis(&self, diagnosis: &SlowDiagnosis, exit: ExitCode, out: &mut dyn Write) -> io::Result<()> {
        self.write_document("diagnosis", exit, DiagnosisBody { diagnosis }, out)
    }

    fn write_fetch_report(&self, report: &FetchReport, exit: ExitCode, out: &mut dyn Write) -> io::Result<()> {
        self.write_document("fetch", exit, FetchBody { fetch: report }, out)
    }

    fn write_init_result(&self, init: &InitResult, exit: ExitCode, out: &mut dyn Write) -> io::Result<()> {
        self.write_document("init", exit, InitBody { init }, out)
    }
}

#[cfg(test)]
mod tests;
