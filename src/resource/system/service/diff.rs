//! How a unit's state differs from the declared one.

use crate::probe::RelatedUnit;
use crate::resource::shared::support::join_words;
use crate::resource::{AttributeChange, ChangeAspect, ProvidedItem, ResourceDiff};
use serde::Serialize;

/// How a unit differs.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(in crate::resource) struct ServiceDiff {
    /// It is masked, and has to run or to be enabled.
    pub masked: bool,
    /// Its files changed since systemd read them.
    pub files_unread: bool,
    pub enabled: Option<EnablementChange>,
    /// Its file is gone, and links still enable it.
    pub file_missing: bool,
    /// The units of `Also=`, which are enabled or disabled together with it, before the change.
    pub also: Vec<RelatedUnit>,
    pub process: Option<ProcessChange>,
    /// The unit, if it stops.
    pub stopped: Option<String>,
    /// Other active units that systemd stops together with it, or to start it.
    pub stops: Vec<RelatedUnit>,
}

/// Another enablement.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(in crate::resource) struct EnablementChange {
    /// The state that systemd reports, empty if it reports none; `None` if the unit does not exist.
    pub from: Option<String>,
    /// The targets that should start an enabled unit and do not.
    pub missing_in: Vec<String>,
    pub to: bool,
}

/// What happens to the process.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(in crate::resource) enum ProcessChange {
    /// `from` is the state before, with its details; `None` if the unit does not exist.
    Start { from: Option<String> },
    /// `from` as with `Start`.
    Stop { from: Option<String> },
    /// It runs with earlier inputs, for these reasons.
    Restart { reasons: Vec<String> },
    /// As `Restart`, but a reload is enough.
    Reload { reasons: Vec<String> },
    /// Its processes are suspended, and go on.
    Thaw,
}

impl ServiceDiff {
    /// Returns the diff of a unit that does not exist yet.
    pub fn new_unit(running: bool, enabled: Option<bool>) -> Self {
        Self {
            enabled: enabled.map(|to| EnablementChange { from: None, missing_in: Vec::new(), to }),
            process: Some(ProcessChange::activity(running, None)),
            ..Self::default()
        }
    }

    /// Returns the units of `Also=` whose enablement changes, too.
    pub fn list_changed_units(&self) -> impl Iterator<Item = &RelatedUnit> {
        let to = self.enabled.as_ref().map(|change| change.to);
        self.also.iter().filter(move |other| to == Some(!other.is_enabled()))
    }

    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Reports whether a start is all that differs.
    pub fn is_only_start(&self) -> bool {
        matches!(self.process, Some(ProcessChange::Start { .. })) && Self { process: None, ..self.clone() }.is_empty()
    }

    /// Reports whether something differs, and nothing but a restart or reload (with `renewal`) and the enablement (with
    /// `installed`).
    pub fn is_only_coming(&self, renewal: bool, installed: bool) -> bool {
        let renews = matches!(self.process, Some(ProcessChange::Restart { .. } | ProcessChange::Reload { .. }));
        let process = if renewal && renews { None } else { self.process.clone() };
        let enabled = if installed { None } else { self.enabled.clone() };
        let rest = Self { process, enabled, ..self.clone() };
        rest.is_empty() && rest != *self
    }
}

impl EnablementChange {
    /// Returns the state before in words.
    pub fn describe_before(&self) -> Option<String> {
        let state = self.from.as_deref()?;
        Some(match (state.is_empty(), self.missing_in.is_empty()) {
            (true, _) => "not enabled".to_owned(),
            (false, true) => state.to_owned(),
            (false, false) => format!("{state}, but not started by {}", join_words(&self.missing_in)),
        })
    }

    fn render_change(&self) -> AttributeChange {
        let to = if self.to { "enabled" } else { "disabled" };
        AttributeChange::new("enabled", self.describe_before().as_deref(), Some(to))
            .with_aspect(ChangeAspect::Enablement)
    }
}

impl ProcessChange {
    /// Returns the start or the stop of a unit whose state is `from`.
    pub fn activity(running: bool, from: Option<String>) -> Self {
        if running { Self::Start { from } } else { Self::Stop { from } }
    }

    fn render_change(&self) -> AttributeChange {
        match self {
            Self::Start { from } => Self::render_state(from.as_deref(), "running"),
            Self::Stop { from } => Self::render_state(from.as_deref(), "stopped"),
            Self::Restart { reasons } => AttributeChange::new("restart", Some(&reasons.join("; ")), Some("restarted")),
            Self::Reload { reasons } => AttributeChange::new("reload", Some(&reasons.join("; ")), Some("reloaded")),
            Self::Thaw => Self::render_state(Some("frozen"), "running"),
        }
    }

    fn render_state(from: Option<&str>, to: &str) -> AttributeChange {
        AttributeChange::new("state", from, Some(to)).with_aspect(ChangeAspect::RunState)
    }
}

impl ResourceDiff for ServiceDiff {
    fn other_changed_items(&self) -> Vec<ProvidedItem> {
        let enabled = self.list_changed_units().map(|other| &other.name);
        let stops = self.stops.iter().map(|other| &other.name);
        enabled.chain(stops).map(|unit| ProvidedItem::Unit(unit.clone())).collect()
    }

    fn stopped_units(&self) -> Vec<String> {
        self.stopped.iter().chain(self.stops.iter().map(|other| &other.name)).cloned().collect()
    }

    fn render_changes(&self) -> Vec<AttributeChange> {
        let mask = self.masked.then(|| {
            AttributeChange::new("mask", Some("masked"), Some("not masked")).with_aspect(ChangeAspect::Enablement)
        });
        let files = self.files_unread.then(|| AttributeChange::new("daemon-reload", Some("needed"), Some("done")));
        let enabled = self.enabled.as_ref().map(EnablementChange::render_change);
        let also = self.list_changed_units().map(|other| {
            let to = if other.is_enabled() { "disabled" } else { "enabled" };
            let change = AttributeChange::new(&format!("enabled of {}", other.name), Some(&other.file_state), Some(to));
            change.with_aspect(ChangeAspect::Enablement).with_member(&other.name)
        });
        let process = self.process.as_ref().map(ProcessChange::render_change);
        let stops = self.stops.iter();
        let stops = stops.map(|RelatedUnit { name, .. }| {
            let change = AttributeChange::new(&format!("state of {name}"), Some("active"), Some("stopped"));
            change.with_aspect(ChangeAspect::RunState).with_member(name)
        });
        mask.into_iter().chain(files).chain(enabled).chain(also).chain(process).chain(stops).collect()
    }
}
