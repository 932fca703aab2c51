//! Decides whether a running process uses its current inputs. All restart decisions are made here.
//!
//! Architecture Invariant: the decision is derived from observed and recorded state, never from the event of a change,
//! so the next run completes a run that was killed between change and restart.

use super::loaded_inputs::{LoadedInput, OutdatedInput, input_probe};
use crate::model::Value;
use crate::probe::{Observation, PathState, PathType, UnansweredReason, UnitState};
use crate::resource::RestartInput;
use crate::resource::packages::package::is_file_list;
use crate::resource::shared::support::{path_state, sha256_hex};
use crate::resource::system::unit::is_unit_path;
use std::collections::BTreeSet;

/// Reasons to restart or reload the running process.
#[derive(Debug, Default, PartialEq)]
pub(super) struct ServiceRenewal {
    /// Reasons that need a restart.
    pub restart: Vec<String>,
    /// Reasons for which a reload is enough.
    pub reload: Vec<String>,
    /// Whether all reasons are changes that earlier steps will make.
    pub predicted: bool,
}

impl ServiceRenewal {
    /// Reports whether the process has its current inputs.
    pub fn is_empty(&self) -> bool {
        self.restart.is_empty() && self.reload.is_empty()
    }
}

/// Input of the evaluation of a running unit.
pub(super) struct RunningService<'a> {
    pub unit: &'a UnitState,
    pub inputs: &'a [RestartInput],
    pub seen: &'a Observation,
    /// The applied record of the service's step.
    pub record: Option<&'a Value>,
    /// The mark of the last reload.
    pub mark: Option<ReloadMark<'a>>,
    pub may_reload: bool,
}

/// Data that the action records about the last reload.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct ReloadMark<'a> {
    /// The start that was reloaded.
    invocation: &'a str,
    /// Digest of the declared content.
    digest: &'a str,
    /// When the reload began, by the clock of the file system.
    began: f64,
}

impl<'a> ReloadMark<'a> {
    /// Parses the body of a mark. Marks of older versions lack the time of the reload and are ignored.
    pub fn parse(body: &'a str) -> Option<Self> {
        let mut words = body.split_whitespace();
        Some(Self { invocation: words.next()?, digest: words.next()?, began: words.next()?.parse().ok()? })
    }
}

/// Why the process does not use the current version of one input.
enum RenewalCause {
    /// Observed.
    Seen(OutdatedInput),
    /// An earlier step of the plan changes it.
    Coming(String),
}

