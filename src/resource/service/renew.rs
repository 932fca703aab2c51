//! Whether a running process has its inputs: the one place where a restart is decided.
//!
//! Architecture Invariant: the decision is derived from what is seen and recorded, never from the event of
//! a change, so a run that was killed between change and restart is completed by the next one.

use super::{input_probe, is_content, is_package};
use crate::model::Value;
use crate::probe::{Observation, PathState, UnitState, Unknown};
use crate::resource::Input;
use crate::resource::package::is_list;
use crate::resource::support::{path_state, sha256_hex};
use serde_json::{Map, Value as Json};

/// Why the running process has to be renewed.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Renewal {
    /// Reasons that only a restart settles.
    pub restart: Vec<String>,
    /// Reasons that a reload settles.
    pub reload: Vec<String>,
    /// Whether it rests only on what earlier steps are going to change.
    pub predicted: bool,
}

/// What the judge of a running unit reads.
pub(super) struct Running<'a> {
    pub unit: &'a UnitState,
    pub inputs: &'a [Input],
    pub seen: &'a Observation,
    /// The applied record of the service's step.
    pub record: Option<&'a Value>,
    /// The mark of the last reload.
    pub mark: Option<&'a str>,
    pub may_reload: bool,
}

/// Why one input is not in force.
enum Cause {
    /// It is seen to be so.
    Seen(String),
    /// An earlier step of the plan changes it.
    Coming(String),
}

impl Running<'_> {
    /// Returns why the process has to be renewed.
    pub fn renewal(&self) -> Result<Renewal, Unknown> {
        let mut renewal = Renewal::default();
        if self.unit.maps_unread {
            return Err(Unknown::new("the mapped files of its main process could not be read"));
        }
        for path in &self.unit.deleted {
            renewal.restart.push(format!("it runs `{}`, which was replaced on disk", path.raw()));
        }
        let mut coming = Vec::new();
        for input in self.inputs {
            let target = match self.may_reload && is_content(input) && self.unit.can_reload {
                true => &mut renewal.reload,
                false => &mut renewal.restart,
            };
            match self.cause(input)? {
                None => {}
                Some(Cause::Seen(why)) => target.push(why),
                Some(Cause::Coming(why)) => {
                    coming.push(why.clone());
                    target.push(why);
                }
            }
        }
        renewal.predicted = !coming.is_empty() && coming.len() == renewal.restart.len() + renewal.reload.len();
        Ok(renewal)
    }

    fn cause(&self, input: &Input) -> Result<Option<Cause>, Unknown> {
        if self.taken_over(input) && !input.changing {
            return Ok(None);
        }
        let recorded = self.recorded(&input.step);
        let is = match &recorded {
            Some(recorded) if *recorded == entry(input, self.seen)? => None,
            Some(_) => Some(format!("`{}` changed since the verified start", input.step)),
            None => self.newer(input)?.map(|path| format!("`{path}` changed after it started")),
        };
        if let Some(why) = is {
            return Ok(Some(Cause::Seen(why)));
        }
        let comes = input.changing && !self.repaired(input, recorded.as_deref());
        Ok(comes.then(|| Cause::Coming(format!("`{}` changes", input.step))))
    }

    /// Returns whether a pending change of `input` only puts back what the process was started with.
    fn repaired(&self, input: &Input, recorded: Option<&str>) -> bool {
        !is_package(input) && recorded == Some(input.digest.as_str())
    }

    /// Returns what the record of this very start says of an input.
    fn recorded(&self, step: &str) -> Option<String> {
        let started = self.record?.get("started")?;
        let same = started.get("invocation")?.as_str()? == self.unit.invocation && !self.unit.invocation.is_empty();
        let entries: Json = serde_json::from_str(started.get("inputs")?.as_str()?).ok()?;
        same.then(|| entries.get(step)?.as_str().map(str::to_owned)).flatten()
    }

    /// Returns whether the mark of the last reload names this start and the content declared now.
    fn taken_over(&self, input: &Input) -> bool {
        let current = format!("{} {}", self.unit.invocation, content_digest(self.inputs));
        self.may_reload && is_content(input) && self.mark == Some(current.as_str())
    }

    /// Returns a path of `input` whose status changed after the unit started.
    fn newer<'i>(&self, input: &'i Input) -> Result<Option<&'i str>, Unknown> {
        for path in &input.paths {
            let PathState::Present(info) = path_state(self.seen, &input_probe(path))? else { continue };
            if info.ctime > self.start()? {
                return Ok(Some(path));
            }
        }
        Ok(None)
    }

    /// Returns when the process started: it read its inputs no earlier. An old systemd gives whole seconds,
    /// rounded down, so a change within that second counts as later; the action starts no unit within the
    /// second of a change there.
    fn start(&self) -> Result<f64, Unknown> {
        let started = if self.unit.main_started > 0.0 { self.unit.main_started } else { self.unit.active_since };
        (started > 0.0).then_some(started).ok_or_else(|| Unknown::new("systemd does not say when the unit started"))
    }
}

/// Returns what a record keeps of one input: the declared digest, and for a package when it was unpacked.
fn entry(input: &Input, seen: &Observation) -> Result<String, Unknown> {
    let mut entry = input.digest.clone();
    for path in input.paths.iter().filter(|path| is_list(path)) {
        if let PathState::Present(info) = path_state(seen, &input_probe(path))? {
            entry.push_str(&format!("@{}", info.ctime));
        }
    }
    Ok(entry)
}

/// Returns what a record keeps of all inputs, as JSON text with sorted keys.
pub(super) fn all_entries(inputs: &[Input], seen: &Observation) -> Result<String, Unknown> {
    let mut entries = std::collections::BTreeMap::new();
    for input in inputs {
        entries.insert(input.step.clone(), Json::from(entry(input, seen)?));
    }
    Ok(Json::Object(entries.into_iter().collect::<Map<_, _>>()).to_string())
}

/// Returns one digest over what is declared of the inputs that a reload takes over.
pub(super) fn content_digest(inputs: &[Input]) -> String {
    let mut declared: Vec<String> =
        inputs.iter().filter(|i| is_content(i)).map(|i| format!("{}={}\n", i.step, i.digest)).collect();
    declared.sort();
    sha256_hex(declared.concat().as_bytes())
}
