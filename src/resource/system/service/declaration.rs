//! The declaration of a service.

use super::renewal::{ReloadMark, RunningService};
use crate::probe::{Observation, PathState, Probe, UnitState};
use crate::resource::AssessmentContext;
use crate::resource::shared::support::{path_state, sha256_hex};

#[derive(Debug)]
pub(in crate::resource) struct ServiceResource {
    pub(super) unit: String,
    pub(super) running: bool,
    /// Whether it makes no difference if the unit runs. If it does, it still has its current inputs.
    pub(super) any_state: bool,
    pub(super) enabled: Option<bool>,
    pub(super) reload: bool,
}

impl ServiceResource {
    /// Builds a service that runs and starts at boot, or neither.
    pub fn for_unit(unit: &str, on: bool) -> Self {
        Self { unit: unit.to_owned(), running: on, any_state: false, enabled: Some(on), reload: false }
    }

    /// Reports whether the unit's process has to have its current inputs, if there is one.
    pub(super) fn renews_process(&self) -> bool {
        self.running || self.any_state
    }

    pub fn probe(&self) -> Probe {
        Probe::Unit { name: self.unit.clone() }
    }

    /// Returns the path at which the action records the inputs of the last reload.
    fn reload_mark_path(&self) -> String {
        format!("/run/forge/reloaded/{}", self.unit)
    }

    /// Returns the probe of the mark. It wants the digest of an empty body, which never matches, so the result includes
    /// the body.
    pub(super) fn reload_mark_probe(&self) -> Probe {
        Probe::Path { path: self.reload_mark_path(), want: Some(sha256_hex(b"")) }
    }

    /// Returns the mark of the last reload if reloads are used.
    fn last_reload_mark<'a>(&self, seen: &'a Observation) -> Option<ReloadMark<'a>> {
        match path_state(seen, &self.reload_mark_probe()) {
            Ok(PathState::Present(info)) if self.reload => ReloadMark::parse(info.body.as_ref()?.raw()),
            _ => None,
        }
    }

    /// Returns the data that decide whether the process uses its current inputs.
    pub(super) fn running_service<'a>(
        &self,
        unit: &'a UnitState,
        seen: &'a Observation,
        cx: &AssessmentContext<'a>,
    ) -> RunningService<'a> {
        let (mark, may_reload) = (self.last_reload_mark(seen), self.reload);
        RunningService { unit, inputs: cx.inputs, seen, record: cx.record, mark, may_reload }
    }
}