impl RunningService<'_> {
    /// Returns the reasons to restart or reload the process.
    pub fn find_renewal(&self) -> Result<ServiceRenewal, UnansweredReason> {
        let mut renewal = ServiceRenewal::default();
        if self.unit.maps_unread {
            return Err(UnansweredReason::new("the mapped files of its main process could not be read"));
        }
        for path in &self.unit.deleted {
            renewal.restart.push(format!("it runs `{}`, which was replaced on disk", path.raw()));
        }
        let mut is_seen = !renewal.is_empty();
        let mut named = BTreeSet::new();
        for input in self.inputs {
            let needs_restart = !(self.unit.can_reload && self.is_applied_by_reload(input)?);
            let target = match needs_restart {
                true => &mut renewal.restart,
                false => &mut renewal.reload,
            };
            match self.find_cause(input)? {
                None => {}
                Some(RenewalCause::Coming(why)) => target.push(why),
                Some(RenewalCause::Seen(OutdatedInput { path, why })) => {
                    is_seen = true;
                    // One reason per file. A restart includes a reload, which does not replace it.
                    if path.is_none_or(|path| named.insert((path, needs_restart))) {
                        target.push(why);
                    }
                }
            }
        }
        renewal.predicted = !is_seen && !renewal.is_empty();
        Ok(renewal)
    }

    /// Reports whether a reload may apply the input: it is chosen, and the input is content that a process reads again. An
    /// executable file is a program, and a process that runs a script does not map it. systemd reads the
    /// file of an environment only when it starts the process.
    fn is_applied_by_reload(&self, input: &RestartInput) -> Result<bool, UnansweredReason> {
        if !self.may_reload || input.is_read_at_start || !is_content_input(input) {
            return Ok(false);
        }
        for path in &input.paths {
            if self.unit.reads_environment_from(path) {
                return Ok(false);
            }
            if let PathState::Present(info) = path_state(self.seen, &input_probe(path))?
                && info.kind == PathType::File
                && info.mode & 0o111 != 0
            {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn find_cause(&self, input: &RestartInput) -> Result<Option<RenewalCause>, UnansweredReason> {
        Ok(match self.outdated_reason(input)? {
            Some(why) => Some(RenewalCause::Seen(why)),
            None if !input.changing => None,
            None if self.recorded_input(input).is_some_and(|loaded| loaded.is_reverted_unit(input)) => None,
            None => Some(RenewalCause::Coming(format!("`{}` changes", input.step))),
        })
    }

    /// Returns the recorded data of an input if the record belongs to the current start.
    fn recorded_input(&self, input: &RestartInput) -> Option<LoadedInput> {
        LoadedInput::from_record(self.record?, &self.unit.invocation, &input.step)
    }

    /// Reports whether the process has the declared version of `input`.
    pub fn has_current_input(&self, input: &RestartInput) -> Result<bool, UnansweredReason> {
        Ok(self.outdated_reason(input)?.is_none())
    }

    /// Returns why the process may not have the declared version of an input.
    ///
    /// A process reads its input when it starts, at a reload, at a signal that leaves no trace, or at any other time.
    /// So it has the current input for certain only if that was not touched since the start or reload that forge
    /// recorded.
    fn outdated_reason(&self, input: &RestartInput) -> Result<Option<OutdatedInput>, UnansweredReason> {
        if self.is_reloaded(input)? {
            return Ok(None);
        }
        let loaded = self.recorded_input(input);
        let recorded = match &loaded {
            Some(loaded) => loaded.outdated_reason(input, self.seen)?,
            None => None,
        };
        match loaded.is_some_and(|loaded| loaded.has_path_times(input)) || recorded.is_some() {
            true => Ok(recorded),
            false => self.newer_reason(input),
        }
    }

    /// Reports whether the last reload applied the declared content to this start, and no input was touched since.
    fn is_reloaded(&self, input: &RestartInput) -> Result<bool, UnansweredReason> {
        let Some(mark) = self.mark else { return Ok(false) };
        if !self.is_applied_by_reload(input)? {
            return Ok(false);
        }
        let is_current = mark.invocation == self.unit.invocation && mark.digest == content_digest(self.inputs);
        // A clock that was set back since says nothing about the order of the reload and later changes.
        let is_current = is_current && !self.unit.is_in_future(mark.began);
        Ok(is_current && self.find_path(input, |ctime| Ok(ctime > mark.began))?.is_none())
    }

    /// Returns why `input` is newer than the start of the unit, if it is.
    fn newer_reason(&self, input: &RestartInput) -> Result<Option<OutdatedInput>, UnansweredReason> {
        let is_newer = |ctime| Ok(self.unit.may_precede(self.start_time()?, ctime));
        let path = self.find_path(input, is_newer)?;
        Ok(path.map(|path| match input.is_trace(path) {
            true => OutdatedInput::of_step(format!("`{}` was applied after it started", input.step)),
            false => OutdatedInput::of_path(path, format!("`{path}` changed after it started")),
        }))
    }

    /// Returns a path of `input` whose last change has a time that `is_newer` accepts.
    fn find_path<'i>(
        &self,
        input: &'i RestartInput,
        is_newer: impl Fn(f64) -> Result<bool, UnansweredReason>,
    ) -> Result<Option<&'i str>, UnansweredReason> {
        for path in input.watched_paths() {
            let PathState::Present(info) = path_state(self.seen, &input_probe(path))? else { continue };
            if is_newer(info.ctime)? {
                return Ok(Some(path));
            }
        }
        Ok(None)
    }

    /// Returns the start time of the process, before which it read no inputs. An old systemd reports whole seconds,
    /// rounded down, so a change within that second counts as later; on such a host the action starts no unit within
    /// the second of a change.
    fn start_time(&self) -> Result<f64, UnansweredReason> {
        let started = if self.unit.main_started > 0.0 { self.unit.main_started } else { self.unit.active_since };
        (started > 0.0)
            .then_some(started)
            .ok_or_else(|| UnansweredReason::new("systemd does not report the unit's start time"))
    }
}

/// Returns one digest of the declared inputs that a reload applies.
pub(super) fn content_digest(inputs: &[RestartInput]) -> String {
    let mut declared: Vec<String> =
        inputs.iter().filter(|i| is_content_input(i)).map(|i| format!("{}={}\n", i.step, i.digest)).collect();
    declared.sort();
    sha256_hex(declared.concat().as_bytes())
}

/// Reports whether an input is a package, whose declared digest does not cover all of its content.
fn is_package_input(input: &RestartInput) -> bool {
    input.paths.iter().any(|path| is_file_list(path))
}

/// Reports whether an input is content that a reload can apply: neither a package nor a unit, whose settings a process
/// gets only when it starts.
fn is_content_input(input: &RestartInput) -> bool {
    !is_package_input(input) && !input.paths.iter().any(|path| is_unit_path(path))
}
