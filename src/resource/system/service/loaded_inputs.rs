//! Recorded inputs of a verified start or reload, and detection of later changes.

use crate::model::Value;
use crate::probe::{Observation, PathState, Probe, UnansweredReason};
use crate::resource::RestartInput;
use crate::resource::shared::file_target::path_probe;
use crate::resource::shared::support::path_state;
use crate::resource::system::unit::is_unit_path;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Tolerance in seconds. Two readings of one ctime may differ by text rounding; kernel timestamps are coarser.
const CTIME_TOLERANCE_S: f64 = 1e-5;

/// One input as loaded by the process.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct LoadedInput {
    /// Digest of the declaration.
    digest: String,
    /// The ctime of each path, null if the path did not exist. Excludes units, whose settings a process gets only when
    /// it starts. `None` in records of older versions, which stored no ctimes.
    paths: Option<BTreeMap<String, Option<f64>>>,
}

/// Why a process may not have the declared version of an input.
#[derive(Debug)]
pub(super) struct OutdatedInput {
    /// The file that shows it. Several steps may write the same one.
    pub path: Option<String>,
    pub why: String,
}

impl OutdatedInput {
    /// Returns a reason that follows from the declaration, or from the trace of a step.
    pub fn of_step(why: String) -> Self {
        Self { path: None, why }
    }

    pub fn of_path(path: &str, why: String) -> Self {
        Self { path: Some(path.to_owned()), why }
    }
}

/// Older versions stored only a digest, for a package with its unpack time: `sha256:…@1000.5`.
#[derive(Deserialize)]
#[serde(untagged)]
enum LoadedInputEntry {
    Whole(LoadedInput),
    Digest(String),
}

impl LoadedInput {
    /// Builds the entry from the observed state of an input.
    fn from_observation(input: &RestartInput, seen: &Observation) -> Result<Self, UnansweredReason> {
        let mut paths = BTreeMap::new();
        for path in input.watched_paths().filter(|path| !is_unit_path(path)) {
            paths.insert(path.to_owned(), path_ctime(seen, path)?);
        }
        Ok(Self { digest: input.digest.clone(), paths: Some(paths) })
    }

    /// Parses the entry of a step from the record of a service, if the record belongs to the start `invocation`.
    pub fn from_record(record: &Value, invocation: &str, step: &str) -> Option<Self> {
        let started = record.get("started")?;
        if invocation.is_empty() || started.get("invocation")?.as_str()? != invocation {
            return None;
        }
        let mut entries: BTreeMap<String, LoadedInputEntry> =
            serde_json::from_str(started.get("inputs")?.as_str()?).ok()?;
        Some(match entries.remove(step)? {
            LoadedInputEntry::Whole(loaded) => loaded,
            LoadedInputEntry::Digest(text) => {
                let digest = text.split('@').next().unwrap_or_default().to_owned();
                Self { digest, paths: None }
            }
        })
    }

    /// Reports whether the times of the input's paths are recorded. An input without paths needs none.
    pub fn has_path_times(&self, input: &RestartInput) -> bool {
        self.paths.is_some() || input.watched_paths().next().is_none()
    }

    /// Reports whether a pending change of `input` only restores the unit with which the process was started.
    pub fn is_reverted_unit(&self, input: &RestartInput) -> bool {
        self.paths.as_ref().is_some_and(BTreeMap::is_empty) && self.digest == input.digest && !input.paths.is_empty()
    }

    /// Returns why the process may not have the declared version of `input`.
    pub fn outdated_reason(
        &self,
        input: &RestartInput,
        seen: &Observation,
    ) -> Result<Option<OutdatedInput>, UnansweredReason> {
        let declared = (self.digest != input.digest)
            .then(|| OutdatedInput::of_step(format!("`{}` changed since the verified start", input.step)));
        let Some(paths) = &self.paths else { return Ok(declared) };
        let mut watched = input.watched_paths().filter(|path| !is_unit_path(path)).peekable();
        if watched.peek().is_none() {
            return Ok(declared);
        }
        for path in watched {
            // A path that an older record does not list did not exist at that time.
            let recorded = paths.get(path).copied().flatten();
            if !is_same_time(recorded, path_ctime(seen, path)?) {
                return Ok(declared.or_else(|| {
                    Some(match input.is_trace(path) {
                        true => {
                            OutdatedInput::of_step(format!("`{}` was applied after the verified start", input.step))
                        }
                        false => OutdatedInput::of_path(path, touched_reason(path)),
                    })
                }));
            }
        }
        // A new declaration that was not applied yet: the process has what is on the host.
        Ok(None)
    }
}

/// Returns the recorded form of `inputs`, as JSON text with sorted keys.
pub(super) fn record_inputs<'i>(
    inputs: impl Iterator<Item = &'i RestartInput>,
    seen: &Observation,
) -> Result<String, UnansweredReason> {
    let mut entries = BTreeMap::new();
    for input in inputs {
        entries.insert(&input.step, LoadedInput::from_observation(input, seen)?);
    }
    serde_json::to_string(&entries).map_err(|error| UnansweredReason::new(error.to_string()))
}

/// Replaces the times of files in the record of a service by the observed ones: an undo restored the files, and proved
/// that the process has read them. A record that lists no times stays as it is.
pub fn refresh_recorded_start(record: &mut Value, seen: &Observation) {
    let Some(text) = record.pointer("/started/inputs").and_then(Value::as_str) else { return };
    let Ok(mut entries) = serde_json::from_str::<BTreeMap<String, LoadedInput>>(text) else { return };
    for (path, time) in entries.values_mut().flat_map(|input| input.paths.iter_mut().flatten()) {
        if let Ok(now) = path_ctime(seen, path) {
            *time = now;
        }
    }
    if let Ok(text) = serde_json::to_string(&entries) {
        record["started"]["inputs"] = Value::String(text);
    }
}

/// Returns the probe of an input's path, as added by the planner.
pub(super) fn input_probe(path: &str) -> Probe {
    path_probe(path)
}

fn path_ctime(seen: &Observation, path: &str) -> Result<Option<f64>, UnansweredReason> {
    Ok(match path_state(seen, &input_probe(path))? {
        PathState::Present(info) => Some(info.ctime),
        PathState::Absent => None,
    })
}

fn touched_reason(path: &str) -> String {
    format!("`{path}` was touched after the verified start: the process may have read other content")
}

fn is_same_time(one: Option<f64>, other: Option<f64>) -> bool {
    match (one, other) {
        (Some(one), Some(other)) => (one - other).abs() < CTIME_TOLERANCE_S,
        (one, other) => one.is_none() && other.is_none(),
    }
}
